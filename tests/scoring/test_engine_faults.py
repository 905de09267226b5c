"""The scoring engine when workers die, fall silent, cannot be found, and when the engine itself is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.score.engine import ScoreStore
from metrics.scoring import Sample
from sessions.errors import SetupError
from tests.scoring.engine_metrics import LOG
from tests.scoring.engine_rig import QUICK, Memory, figures, log, score, scorings, sound, sounds, told

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    yield


def by_sample(folder: Path, metric: str, figure: str = "") -> dict[str, float | str]:
    return {name: told(value) for name, value in figures(folder, metric, figure).items()}


def test_a_killed_worker_is_named_and_the_rest_go_on(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None, None, "kill", None, None, None])
    memory = score(samples, ["batched", "loudest"], tmp_path / "scores")
    for metric in ("batched", "loudest"):
        found = by_sample(tmp_path / "scores", metric, "loudest")
        assert found.pop("s2") == (
            "error: its worker was killed by signal 9 (SIGKILL), as the system does when memory runs out, "
            "also when it was tried alone"
        )
        assert found == {f"s{k}": round(0.01 * (k + 1), 4) for k in (0, 1, 3, 4, 5)}
    assert scorings().count("s2") == 4, "twice by each metric"
    assert any("batched: its worker was killed by signal 9" in said for said in memory.remarks)
    assert any("batched: s2 is given up" in said for said in memory.remarks)


def test_who_is_killed_once_is_scored_the_second_time(tmp_path: Path) -> None:
    score(sounds(tmp_path, ["kill once"]), ["loudest"], tmp_path / "scores")
    assert by_sample(tmp_path / "scores", "loudest") == {"s0": 0.01}
    assert scorings() == ["s0", "s0"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hang", "its worker gave no answer within 3 s, also when it was tried alone"),
        ("raise", "RuntimeError: this sound is not liked"),
        ("nan", "it came out as nan"),
        ("short", "it gave 0 scores for 1 samples"),
        ("exit", "its worker ended with code 3: first words / the last words, also when it was tried alone"),
    ],
)
def test_what_a_worker_may_do_to_one_sound(tmp_path: Path, text: str, words: str) -> None:
    resources = replace(QUICK, silent_s=3, silent_per_s=0) if text == "hang" else QUICK
    score(sounds(tmp_path, [None, text, None]), ["batched"], tmp_path / "scores", resources=resources)
    found = by_sample(tmp_path / "scores", "batched", "loudest")
    assert found == {"s0": 0.01, "s1": f"error: {words}", "s2": 0.03}


def test_memory_that_runs_out_in_python_is_told_and_survived(tmp_path: Path) -> None:
    score(sounds(tmp_path, [None, "hungry", None]), ["hungry"], tmp_path / "scores")
    found = by_sample(tmp_path / "scores", "hungry", "loudest")
    assert found["s0"] == 0.01 and found["s2"] == 0.03
    assert str(found["s1"]).startswith("error: ") and "memory" in str(found["s1"]).lower()


def test_errors_are_tried_again_by_the_next_scoring(tmp_path: Path) -> None:
    samples = sounds(tmp_path, ["kill once", "kill"])
    score(samples, ["twice"], tmp_path / "scores")
    assert str(by_sample(tmp_path / "scores", "twice")["s1"]).startswith("error: loudest failed: its worker was killed")
    (Path(os.environ[LOG] + ".flag")).unlink()
    memory = score([replace_text(samples[1], "kill once")], ["twice"], tmp_path / "scores")
    assert by_sample(tmp_path / "scores", "twice") == {"s0": 0.02, "s1": 0.04}
    assert not memory.kept_


def replace_text(sample: Sample, text: str) -> Sample:
    return Sample(sample.id, sample.audio, sample.group, sample.order, text=text)


def test_a_metric_whose_worker_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    memory = score(sounds(tmp_path, ["kill"] * 12), ["loudest"], tmp_path / "scores")
    found = by_sample(tmp_path / "scores", "loudest")
    assert len(found) == 12 and all(str(value).startswith("error: ") for value in found.values())
    assert len(scorings()) == 10
    assert any("its worker died 10 times in a row" in said for said in memory.remarks)


def test_what_derives_may_die_or_raise_too(tmp_path: Path) -> None:
    samples = [
        Sample(f"s{k}", str(sound(tmp_path / f"{k}.wav", 0.01 * (k + 1))), reference=reference)
        for k, reference in enumerate([None, "kill", "raise", None])
    ]
    score(samples, ["twice"], tmp_path / "scores")
    assert by_sample(tmp_path / "scores", "twice") == {
        "s0": 0.02,
        "s1": "error: its worker was killed by signal 9 (SIGKILL), as the system does when memory runs out, "
        "also when it was tried alone",
        "s2": "error: ValueError: nothing to double",
        "s3": 0.08,
    }


def test_of_a_group_those_that_have_a_score_are_compared(tmp_path: Path) -> None:
    samples = sounds(tmp_path, ["raise", None, None], group="d1")
    score(samples, ["above_first"], tmp_path / "scores")
    found = by_sample(tmp_path / "scores", "above_first")
    assert found["s1"] == 0.0 and found["s2"] == 0.02
    assert found["s0"] == "error: twice failed: loudest failed: RuntimeError: this sound is not liked"


def test_after_a_fault_on_a_device_the_next_sound_meets_a_new_process(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None, None, None, "sicken"])
    score(samples, ["sick"], tmp_path / "scores", resources=replace(QUICK, device="cuda"))
    found = by_sample(tmp_path / "scores", "sick", "loudest")
    assert found == {"s0": 0.01, "s1": 0.02, "s2": 0.03, "s3": "error: RuntimeError: device-side assert triggered"}


@pytest.mark.parametrize(("metric", "text"), [("sick", "refuse"), ("batched", "raise")])
def test_no_process_is_replaced_that_cannot_be_at_fault(tmp_path: Path, metric: str, text: str) -> None:
    resources = replace(QUICK, device="cuda")
    score(sounds(tmp_path, [None, text, text]), [metric], tmp_path / "scores", resources=resources)
    assert by_sample(tmp_path / "scores", metric, "loudest")["s0"] == 0.01
    assert log().count("loaded") == 1


# ---- another environment ----------------------------------------------------------------------------------------


def other_python(folder: Path) -> Path:
    """A python that tells which it is. As an environment of its own would, it has numpy and msgspec, none of ours."""
    site = next(path for path in sys.path if path.endswith("site-packages"))
    python = folder / "other" / "bin" / "python"
    python.parent.mkdir(parents=True)
    path = f"$PYTHONPATH:{site}:{folder}/more"
    python.write_text(f'#!/bin/sh\nexport THIS_PYTHON=other PYTHONPATH="{path}"\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    (folder / "more").mkdir()
    (folder / "more" / "tests").symlink_to(ROOT / "tests")
    return python


@pytest.mark.parametrize("how", ["given", "variable", "beside"])
def test_a_metric_runs_in_an_environment_of_its_own(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    python = other_python(tmp_path)
    resources = QUICK
    if how == "given":
        resources = replace(QUICK, worker_python={"elsewhere": str(python)})
    elif how == "variable":
        monkeypatch.setenv("DUOLOGUE_ENV_ELSEWHERE", str(tmp_path / "other"))
    else:
        (tmp_path / ".venv-elsewhere").symlink_to(tmp_path / "other")
        monkeypatch.chdir(tmp_path)
    memory = score(sounds(tmp_path, [None]), ["elsewhere", "loudest"], tmp_path / "scores", resources=resources)
    (line,) = memory.lines["elsewhere"]
    assert line.score.details["python"] == "other" and line.identity == {"weights": "none"}
    assert str(ROOT) not in line.score.details["path"], "of our own environment it sees our packages alone"
    assert by_sample(tmp_path / "scores", "loudest") == {"s0": 0.01}


def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    memory = score(sounds(tmp_path, [None] * 2), ["elsewhere"], tmp_path / "scores")
    found = by_sample(tmp_path / "scores", "elsewhere", "loudest")
    assert set(found.values()) == {
        "unavailable because it runs in an environment of its own, .venv-elsewhere, which is not there. "
        "Run `make elsewhere`, or name one by DUOLOGUE_ENV_ELSEWHERE"
    }
    assert len(memory.remarks) == 1


def test_an_environment_without_what_is_needed(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    resources = replace(QUICK, worker_python={"elsewhere": str(python)})
    score(sounds(tmp_path, [None]), ["elsewhere"], tmp_path / "scores", resources=resources)
    (found,) = by_sample(tmp_path / "scores", "elsewhere", "loudest").values()
    assert str(found).startswith("error: its worker ended with code 1") or "ended with code 1" in str(found)
    assert "No module named" in str(found)


class Watching(Memory):
    """alive: processes that were noted, and are there when it is told something."""

    alive: list[str]

    def remark(self, text: str) -> None:
        super().remark(text)
        pids = [line.removeprefix("pid ") for line in log() if line.startswith("pid ")]
        assert pids
        self.alive = [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("metric", ["refused_elsewhere", "doubtful"])
def test_who_is_of_no_more_use_is_gone_before_that_is_told(tmp_path: Path, metric: str) -> None:
    resources = replace(QUICK, worker_python={"elsewhere": str(other_python(tmp_path))})
    watching = Watching()
    score(sounds(tmp_path, [None]), [metric], tmp_path / "scores", resources=resources, memory=watching)
    assert len(watching.remarks) == 1 and not watching.alive


def test_a_mistake_that_is_found_late_leaves_nobody_behind(tmp_path: Path) -> None:
    resources = replace(QUICK, worker_python={"elsewhere": str(other_python(tmp_path))})
    with pytest.raises(SetupError, match="that is no recogniser"):
        score(sounds(tmp_path, [None]), ["elsewhere", "misled"], tmp_path / "scores", resources=resources)
    assert not leftovers(tmp_path)


# ---- the engine itself ------------------------------------------------------------------------------------------

_SCORE = """
import sys
from pathlib import Path
from metrics.scoring import Sample
from tests.scoring.engine_rig import score
folder = Path(sys.argv[1])
samples = [Sample(path.stem, str(path), group="all") for path in sorted(folder.glob("*.wav"))]
score(samples, ["above_first", "batched"], folder / "scores")
"""


def engine(folder: Path, **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _SCORE, str(folder)], cwd=ROOT, env={**os.environ, **more}, stderr=subprocess.PIPE
    )


def wait_for_scorings(count: int, running: subprocess.Popen[bytes]) -> None:
    while len(scorings()) < count:
        assert running.poll() is None, running.communicate()
        threading.Event().wait(0.01)


def many(folder: Path, count: int) -> None:
    for k in range(count):
        sound(folder / f"s{k:03}.wav", 0.001 * (k + 1), seconds=0.05)


def leftovers(folder: Path) -> list[str]:
    """Processes that still work for an engine of this test: each holds the test's log in its environment."""
    mark = f"{LOG}={folder / 'log'}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in process.read_bytes().split(b"\0") and process.parent.name != str(os.getpid()):
                found.append((process.parent / "cmdline").read_text())
        except OSError:
            continue
    return found


