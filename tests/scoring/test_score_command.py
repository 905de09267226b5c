"""`duologue score`: what it scores, what it says, how it ends, and that nothing is scored twice."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from harness import exits
from harness.check.run import check_run
from harness.cli import demo
from harness.cli.score import score
from harness.replay.rescore import rescore
from harness.results.finish import finish_run
from harness.score import table
from harness.score.device import device_of
from harness.score.screen import Bars
from harness.score.summary import Scores
from metrics.result import Unavailable, Value
from metrics.scoring import Figure, Metric, Option, Options, Sample, Score, ScoreLine
from sessions.errors import SetupError
from sessions.runs import RunFolder
from tests.report.test_check import recorded
from tests.report.test_report_html import parse
from tests.scoring.test_folder_samples import make

FIGURE = Figure("letters", "", "none", "Letters", "by hand")
LETTERS = Metric(
    "letters",
    "1",
    "how long the text is",
    (FIGURE,),
    derive="tests.scoring.test_score_command:letters",
    options=(Option("form", "plain", "how letters are counted", ("plain", "as-published")),),
)
NEVER = Metric(
    "never", "1", "is never had", (Figure("never", "", "none", "Never", "by hand"),),
    derive="tests.scoring.test_score_command:never",
    identify="tests.scoring.test_score_command:not_here",
    options=(Option("normaliser", "", "of texts"), Option("asr", "", "who hears")),
)  # fmt: skip
PART = Metric(
    "part", "1", "is a part", (Figure("part", "", "none", "Part", "by hand"),),
    derive="tests.scoring.test_score_command:never",
    options=(Option("size", "big", "of the part"),),
    hidden=True,
)  # fmt: skip
APART = Metric(
    "apart", "1", "runs elsewhere", (Figure("apart", "", "none", "Apart", "by hand"),),
    make="tests.scoring.test_score_command:never",
    needs=("part",),
    environment="nowhere",
)  # fmt: skip
LOG = "LOG_OF_WHAT_WAS_SCORED"
"""The environment variable with the file in which a scoring process notes every sample that it really scored."""


def letters(samples: Sequence[Sample], _: Sequence[Mapping[str, Score]], options: Options) -> list[Score]:
    made = []
    for sample in samples:
        with Path(os.environ[LOG]).open("a") as log:
            log.write(f"{sample.id}\n")
        text = sample.text
        made.append(LETTERS.nothing("no text") if text is None else Score({"letters": Value(float(len(text)))}))
    return made


def never(samples: Sequence[Sample], _: Sequence[Mapping[str, Score]], options: Options) -> list[Score]:
    return [Score({"never": Unavailable("it never is")}) for _ in samples]


def not_here(options: Options) -> dict[str, str]:
    from sessions.errors import MissingExtra

    raise MissingExtra("nowhere", "score")


@pytest.fixture(autouse=True)
def metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(table.METRICS):
        monkeypatch.delitem(table.METRICS, name)
    monkeypatch.setitem(table.METRICS, "letters", "tests.scoring.test_score_command:LETTERS")
    monkeypatch.setitem(table.METRICS, "never", "tests.scoring.test_score_command:NEVER")
    monkeypatch.setitem(table.METRICS, "part", "tests.scoring.test_score_command:PART")
    monkeypatch.setitem(table.METRICS, "apart", "tests.scoring.test_score_command:APART")
    table.metric.cache_clear()
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    yield
    table.metric.cache_clear()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = recorded(tmp_path)
    finish_run(made)
    return made


def invoke(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = CliRunner().invoke(score, [str(one) for one in arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout, done.stderr


def scored() -> list[str]:
    """Every sample that was really scored so far, in order."""
    log = Path(os.environ[LOG])
    return log.read_text().split() if log.exists() else []


def interrupt_after(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C when this sample's score comes."""

    def scored(self: Bars, name: str, line: ScoreLine) -> None:
        if line.sample == first:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Bars, "scored", scored)


def scores_of(place: Path) -> Scores:
    return msgspec.json.decode((place / "scores" / "summary.json").read_bytes(), type=Scores)


def test_a_run_is_scored_and_nothing_twice(run: RunFolder) -> None:
    code, out, _ = invoke(run.path)
    assert code == 0
    assert "Letters" in out and "23.0" in out
    assert f"scores: {run.path / 'scores' / 'summary.json'}" in out
    assert f"report: {run.path / 'report.html'}" in out
    assert "Not scored: never, because this needs the package 'nowhere'" in out
    assert scored() == ["d0001/1"]  # the other reply is the same in every respect
    scores = scores_of(run.path)
    (letters,) = scores.metrics["letters"].aggregates
    assert (letters.value, letters.used, scores.samples, scores.source) == (23.0, 2, 2, "run")
    before = (run.path / "scores" / "letters.jsonl").read_bytes()
    assert invoke(run.path)[0] == 0
    assert len(scored()) == 1
    assert (run.path / "scores" / "letters.jsonl").read_bytes() == before
    assert invoke(run.path, "--again")[0] == 0
    assert len(scored()) == 2


