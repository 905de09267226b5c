"""Paraformer through funasr's own code, on a checkpoint that the test makes: the way there and back, not its words."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.recognise.backend import Asked
from harness.recognise.metric import METRIC, identify
from harness.recognise.paraformer import Paraformer
from harness.recognise.table import chosen
from harness.score.engine.environment import NoEnvironment, python_of
from sessions.errors import JudgeError, MetricUnavailable, SetupError
from tests.scoring import tiny_paraformer
from tests.scoring.voices import noise


def options(asr: str) -> dict[str, str]:
    return {option.name: option.default for option in METRIC.options} | {"asr": asr}


@pytest.fixture(scope="module")
def python() -> str:
    try:
        found = python_of("emotion", {})
    except NoEnvironment as error:
        pytest.skip(str(error))
    code = "import funasr.models.paraformer.model, kaldi_native_fbank"
    if subprocess.run([found, "-c", code], capture_output=True, check=False).returncode:
        pytest.skip("the environment is older than Paraformer's packages: make emotion")
    return found


@pytest.fixture(scope="module")
def folder(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("funasr") / "paraformer-tiny"
    subprocess.run([python, tiny_paraformer.__file__, str(target)], check=True, capture_output=True)
    return target


@pytest.mark.embedded
def test_words_with_times(folder: Path) -> None:
    backend = Paraformer(folder, "paraformer-tiny")
    try:
        heard, again = backend.hear(noise(2000, -20.0), "zh"), backend.hear(noise(2000, -20.0), "")
        assert heard == again
        assert heard.language == "zh"
        assert heard.text == "".join(word.text for word in heard.words) != ""
        assert set(heard.text) <= set(tiny_paraformer.TOKENS)
        ends = [word.end_s for word in heard.words if word.end_s is not None]
        assert len(ends) == len(heard.words)
        assert ends == sorted(ends)
        assert ends[-1] <= 2.1
        with pytest.raises(MetricUnavailable, match="hears 'zh' alone; the sample is 'en'"):
            backend.hear(noise(500, -20.0), "en")
    finally:
        backend.close()


@pytest.mark.embedded
def test_a_process_that_ends_is_started_anew(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "paraformer-copy"
    shutil.copytree(folder, copy)
    backend = Paraformer(copy, "paraformer-tiny")
    try:
        before = backend.hear(noise(2000, -20.0), "zh")
        (copy / "model.pt").write_bytes((folder / "model.pt").read_bytes()[:2000])
        backend._process.kill()
        with pytest.raises(JudgeError, match=r"paraformer-tiny ended with code 1: \S+"):
            backend.hear(noise(2000, -20.0), "zh")
        shutil.copy(folder / "model.pt", copy)
        assert backend.hear(noise(2000, -20.0), "zh") == before
    finally:
        backend.close()


@pytest.mark.embedded
def test_a_broken_checkpoint_is_named(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes()[: 2000 if path.name == "model.pt" else None])
    with pytest.raises(JudgeError, match=r"ended with code 1: \S+"):
        Paraformer(tmp_path, "cut")


@pytest.mark.embedded
def test_what_it_depends_on(folder: Path) -> None:
    name, kind, asked = chosen(options(f"paraformer:{folder}"))
    assert (name, asked) == ("paraformer", Asked(str(folder)))
    identity = kind.identify(asked)
    assert identity["model"] == "paraformer-tiny"
    assert len(identity["weights"]) == 64
    assert identity["funasr"][0].isdigit()


@pytest.mark.parametrize(
    ("asr", "message"),
    [("paraformer", "needs a folder"), ("paraformer:/nowhere/at/all", "'/nowhere/at/all' is no folder")],
)
def test_a_model_that_is_not_there(asr: str, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        identify(options(asr))
