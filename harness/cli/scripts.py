"""`duologue scripts`: which session scripts there are, what is in one, and what is wrong with one."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sessions.audio import Source
    from sessions.errors import BadFile
    from sessions.scripts import Script, ScriptFile, ScriptTurn
    from sessions.speech_end import SpeechEnd

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(epilog="Write your own: docs/scripts.md tells the format.")
def scripts() -> None:
    """Session scripts: what the user side of a dialogue says.

    \b
    duologue scripts list
    duologue scripts show small-talk
    duologue scripts check my-script.yaml
    duologue scripts annotate hello.wav
    duologue scripts from-recording call.wav
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
        click.echo(f"{row['name']:<20} {row['language']:<6} {row['turns']} turns   {row['description']}")


@scripts.command(short_help="Show the turns of a script.")
@click.argument("name")
@_JSON
def show(name: str, as_json: bool) -> None:
    """Show a script, shipped (NAME) or your own (its path): its turns, when they start and where their speech ends.

    \b
    duologue scripts show trip-planning
    duologue scripts show ./my-script.yaml --json
    """
    from harness.spoken import speaker
    from sessions.scripts import load_script

    script = load_script(name, speak=speaker())
    if as_json:
        click.echo(json.dumps(_as_json(script), indent=2, ensure_ascii=False))
        return
    click.echo(f"{script.name} ({script.language})  {script.description}\n{script.path}")
    if script.instructions:
        click.echo(f"assistant: {script.instructions}")
    for number, turn in enumerate(script.turns, 1):
        for line in _shown(number, turn):
            click.echo(line)


def _shown(number: int, turn: ScriptTurn) -> list[str]:
    kind = "" if turn.kind == "speech" else f"  {turn.kind}"
    lines = [f"\nturn {number}{kind}  starts {_when(number, turn)}  {turn.audio_path.name if turn.audio_path else ''}"]
    end, rate_hz = turn.speech_end, turn.clip.rate_hz
    if turn.silence:
        lines.append(f"  {turn.clip.duration_s:.3f} s of silence")
    else:
        lines.append(f"  {turn.text or '(no text given)'}")
        lines.append(
            f"  {turn.clip.duration_s:.3f} s, speech ends at {end.offset_ns / 1e9:.3f} s "
            f"(sample {end.index_samples} at {end.rate_hz} Hz, by {end.method})"
        )
    for first, samples in turn.pauses:
        lines.append(f"  pause of {samples / rate_hz:.3f} s at {first / rate_hz:.3f} s")
    if turn.reference or turn.keywords:
        lines.append(f"  right answer: {turn.reference or ', '.join(turn.keywords)}")
    return lines + [f"  note: {note}" for note in turn.clip.notes]


def _when(number: int, turn: ScriptTurn) -> str:
    start = turn.start
    if start.after == "at":
        return f"{start.at_ms} ms after the session is ready"
    events = {
        "reply": "the session is ready" if number == 1 else "the previous reply was heard to its end",
        "onset": "the first sound of the previous reply was heard",
        "speech": "the user's own previous turn ended",
    }
    return f"{start.gap_ms} ms after {events[start.after]}"


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
    from sessions.scripts import check_script

    results = [(file, *check_script(file)) for file in files]
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