def test_the_page_has_the_scores_and_the_run_stays_sound(run: RunFolder) -> None:
    bare = (run.path / "report.html").read_text()
    assert 'id="scores"' not in bare and 'href="#scores"' not in bare
    invoke(run.path)
    page = parse((run.path / "report.html").read_text())
    assert "scores" in {attributes.get("id") for _, attributes in page.elements}
    assert {"#scores", "#d0"} <= {attributes.get("href") for attributes in page.named("a")}
    text = (run.path / "report.html").read_text()
    assert "Scores of every turn" in text and "Letters" in text and ">1.2</a>" in text
    assert check_run(run).problems == []
    done = rescore(run)
    assert (done.changed, done.made, done.gone) == ([], [], [])
    assert "report.html" in done.same


def test_scores_that_cannot_be_read_are_told_in_the_page(run: RunFolder) -> None:
    invoke(run.path)
    (run.path / "scores" / "summary.json").write_text('{"version": 99}')
    finish_run(run)
    assert "The scores cannot be read: " in (run.path / "report.html").read_text()
    assert invoke(run.path)[0] == 0
    assert "The scores cannot be read: " not in (run.path / "report.html").read_text()


def test_a_language_is_that_of_turns_whose_script_names_none(run: RunFolder) -> None:
    invoke(run.path, "--metrics", "letters", "--language", "zh")
    lines = (run.path / "scores" / "letters.jsonl").read_text().splitlines()
    assert [json.loads(line)["language"] for line in lines] == ["zh", "zh"]


def test_json_is_all_that_is_on_standard_output(run: RunFolder) -> None:
    code, out, err = invoke(run.path, "--json", "--metrics", "letters")
    assert code == 0
    assert json.loads(out)["metrics"]["letters"]["aggregates"][0]["value"] == 23.0
    assert "report: " in err


def test_nothing_could_be_scored(run: RunFolder) -> None:
    code, out, _ = invoke(run.path, "--metrics", "never")
    assert code == exits.NOTHING_MEASURED
    assert "unavailable: " in out and "pip install 'duologue[score]'" in out
    assert scores_of(run.path).metrics["never"].aggregates[0].skipped == 2


def test_what_was_scored_before_does_not_count_as_scored(run: RunFolder) -> None:
    assert invoke(run.path, "--metrics", "letters")[0] == 0
    assert invoke(run.path, "--metrics", "never")[0] == exits.NOTHING_MEASURED


def test_options_are_kept_apart(run: RunFolder) -> None:
    invoke(run.path, "--metrics", "letters")
    invoke(run.path, "--metrics", "letters", "--as-published")
    assert len(scored()) == 2
    assert scores_of(run.path).metrics["letters"].made.options == {"form": "as-published"}
    invoke(run.path, "--metrics", "letters", "--set", "letters.form=plain")
    assert len(scored()) == 2
    assert scores_of(run.path).metrics["letters"].made.options == {"form": "plain"}


def test_interrupted_it_tells_what_is_there_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "in", "a.wav", "b.wav")
    (tmp_path / "t.json").write_text('{"a": "x", "b": "yy"}')
    out = tmp_path / "out"
    arguments = ("--audio", folder, "--text", tmp_path / "t.json", "--metrics", "letters", "--out", out)
    with monkeypatch.context() as patched:
        interrupt_after("a.wav", patched)
        code, _, err = invoke(*arguments)
    assert code == exits.INTERRUPTED
    assert "The same command goes on where this one stopped" in err
    (letters,) = scores_of(out).metrics["letters"].aggregates
    assert letters.used + letters.unavailable.get("not scored yet with these settings", 0) == 2
    assert letters.used >= 1
    assert invoke(*arguments)[0] == 0
    assert sorted(set(scored())) == ["a.wav", "b.wav"]
    assert scored().count("a.wav") == 1
    assert scores_of(out).metrics["letters"].aggregates[0].used == 2


def test_a_folder_with_texts(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", *(f"{number:04d}.wav" for number in range(10)))
    text = tmp_path / "t.jsonl"
    text.write_text("".join(f'{{"{number:04d}": "{"x" * number}"}}\n' for number in range(5)))
    code, out, _ = invoke("--audio", folder, "--text", text, "--out", tmp_path / "out", "--metrics", "letters")
    assert code == 0
    assert "10 samples. text for 5 of 10 samples." in out
    scores = scores_of(tmp_path / "out")
    (letters,) = scores.metrics["letters"].aggregates
    assert (letters.value, letters.used, letters.unavailable) == (2.0, 5, {"no text": 5})  # an empty text is data
    other = make(tmp_path / "other", "0000.wav")
    with pytest.raises(SetupError, match="holds the scores of"):
        invoke("--audio", other, "--out", tmp_path / "out", "--metrics", "letters")


def test_where_nothing_fits_there_is_no_score_at_all(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "0000.wav")
    for name, content in (("t.jsonl", '{"a": "x"}'), ("t.tsv", "0000 x\n")):
        text = tmp_path / name
        text.write_text(content)
        with pytest.raises(SetupError):
            invoke("--audio", folder, "--text", text, "--out", tmp_path / "out", "--metrics", "letters")
    assert not (tmp_path / "out").exists()
    assert scored() == []


def test_the_default_place_is_told_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "replies", "a.wav")
    with monkeypatch.context() as patched:
        interrupt_after("a.wav", patched)
        code, _, err = invoke("--audio", "replies", "--metrics", "letters")
    assert code == exits.INTERRUPTED
    place = Path(err.partition("--out ")[2].split()[0])
    assert place.parent == Path("runs") and place.name.endswith("-score-replies")
    assert err.startswith(f"scores come into {place}"), "who is killed says nothing at the end"
    assert invoke("--audio", "replies", "--metrics", "letters", "--out", place)[0] == exits.NOTHING_MEASURED


