"""`duologue score`: how good the replies of a run, or the sounds of a folder, are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from harness import exits
from sessions.errors import SetupError

if TYPE_CHECKING:
    from harness.score.asking import Asked
    from harness.score.run import Scoring
    from metrics.scoring import Metric

Told = Literal["table", "json", "nothing"]
"""What of the scores goes to standard output; with a table, where they are put too."""

_OF_FOLDERS = ("text", "reference", "out")
_EXAMPLES = """
\b
Examples:
  duologue score runs/2026-11-29T10-15-00-demo
  duologue score runs/2026-11-29T10-15-00-demo --metrics dnsmos,asr_wer
  duologue score --audio replies/ --text replies.jsonl --metrics all
  duologue score runs/2026-11-29T10-15-00-demo \\
      --asr faster-whisper:whisper-tiny.en --set asr_wer.normaliser=none
  duologue score --list
"""


@click.command(epilog=_EXAMPLES)
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--audio", type=click.Path(path_type=Path), metavar="DIR", help="Score the sounds below DIR instead.")
@click.option(
    "--text", type=click.Path(path_type=Path), metavar="FILE", help="What is said in each: .jsonl, .json, .tsv or .csv."
)
@click.option(
    "--reference", type=click.Path(path_type=Path), metavar="FILE", help="What should be said in each, likewise."
)
@click.option("--language", default="", metavar="TAG", help="Of the sounds of which nobody said: en, zh, …")
@click.option(
    "--reference-audio", type=click.Path(path_type=Path), metavar="FILE", help="The voice that is to be heard."
)
@click.option(
    "--metrics", multiple=True, metavar="NAME,…|all", help="By default all that can be had without a download."
)
@click.option("--list", "list_", is_flag=True, help="Show every metric, and what those that are not here need.")
@click.option("--asr", default="", metavar="BACKEND[:MODEL]", help="Who writes down what is heard.")
@click.option("--normaliser", default="", metavar="NAME", help="How texts are made comparable.")
@click.option("--as-published", is_flag=True, help="As the reference implementations do it, where that differs.")
@click.option("--set", "settings", multiple=True, metavar="METRIC.OPTION=VALUE", help="An option of a metric.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    show_default=True,
    help="That models run on.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where the scores of a folder go  [default: runs/<now>-score-<name>]",
)
@click.option("--again", is_flag=True, help="Score anew what was scored before.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON on standard output.")
def score(run: Path | None, list_: bool, as_json: bool, **options: Any) -> int:
    """Score what came back: quality of the speech, agreement of speech and text, voice, emotion.

    Each figure is a value, unavailable because …, or an error; the table says how many samples stand behind a mean.
    What was scored already is not scored again, so the same command goes on after an interruption; with --audio, if it
    names the same --out. Scores lie in RUN/scores, and in the run's report.html.

    Exit code: 0 scored, 1 nothing could be scored, 2 set-up error, 130 interrupted.
    """
    if list_:
        _list(as_json)
        return 0
    if (run is None) == (options["audio"] is None):
        raise SetupError("nothing to score, or two things", "Give either a run folder or --audio DIR")
    from harness.score.asking import asked, given_options
    from harness.score.samples.names import LANGUAGE_MEND, is_language, must_be_text
    from sessions.audio import check_is_file

    if options["language"] and not is_language(options["language"]):
        raise SetupError(f"--language {options['language']}: no language tag", LANGUAGE_MEND)
    if options["reference_audio"] is not None:
        check_is_file(options["reference_audio"])
        must_be_text(options["reference_audio"], "Rename it")
        options["reference_audio"] = options["reference_audio"].resolve()
    given = given_options(options["settings"])
    everywhere = {name: options[name] for name in ("asr", "normaliser") if options[name]}
    if run is not None:
        for name in _OF_FOLDERS:
            if options[name]:
                raise SetupError(f"--{name} goes with --audio", "A run knows its own; leave it out")
    what = asked(options["metrics"], given, everywhere=everywhere, as_published=options["as_published"])
    if run is not None:
        how = {name: options[name] for name in ("device", "again", "language", "reference_audio")}
        return score_run(run, what, **how, told="json" if as_json else "table")
    return _score_folder(what, options, "json" if as_json else "table")


def score_run(
    place: Path,
    what: Asked,
    *,
    device: str = "auto",
    again: bool = False,
    language: str = "",
    reference_audio: Path | None = None,
    told: Told = "table",
    go_on: str = "",
) -> int:
    """Score a run, tell it, and put it into the run's page. The exit code.

    go_on: what to do after an interruption, where the same command would do more than that.
    """
    from harness.score.run import OfAll, rebuild_report, scoring_of_run
    from sessions.runs import RunFolder

    run = RunFolder.open(place)
    with run.locked():
        run.must_hold_a_dialogue()
        voice = str(reference_audio) if reference_audio else ""
        scoring = scoring_of_run(run, what.chosen, what.left_out, OfAll(language, voice), again=again)
        code = _perform(scoring, device, told, go_on or _go_on(again))
        report = rebuild_report(run)
        click.echo(f"report: {report}", err=told != "table")
    return code


def _score_folder(what: Asked, options: dict[str, Any], told: Told) -> int:
    from harness.runs.places import made_default_place
    from harness.score.run import scoring_of_folder
    from harness.score.samples.of_folder import Known, samples_of_folder

    voice = options["reference_audio"]
    known = Known(options["text"], options["reference"], options["language"], str(voice) if voice else "")
    samples = samples_of_folder(options["audio"], known)
    out, go_on = options["out"], _go_on(options["again"])
    if out is None:
        out = made_default_place(f"score-{options['audio'].resolve().name}")
        go_on += f", with --out {out}"
        click.echo(f"scores come into {out}; to go on there: the same command with --out {out}", err=True)
    scoring = scoring_of_folder(samples, out, what.chosen, what.left_out, again=options["again"])
    return _perform(scoring, options["device"], told, go_on)


def _go_on(again: bool) -> str:
    return f"The same command{', without --again,' * again} goes on where this one stopped"


def _perform(scoring: Scoring, device: str, told: Told, go_on: str) -> int:
    """Score, then tell what is there, also of what was interrupted. go_on: how that goes on."""
    import msgspec

    from harness.report.table import Screen
    from harness.score.device import device_of
    from harness.score.engine import Resources
    from harness.score.screen import bars, only, print_scores

    interrupted = False
    try:
        with bars() as watcher:
            scoring.score(watcher, Resources(device=device_of(device)))
    except KeyboardInterrupt:
        interrupted = True
    scores = scoring.finish()
    asked_for = only(scores, scoring.names)
    if told == "json":
        click.echo(msgspec.json.encode(scores).decode())
    elif told == "table":
        print_scores(asked_for, Screen())
    if interrupted:
        click.echo(f"interrupted. {go_on}", err=True)
    click.echo(f"scores: {scoring.place / 'summary.json'}", err=told != "table")
    if interrupted:
        return exits.INTERRUPTED
    return 0 if asked_for.values else exits.NOTHING_MEASURED


def _list(as_json: bool) -> None:
    """Every metric, with what is missing where it cannot be had."""
    import json

    from harness.report.table import Screen
    from harness.score.asking import shown
    from harness.score.here import missing
    from harness.score.screen import print_metrics
    from harness.score.table import metric

    rows = [(metric(name), missing(name)) for name in shown()]
    if as_json:
        told = [_as_fields(one, why) for one, why in rows]
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    print_metrics(rows, Screen())


def _as_fields(one: Metric, missing: str) -> dict[str, Any]:
    """A metric for programs. parts: options of what it rests on, which is in no table · missing: why it cannot be had
    here, "" where it can."""
    from harness.score.table import parts_of

    return {
        "name": one.name,
        "version": one.version,
        "purpose": one.purpose,
        "figures": {figure.name: figure.formula for figure in one.figures},
        "options": _options(one),
        "parts": {part.name: _options(part) for part in parts_of(one) if part.options},
        "languages": list(one.languages),
        "missing": missing,
    }


def _options(one: Metric) -> dict[str, Any]:
    return {
        option.name: {"default": option.default, "choices": list(option.choices), "help": option.help}
        for option in one.options
    }