@scripts.command(short_help="Note where the speech in audio files ends.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--at",
    metavar="SAMPLE|SECONDS",
    help="The end as you know it: the index of the last speech sample (36071), or seconds (1.503 or 2s).",
)
@click.option(
    "--method",
    type=click.Choice(["energy-1", "floor-1", "silero"]),
    help="What finds it.  [default: energy-1]",
)
@click.option("--force", is_flag=True, help="Write over a note that is there.")
def annotate(files: tuple[Path, ...], at: str | None, method: str | None, force: bool) -> None:
    """Note where the speech in FILES ends, each in a small file beside it (hello.wav.speech.json).

    Every command that reads the audio then goes by that note. With --at it is your word, and exact; what a method found
    keeps the method's name, and its error stands under the tables. Levels are shown, so that you can check.

    \b
    duologue scripts annotate hello.wav
    duologue scripts annotate hello.wav --at 1.503 --force
    duologue scripts annotate recordings/*.wav --method silero
    """
    from sessions import audio, sidecar
    from sessions.errors import SetupError

    if at is not None and (method is not None or len(files) > 1):
        raise SetupError("--at is the end of one file, as you know it", "Give it with one FILE and without --method")
    for file in files:
        if sidecar.path_of(file).exists() and not force:
            raise SetupError(f"{sidecar.path_of(file)} is there already", "Write over it with --force")
    ends = []
    for file in files:
        source = audio.read(file)
        ends.append((file, source, _end_of(file, source, at, method or "energy-1")))
    for file, source, end in ends:
        written = sidecar.write(file, end)
        for line in _annotated_lines(file, source, end):
            click.echo(line)
        click.echo(f"  written: {written}")


@scripts.command("from-recording", short_help="Make a script of the user's side of a call.")
@click.argument("call", type=click.Path(path_type=Path))
@click.option("--lane", default="left", show_default=True, metavar="LANE", help="The user's: left, right, 0, 1 …")
@click.option("--other", default="", metavar="LANE", help="The other side's.  [default: the other one of two]")
@click.option(
    "--method", type=click.Choice(["silero", "energy-1"]), default="silero", show_default=True, help="Finds speech."
)
@click.option(
    "--pause",
    type=click.IntRange(0, 60_000),
    default=700,
    show_default=True,
    metavar="MS",
    help="Shorter pauses are within an utterance.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(), metavar="DIR", help="Where to write.  [default: here]"
)
@click.option("--force", is_flag=True, help="Write over a script that is there.")
def from_recording(call: Path, lane: str, other: str, method: str, pause: int, out: Path, force: bool) -> None:
    """Cut the user's side of the recording CALL into a script that can be performed again.

    Each utterance becomes an audio file with a note of where its speech ends. Where the other side is on a lane of its
    own, each turn starts as it did: after the reply, into it, or without waiting (docs/scripts.md).

    \b
    duologue scripts from-recording call.wav
    duologue scripts from-recording call.wav --lane right --out calls
    """
    from harness.from_recording import Cut, cut_call
    from harness.report.wording import plural

    written = cut_call(Cut(call, out, lane, other, method, pause, force))
    rate_hz = written.call.rate_hz
    for number, turn in enumerate(written.placed, 1):
        samples = turn.gap_samples if turn.at_samples is None else turn.at_samples
        start = f"after {turn.after}" if turn.at_samples is None else "at"
        gap = "" if samples is None else f" {samples * 1000 / rate_hz:.0f} ms"
        first_s, stop_s = turn.speech.first / rate_hz, turn.speech.stop / rate_hz
        click.echo(f"turn {number:<3} {turn.kind:<12} {first_s:9.3f} s to {stop_s:9.3f} s   starts {start}{gap}")
    for note in written.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"written: {written.script} ({plural(len(written.placed), 'turn')})")


def _end_of(file: Path, source: Source, at: str | None, method: str) -> SpeechEnd:
    from harness.speech_end_error.methods import finder
    from sessions.errors import SetupError
    from sessions.speech_end import ANNOTATION, SpeechEnd

    if at is None:
        return finder(method)(source.samples, source.rate_hz, name=str(file))
    if re.fullmatch("[0-9]+", at):
        index = int(at)
    elif re.fullmatch(r"[0-9]*\.[0-9]+s?|[0-9]+s", at):
        index = round(float(at.removesuffix("s")) * source.rate_hz) - 1
    else:
        raise SetupError(f"--at {at}: neither a sample nor seconds", "For example 36071, 1.503 or 2s")
    if not 0 <= index < len(source.samples):
        length = f"{len(source.samples)} samples at {source.rate_hz} Hz, {len(source.samples) / source.rate_hz:.3f} s"
        raise SetupError(f"--at {at} is not in {file}, which has {length}", "Name the last speech sample, from 0")
    return SpeechEnd(index, source.rate_hz, ANNOTATION)


