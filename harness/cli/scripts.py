"""`duologue scripts`: which session scripts there are, what is in one, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sessions.errors import BadFile
    from sessions.scripts import Script

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(epilog="Write your own: docs/scripts.md tells the format.")
def scripts() -> None:
    """Session scripts: what the user side of a dialogue says.

    \b
    duologue scripts list
    duologue scripts show small-talk
    duologue scripts check my-script.yaml
    """


@scripts.command("list")
@_JSON
def list_scripts(as_json: bool) -> None:
    """List the shipped scripts.

    \b
    duologue scripts list
    duologue measure ws://localhost:8765/v1/realtime --script facts
    """
    from sessions.scripts import library, read_script_file

    rows = [
        {
            "name": name,
            "language": file.language,
            "turns": len(file.turns),
            "description": file.description,
            "path": str(path),
        }
        for name, path in library().items()
        for file in (read_script_file(path),)
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        click.echo(f"{row['name']:<16} {row['language']:<6} {row['turns']} turns   {row['description']}")


@scripts.command(short_help="Show the turns of a script.")
@click.argument("name")
@_JSON
def show(name: str, as_json: bool) -> None:
    """Show a script, shipped (NAME) or your own (its path): its turns, when they start and where their speech ends.

    \b
    duologue scripts show trip-planning
    duologue scripts show ./my-script.yaml --json
    """
    from sessions.scripts import load_script

    script = load_script(name)
    if as_json:
        click.echo(json.dumps(_as_json(script), indent=2, ensure_ascii=False))
        return
    click.echo(f"{script.name} ({script.language})  {script.description}\n{script.path}")
    if script.instructions:
        click.echo(f"assistant: {script.instructions}")
    for number, turn in enumerate(script.turns, 1):
        end = turn.speech_end
        before = "the session is ready" if number == 1 else "the reply before it was heard"
        click.echo(
            f"\nturn {number}  starts {turn.start.gap_ms} ms after {before}  {turn.audio_path.name}\n"
            f"  {turn.text or '(no text given)'}\n"
            f"  {turn.clip.duration_s:.3f} s, speech ends at {end.offset_ns / 1e9:.3f} s "
            f"(sample {end.index_samples} at {end.rate_hz} Hz, by {end.method})"
        )
        for note in turn.clip.notes:
            click.echo(f"  note: {note}")


@scripts.command(short_help="Find the mistakes in scripts.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_JSON
@click.pass_context
def check(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> None:
    """Check scripts and their audio; name line and field of each mistake. Exit code 2 if there is any.

    \b
    duologue scripts check my-script.yaml
    duologue scripts check scripts/*.yaml --json
    """
    from sessions.scripts import examine

    results = [(file, *examine(file)) for file in files]
    if as_json:
        click.echo(json.dumps([_check_json(*result) for result in results], indent=2, ensure_ascii=False))
    else:
        for file, script, mistakes in results:
            for mistake in mistakes:
                click.echo(str(mistake))
            if script is not None:
                click.echo(f"{file}: good ({len(script.turns)} turns)")
    if any(mistakes for _, _, mistakes in results):
        ctx.exit(2)


@scripts.command(short_help="Print the format as a JSON Schema.")
def schema() -> None:
    """Print the format as a JSON Schema, for editors that check YAML while you type.

    \b
    duologue scripts schema > script.schema.json
    """
    from sessions.scripts import json_schema

    click.echo(json.dumps(json_schema(), indent=2))


def _as_json(script: Script) -> dict[str, Any]:
    return {
        "name": script.name,
        "description": script.description,
        "language": script.language,
        "agent": script.instructions,
        "path": str(script.path),
        "sha256": script.sha256,
        "turns": [
            {
                "audio": str(turn.audio_path),
                "text": turn.text,
                "duration_s": turn.clip.duration_s,
                "rate_hz": turn.clip.rate_hz,
                "speech_end_sample": turn.speech_end.index_samples,
                "speech_end_s": turn.speech_end.offset_ns / 1e9,
                "speech_end_method": turn.speech_end.method,
                "start": {"after": turn.start.after, "gap_ms": turn.start.gap_ms},
                "notes": list(turn.clip.notes),
                "sha256": turn.sha256,
            }
            for turn in script.turns
        ],
    }


def _check_json(file: Path, script: Script | None, mistakes: tuple[BadFile, ...]) -> dict[str, Any]:
    return {
        "file": str(file),
        "ok": script is not None,
        "mistakes": [
            {"line": mistake.line, "field": mistake.field, "problem": mistake.problem, "mend": mistake.mend}
            for mistake in mistakes
        ],
    }