def test_a_demo_that_is_interrupted_while_it_scores_says_so(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "SCORES", ("letters", "never"))
    with monkeypatch.context() as patched:
        interrupt_after("d0001/1", patched)
        assert demo._score(run.path, "whisper-base", True, 0) == exits.INTERRUPTED
    go_on = "Go on with: duologue score "
    told = next(line for line in capsys.readouterr().err.splitlines() if go_on in line)
    code, _, err = invoke(*shlex.split(told.partition(go_on)[2]))
    assert code == 0 and "interrupted" not in err
    for measured in (0, exits.NOTHING_MEASURED):
        assert demo._score(run.path, "whisper-base", True, measured) == measured


def test_the_list() -> None:
    code, out, _ = invoke("--list")
    rows = [" ".join(row.split()) for row in out.splitlines()]
    assert code == 0
    assert "letters 1 how long the text is" in rows
    assert "not here: this needs the package 'nowhere', which is not" in " ".join(rows)
    listed = json.loads(invoke("--list", "--json")[1])
    assert {one["name"]: bool(one["missing"]) for one in listed} == {"letters": False, "never": True, "apart": True}
    assert "Run `make nowhere`" in listed[-1]["missing"]
    assert "options: part.size" in rows
    assert listed[-1]["parts"] == {"part": {"size": {"default": "big", "choices": [], "help": "of the part"}}}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "either a run folder or --audio"),
        (["RUN", "--audio", "x"], "either a run folder or --audio"),
        (["RUN", "--text", "x"], "--text goes with --audio"),
        (["RUN", "--metrics", "lettres"], "Did you mean 'letters'"),
        (["RUN", "--set", "letters"], "metric.option=value"),
        (["RUN", "--set", "letters.size=1"], "has no option 'size'"),
        (["RUN", "--set", "letters.form=none"], "Choose one of plain, as-published"),
        (["RUN", "--metrics", "never", "--set", "letters.form=plain"], "Add letters to the metrics"),
        (["RUN", "--metrics", "never", "--as-published"], "none of these metrics has an as-published form"),
        (["RUN", "--metrics", "letters", "--normaliser", "none"], "none of these metrics has an option normaliser"),
        (["RUN", "--set", "lettres.form=plain"], "Did you mean 'letters'"),
        (["RUN", "--set", "letters.form=https://me:secret@host/"], "would be written down"),
        (["RUN", "--set", "letters.form=https://me:secret@[host/"], "the address in letters.form is none. Give one"),
        (["RUN", "--metrics", "part"], "part is a part of other metrics. Choose from: letters, never, apart"),
        (["RUN", "--reference-audio", "nowhere.wav"], "there is no such file"),
        (["RUN", "--language", "english"], "--language english: no language tag. Give a tag: en, zh, pt-BR …"),
        (["RUN", "--normaliser", "none"], "nothing can be scored with --normaliser: never: this needs the package"),
        (["nowhere"], "not a run folder"),
    ],
)
def test_mistakes_are_one_line_with_the_mend(arguments: list[str], told: str) -> None:
    """All of them before the run is even looked at."""
    with pytest.raises(SetupError) as refused:
        invoke(*arguments)
    assert told in str(refused.value)
    assert "secret" not in str(refused.value)
    assert scored() == []


def test_a_voice_whose_name_is_no_text_is_refused(run: RunFolder, tmp_path: Path) -> None:
    voice = make(tmp_path, "a.wav") / "a.wav"
    odd = voice.rename(tmp_path / os.fsdecode(b"\xff.wav"))
    with pytest.raises(SetupError, match=r"xff.wav is not UTF-8. Rename it"):
        invoke(run.path, "--reference-audio", odd)


def test_another_process_has_the_run(run: RunFolder) -> None:
    with run.locked(), pytest.raises(SetupError, match="another process"):
        invoke(run.path)


def test_the_device_is_that_of_the_installed_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [device_of(name) for name in ("cpu", "cuda", "mps")] == ["cpu", "cuda", "mps"]
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.13.0+cpu")
    assert device_of("auto") == "cpu"