def _annotated_lines(file: Path, source: Source, end: SpeechEnd) -> list[str]:
    """Where the end lies and how loud it is around it, for someone who checks."""
    from sessions.speech_end import ANNOTATION, block_edges, block_powers

    rate_hz, after = end.rate_hz, end.index_samples + 1
    loudest = block_powers(source.samples, block_edges(len(source.samples), rate_hz)).max()
    tenth, block = rate_hz // 10, rate_hz // 200
    levels = {
        "loudest 5 ms": _dbfs(float(loudest)),
        "100 ms before the end": _level(source, after - tenth, after),
        "last 5 ms": _level(source, after - block, after),
        "next 5 ms": _level(source, after, after + block),
        "100 ms after": _level(source, after, after + tenth),
    }
    lines = [
        f"{file}: speech ends at {end.offset_ns / 1e9:.3f} s of {len(source.samples) / rate_hz:.3f} s "
        f"(sample {end.index_samples} at {rate_hz} Hz, by {end.method})",
        f"  level in dBFS: {', '.join(f'{name} {level}' for name, level in levels.items())}",
    ]
    if end.method != ANNOTATION:
        again = f"duologue scripts annotate {shlex.quote(str(file))} --force --at {end.index_samples}"
        lines.append(f"  once you have checked it, make it yours: {again}")
    return lines


def _level(source: Source, first: int, end: int) -> str:
    import numpy as np

    from sessions.speech_end import block_powers

    first, end = max(first, 0), min(end, len(source.samples))
    if end <= first:
        return "(the file ends)"
    return _dbfs(float(block_powers(source.samples, np.array([first, end], dtype=np.int64))[0]))


def _dbfs(power: float) -> str:
    import math

    from harness.report.wording import number

    return number(10 * math.log10(power), 1) if power > 0 else "(digital silence)"


@scripts.command("speech-end-error", short_help="Measure the methods that find the end of speech.")
@_JSON
def speech_end_error(as_json: bool) -> None:
    """Measure how far each method that finds the end of speech is off, on marked audio that is built in.

    The figures that are shipped, and stand under tables, came from this command: docs/speech-end.md.

    \b
    duologue scripts speech-end-error
    duologue scripts speech-end-error --json
    """
    from harness.speech_end_error import encode_table
    from harness.speech_end_error.errors import measure_methods, table_lines

    table = measure_methods()
    click.echo(encode_table(table) if as_json else "\n".join(table_lines(table)), nl=not as_json)


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
                "kind": turn.kind,
                "audio": str(turn.audio_path) if turn.audio_path else None,
                "text": turn.text,
                "language": turn.language,
                "duration_s": turn.clip.duration_s,
                "rate_hz": turn.clip.rate_hz,
                "speech_end_sample": turn.speech_end.index_samples,
                "speech_end_s": turn.speech_end.offset_ns / 1e9,
                "speech_end_method": turn.speech_end.method,
                "onset_sample": turn.onset_sample,
                "pauses": [list(pause) for pause in turn.pauses],
                "start": {
                    "after": turn.start.after,
                    "gap_ms": turn.start.gap_ms,
                    "at_ms": turn.start.at_ms,
                    "timeout_s": turn.start.timeout_s,
                },
                "watch_ms": turn.watch_ms,
                "reference": turn.reference,
                "keywords": list(turn.keywords),
                "rubric": turn.rubric,
                "notes": list(turn.clip.notes),
                "sha256": turn.sha256,
            }
            for turn in script.turns
        ],
    }


def _check_json(file: Path, script: ScriptFile | None, mistakes: tuple[BadFile, ...]) -> dict[str, Any]:
    return {
        "file": str(file),
        "ok": script is not None,
        "mistakes": [
            {"line": mistake.line, "field": mistake.field, "problem": mistake.problem, "mend": mistake.mend}
            for mistake in mistakes
        ],
    }
