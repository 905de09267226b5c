"""Emotion: the nine labels, emotion2vec by funasr's own code on tiny models, and URO-Bench's GenEmotion."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
import soundfile

from harness.score.counted import NOT_SCORED
from harness.score.engine import Resources, ScoreStore, chosen_with_needs, score_samples
from harness.score.engine.environment import NoEnvironment, python_of
from harness.score.table import metric
from metrics.emotion.emotion2vec import METRIC as EMOTION
from metrics.emotion.emotion2vec import identify
from metrics.emotion.gen_emotion import METRIC as GEN_EMOTION
from metrics.emotion.gen_emotion import derive, summarise
from metrics.emotion.labels import EMOTIONS, name_of, refusal
from metrics.emotion.places import folder_of, hashes
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Sample, Score, ScoreLine
from metrics.transcript import WORDS, Transcript
from sessions.errors import MissingWeights, SetupError
from tests.scoring.engine_rig import Memory
from tests.scoring.tiny_emotion2vec import LABELS

ROOT = Path(__file__).parents[2]


def value(measured: Measured) -> float:
    assert isinstance(measured, Value), measured
    return measured.value


def test_both_metrics_are_in_the_table() -> None:
    assert metric("emotion") is EMOTION
    assert metric("gen_emotion") is GEN_EMOTION
    assert [figure.name for figure in EMOTION.figures] == ["asked", *EMOTIONS]


# Labels.


def test_the_published_labels_are_the_nine_in_order() -> None:
    assert tuple(map(name_of, LABELS)) == EMOTIONS
    assert refusal(LABELS) == ""
    assert refusal(EMOTIONS) == ""


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (LABELS[:5], "it gives 5 classes (angry, disgusted, fearful, happy, neutral), not the published nine (angry, "),
        ((*LABELS, "calm"), "it gives 10 classes ("),
        ((), "it gives 0 classes (none), not "),
        (
            (LABELS[1], LABELS[0], *LABELS[2:]),
            "its nine emotions come in another order than the published one: place 0",
        ),
        (("angry/生气", *LABELS[1:]), "it gives 9 classes (生气, disgusted"),
    ],
    ids=["five", "ten", "none", "another order", "turned round"],
)
def test_any_other_list_is_refused(labels: tuple[str, ...], why: str) -> None:
    assert refusal(labels).startswith(why)


# Where a model is looked for. None of this needs funasr.


def test_a_folder_is_never_taken_for_a_name_on_a_hub(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"there is no folder '.*typo' with an emotion2vec model"):
        folder_of(str(tmp_path / "typo"), "ms")
    with pytest.raises(SetupError, match="there is no folder 'iic/emotion2vec_plus_lage'"):
        folder_of("iic/emotion2vec_plus_lage", "ms")
    (tmp_path / "config.yaml").write_text("model: Emotion2vec\n")
    with pytest.raises(MissingWeights, match=r"has no model\.pt"):
        folder_of(str(tmp_path), "ms")


@pytest.mark.parametrize(
    ("hub", "command"),
    [
        ("ms", ".venv-emotion/bin/modelscope download iic/emotion2vec_plus_base"),
        ("hf", "hf download emotion2vec/emotion2vec_plus_base"),
    ],
)
def test_what_is_not_here_is_told_with_what_brings_it(hub: str, command: str, tmp_path: Path, monkeypatch: Any) -> None:
    """No hub is asked, so none can be away: port 9 (discard) would answer nobody."""
    for name in ("MODELSCOPE_CACHE", "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("MODELSCOPE_ENDPOINT", "HF_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with pytest.raises(MissingWeights) as raised:
        identify({"model": "iic/emotion2vec_plus_base", "hub": hub})
    assert str(raised.value).startswith(f"iic/emotion2vec_plus_base is not on this machine. Run: {command}")
    assert "--set emotion.model=FOLDER" in str(raised.value)


@pytest.mark.parametrize(
    ("hub", "below"),
    [
        ("ms", "models/iic/emotion2vec_plus_base"),
        ("ms", "iic/emotion2vec_plus_base"),
        ("ms", "models/iic--emotion2vec_plus_base/snapshots/master"),
        ("hf", "models--emotion2vec--emotion2vec_plus_base/snapshots/0123"),
    ],
)
def test_what_a_hubs_client_has_downloaded_is_used(hub: str, below: str, tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("MODELSCOPE_CACHE", "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    folder = tmp_path / below
    folder.mkdir(parents=True)
    for name in ("config.yaml", "model.pt", "tokens.txt"):
        (folder / name).write_text(name)
    assert folder_of("iic/emotion2vec_plus_base", hub) == folder
    assert set(hashes(folder)) == {"weights config.yaml", "weights model.pt", "weights tokens.txt"}


# funasr itself, in the environment that `make emotion` makes.


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return python_of("emotion", {})
    except NoEnvironment as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def tried(python: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    """The folder with the tiny models, and what came of each."""
    root = tmp_path_factory.mktemp("emotion2vec")
    ran = subprocess.run(
        [python, "-m", "tests.scoring.tiny_emotion2vec", str(root)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return root, json.loads(ran.stdout)


Tried = tuple[Path, Mapping[str, Any]]


@pytest.mark.peer
def test_the_shares_are_those_of_funasr(tried: Tried) -> None:
    whole = tried[1]["whole"]
    score = msgspec.convert(whole["scores"]["2 s"], Score)
    shares = [value(score.figures[name]) for name in EMOTIONS]
    assert whole["raw"]["labels"] == list(LABELS)
    assert shares == pytest.approx(whole["raw"]["scores"], abs=1e-6)
    assert sum(shares) == pytest.approx(1, abs=1e-5)
    assert score.figures["asked"] == score.figures["happy"]
    assert score.details["top"] == EMOTIONS[shares.index(max(shares))]
    assert whole["identity"]["funasr"] == "1.4.16" and len(whole["identity"]["weights model.pt"]) == 64


@pytest.mark.peer
def test_the_checkpoint_is_what_is_scored_with(tried: Tried) -> None:
    whole, other = tried[1]["whole"], tried[1]["other-weights"]
    assert whole["raw"]["scores"] != pytest.approx(other["raw"]["scores"], abs=1e-3)
    assert whole["identity"]["weights model.pt"] != other["identity"]["weights model.pt"]


@pytest.mark.peer
def test_a_checkpoint_without_what_only_training_needs_is_whole(tried: Tried) -> None:
    """So are the published ones: their settings ask for a decoder."""
    whole, published = tried[1]["whole"], tried[1]["no-decoder"]
    assert "refused" not in published, published
    assert published["scores"] == whole["scores"]
    assert published["raw"]["scores"] == pytest.approx(whole["raw"]["scores"], abs=1e-6)


@pytest.mark.peer
def test_sounds_that_say_nothing_are_not_judged(tried: Tried) -> None:
    scores = msgspec.convert(tried[1]["whole"]["scores"], dict[str, Score])
    assert set(scores["0.1 s"].figures.values()) == {Unavailable("shorter than 0.5 s")}
    assert set(scores["silence"].figures.values()) == {
        Unavailable("silence: nothing is above the level of the gate (gate/1)")
    }


@pytest.mark.peer
def test_a_long_sound_is_judged_in_windows(tried: Tried) -> None:
    scores = msgspec.convert(tried[1]["whole"]["scores"], dict[str, Score])
    assert scores["70 s"].flags == ["windowed: 3 of 23.3 s"]
    assert sum(value(scores["70 s"].figures[name]) for name in EMOTIONS) == pytest.approx(1, abs=1e-5)
    assert scores["2 s"].flags == []


@pytest.mark.peer
@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("truncated", "model.pt is no readable checkpoint ("),
        ("other-layout", "model.pt is of another layout: "),
        ("other-order", "its nine emotions come in another order than the published one: place 0 is 'disgusted'"),
        ("five-classes", "it gives 5 classes (angry, happy, neutral, sad, unknown), not the published nine"),
        ("no-labels", "has no tokens.txt"),
    ],
)
def test_a_folder_that_is_no_such_model_is_refused(folder: str, why: str, tried: Tried) -> None:
    told = tried[1][folder]
    assert why in told["refused"]
    assert told["kind"] in ("MetricUnavailable", "MissingWeights")
    assert "\n" not in told["refused"]


@pytest.mark.peer
def test_emotion_runs_through_the_engine_in_its_own_environment(python: str, tried: Tried, tmp_path: Path) -> None:
    library = ROOT / "sessions/library/facts"
    samples = [Sample(f"s{n}", str(library / f"turn-{n}.flac"), emotion="sad") for n in (1, 2)]
    options = {"emotion": {"model": str(tried[0] / "whole"), "hub": "ms"}}
    store, memory = ScoreStore(tmp_path / "scores"), Memory()
    with store.writing():
        chosen = chosen_with_needs(["emotion"], options)
        resources = Resources(threads=1, decoders=1, worker_python={"emotion": python})
        score_samples(samples, chosen, store, watcher=memory, resources=resources)
    lines = list(store.lines("emotion"))
    assert memory.remarks == []
    assert [line.sample for line in lines] == ["s1", "s2"]
    for line in lines:
        assert 0 < value(line.score.figures["asked"]) < 1
        assert line.identity["funasr"] == "1.4.16"


class Hub(http.server.BaseHTTPRequestHandler):
    """What the clients of ModelScope and Hugging Face ask for: a list of files, then each of them."""

    files: ClassVar[dict[str, bytes]] = {}
    commit: ClassVar[str] = "0123456789abcdef" * 2 + "01234567"

    def do_GET(self) -> None:
        asked = urllib.parse.urlparse(self.path)
        if asked.path.endswith("/repo/files"):
            rows = [
                {"Name": own, "Path": own, "Type": "blob", "Size": len(raw), "Sha256": hashlib.sha256(raw).hexdigest()}
                for own, raw in self.files.items()
            ]
            self._answer(200, json.dumps({"Code": 200, "Success": True, "Data": {"Files": rows}}).encode())
        elif "/api/models/emotion2vec/" in asked.path:
            tree = [{"type": "file", "path": own, "size": len(raw), "oid": own} for own, raw in self.files.items()]
            siblings = [{"rfilename": own} for own in self.files]
            about = {"id": "emotion2vec/emotion2vec_plus_base", "sha": self.commit, "siblings": siblings}
            self._answer(200, json.dumps(tree if "/tree/" in asked.path else about).encode())
        else:
            named = urllib.parse.parse_qs(asked.query).get("FilePath", [asked.path.rpartition("/")[2]])[0]
            self._answer(200 if named in self.files else 404, self.files.get(named, b""))

    def do_HEAD(self) -> None:
        named = urllib.parse.urlparse(self.path).path.rpartition("/")[2]
        self._answer(200 if named in self.files else 404, self.files.get(named, b""))

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.mark.peer
@pytest.mark.sockets
@pytest.mark.parametrize(("hub", "client"), [("ms", "modelscope"), ("hf", "hf")])
def test_what_a_hubs_own_client_brings_is_found(
    hub: str, client: str, python: str, tried: Tried, tmp_path: Path
) -> None:
    """By the very command that is told, and once it is here the hub may be away."""
    Hub.files = {path.name: path.read_bytes() for path in (tried[0] / "whole").iterdir()}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MODELSCOPE_ENDPOINT": address,
        "MODELSCOPE_CACHE": str(tmp_path),
        "HF_ENDPOINT": address,
        "HF_HUB_CACHE": str(tmp_path),
        "HF_HUB_OFFLINE": "0",
        "no_proxy": "127.0.0.1",
    }
    code = (
        "import json, sys\nfrom metrics.emotion.emotion2vec import identify\n"
        f"json.dump(identify({{'model': 'iic/emotion2vec_plus_base', 'hub': '{hub}'}}), sys.stdout)"
    )

    def ran(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    told = ran(python, "-c", code).stderr
    (arguments,) = re.findall(rf"Run: (?:\S+/)?{client} (download \S+?)[; ]", told)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        own = Path(sys.executable if client == "hf" else python).parent / client
        brought = ran(str(own), *arguments.split())
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    assert brought.returncode == 0, brought.stderr[-2000:]
    found = ran(python, "-c", code)
    assert found.returncode == 0, found.stderr[-2000:]
    assert json.loads(found.stdout) == {**hashes(tried[0] / "whole"), "funasr": "1.4.16"}


# GenEmotion.


def gen(answer: str, target: str | None, share: Measured, language: str = "en", emotion: str = "happy") -> Score:
    sample = Sample("a", "", language=language, reference=target, emotion=emotion)
    said = Score({WORDS: Value(1)}, [], msgspec.to_builtins(Transcript(answer, language)))
    return derive([sample], [{"emotion": Score({"asked": share}), "asr": said}], {})[0]


@pytest.mark.parametrize(
    ("answer", "target", "language", "published", "corrected"),
    [
        ("What a lovely day!", "what a lovely day", "en", 80, 80),
        # Said twice: half of the answer is wrong, or as many words too many as the target has.
        ("what a lovely day what a lovely day", "what a lovely day", "en", 40, 0),
        # Half of it: as many words are missing as the answer has, or half of the target's.
        ("what a", "what a lovely day", "en", 0, 40),
        ("今天真好", "今天真好。", "zh-CN", 80, 80),
        ("今天真好今天真好", "今天真好", "zh", 40, 0),
        ("", "what a lovely day", "en", 0, 0),
    ],
)
def test_both_forms_of_gen_emotion(answer: str, target: str, language: str, published: float, corrected: float) -> None:
    score = gen(answer, target, Value(0.8), language)
    assert value(score.figures["gen_emotion"]) == pytest.approx(published)
    assert value(score.figures["gen_emotion_corrected"]) == pytest.approx(corrected)


def test_a_reply_that_cannot_be_scored_says_why() -> None:
    nothing = {"gen_emotion", "gen_emotion_corrected"}
    for score, why in (
        (gen("a", "a", Value(1), emotion=""), Unavailable("no emotion is asked for")),
        (gen("a", None, Value(1)), Unavailable("there is no reference sentence")),
        (gen("a", "a", Value(1), language="fr"), Unavailable("URO-Bench scores en and zh, not fr")),
        (gen("a", "a", Failed("the worker died")), Failed("emotion failed: the worker died")),
        (gen("a", "a", Unavailable("shorter than 0.5 s")), Unavailable("emotion: shorter than 0.5 s")),
    ):
        assert score.figures == dict.fromkeys(nothing, why)


def test_silence_says_none_of_the_words_whatever_its_emotion() -> None:
    silence = Unavailable("silence: nothing is above the level of the gate (gate/1)")
    score = gen("", "what a lovely day", silence)
    assert [value(one) for one in score.figures.values()] == [0, 0]
    score = gen("what", "what a lovely day", silence)
    assert score.figures["gen_emotion"] == Value(0), "three words are missing from an answer of one"
    assert score.figures["gen_emotion_corrected"] == Unavailable(f"emotion: {silence.because}")


@pytest.mark.peer
def test_one_reply_without_a_voice_does_not_cost_the_set_its_score(python: str, tried: Tried, tmp_path: Path) -> None:
    """All that is needed runs as it would: emotion in its environment, a recogniser, then what is derived of both."""
    spoken = ROOT / "sessions/library/facts/turn-1.flac"
    wave, rate_hz = soundfile.read(spoken, dtype="float32")
    soundfile.write(tmp_path / "silent.wav", 0 * wave, rate_hz)
    soundfile.write(tmp_path / "short.wav", wave[rate_hz // 2 : rate_hz * 4 // 5], rate_hz)
    said = "What is the capital city of France?"
    samples = [
        Sample("spoken", str(spoken), language="en", reference=said, emotion="sad"),
        Sample("silent", str(tmp_path / "silent.wav"), language="en", reference=said, emotion="sad"),
        Sample("short", str(tmp_path / "short.wav"), language="en", reference="good morning", emotion="sad"),
        Sample("unasked", str(tmp_path / "silent.wav"), language="en", reference=said),
    ]
    options = {"emotion": {"model": str(tried[0] / "whole")}}
    store, memory = ScoreStore(tmp_path / "scores"), Memory()
    with store.writing():
        chosen = chosen_with_needs(["gen_emotion"], options)
        score_samples(samples, chosen, store, watcher=memory, resources=Resources(worker_python={"emotion": python}))
    assert memory.remarks == []
    scored = {line.sample: line.score.figures["gen_emotion"] for line in store.lines("gen_emotion")}
    assert 0 < value(scored["spoken"]) < 100
    assert scored["silent"] == scored["short"] == Value(0)
    assert scored["unasked"] == Unavailable("no emotion is asked for")
    (aggregate,) = summarise(store.lines("gen_emotion"))
    assert aggregate.value == pytest.approx(value(scored["spoken"]) / 3)


def line(measured: Measured) -> ScoreLine:
    return ScoreLine("key", "sample", "gen_emotion", "2", Score({"gen_emotion": measured}))


def test_the_score_of_a_set_is_over_all_that_were_asked_for_an_emotion() -> None:
    lines = [line(Value(80)), line(Value(0)), line(Unavailable("no emotion is asked for"))]
    (aggregate,) = summarise(lines)
    assert (aggregate.figure, aggregate.value) == ("gen_emotion_set", 40)
    assert (aggregate.used, aggregate.skipped, aggregate.failed) == (2, 1, 0)


@pytest.mark.parametrize("because", ["emotion: it is not here", "the turn failed: time-out", NOT_SCORED])
def test_a_set_of_which_a_reply_could_not_be_scored_has_no_score(because: str) -> None:
    """A reply that was never heard is none that said nothing."""
    (aggregate,) = summarise([line(Value(80)), line(Unavailable(because)), line(Failed("x"))])
    assert aggregate.value is None
    assert (aggregate.used, aggregate.skipped, aggregate.failed) == (1, 1, 1)
    assert (aggregate.unavailable, aggregate.errors) == ({because: 1}, {"x": 1})
    assert summarise([line(Unavailable(because))] * 3) == [], "nothing is made up of nothing"