def no_leftovers(folder: Path) -> None:
    for _ in range(1000):
        if not leftovers(folder):
            return
        threading.Event().wait(0.02)
    pytest.fail(f"still running: {leftovers(folder)}")


def test_killed_in_the_middle_it_goes_on_and_scores_nothing_twice_that_was_kept(tmp_path: Path) -> None:
    many(tmp_path, 300)
    running = engine(tmp_path)
    wait_for_scorings(150, running)
    running.kill()
    running.communicate()
    no_leftovers(tmp_path)
    scores = ScoreStore(tmp_path / "scores")
    kept = [line.sample for metric in ("loudest", "batched") for line in scores.lines(metric)]
    before = scorings()
    running = engine(tmp_path)
    _, said = running.communicate()
    assert running.returncode == 0, said.decode()
    after = scorings()[len(before) :]
    assert sorted(after + kept) == sorted(f"s{k:03}" for k in range(300) for _ in range(2))
    for metric in ("loudest", "batched", "twice", "above_first"):
        assert len(by_sample(tmp_path / "scores", metric, metric if metric != "batched" else "loudest")) == 300
    assert by_sample(tmp_path / "scores", "above_first")["s299"] == pytest.approx(2 * 0.299)


def test_ctrl_c_keeps_what_there_is_and_leaves_nothing_behind(tmp_path: Path) -> None:
    many(tmp_path, 300)
    spool = tmp_path / "tmp"
    spool.mkdir()
    running = engine(tmp_path, TMPDIR=str(spool))
    wait_for_scorings(100, running)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert said.decode().strip().endswith("KeyboardInterrupt")
    no_leftovers(tmp_path)
    assert not [path for path in spool.iterdir() if path.is_dir()]
    kept = sum(1 for metric in ("loudest", "batched") for _ in ScoreStore(tmp_path / "scores").lines(metric))
    assert len(scorings()) - kept <= 5, "only what was under way is lost"


def test_a_full_disk_is_one_line_and_what_was_kept_stays(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 20)
    score(samples[:10], ["loudest"], tmp_path / "scores")
    kept = by_sample(tmp_path / "scores", "loudest")
    limit = (tmp_path / "scores" / "loudest.jsonl").stat().st_size + 700
    code = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n" + _SCORE.replace(
        '"above_first", "batched"', '"loudest"'
    ).replace("import score", "import score, QUICK").replace(
        'scores")', 'scores", resources=__import__("dataclasses").replace(QUICK, spool=str(folder)))'
    ).replace(', group="all"', "")
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith(f"sessions.errors.SetupError: cannot write {tmp_path / 'scores'}")
    assert "Free some space, then give the same command again" in last
    assert by_sample(tmp_path / "scores", "loudest").items() >= kept.items()
    score(samples, ["loudest"], tmp_path / "scores")
    assert len(by_sample(tmp_path / "scores", "loudest")) == 20
    assert log()
