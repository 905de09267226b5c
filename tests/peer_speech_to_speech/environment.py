"""The virtual environment in which the foreign server runs. Its packages would clash with ours.

`python -m tests.peer_speech_to_speech.environment` makes it, or finds it ready. A stamp over the pinned requirements
and the Python version, written last, says that it is whole; without it everything is made anew.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from sessions.errors import SetupError

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
FOLDER = Path(__file__).parents[2] / ".venv-peer-speech-to-speech"
_PACKAGE = ("Collecting ", "Processing ")
_MEND = "Check that the package index is reachable, then run: python -m tests.peer_speech_to_speech.environment"


def interpreter(folder: Path = FOLDER) -> Path:
    """The environment's Python."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def is_ready(folder: Path = FOLDER, requirements: Path = REQUIREMENTS) -> bool:
    """Whether the environment is whole and made of these requirements."""
    stamp = folder / "stamp"
    return stamp.is_file() and stamp.read_text() == _stamp(requirements) and interpreter(folder).exists()


def make(say: Callable[[str], None], folder: Path = FOLDER, requirements: Path = REQUIREMENTS) -> Path:
    """The environment's Python, made first where it is missing or outdated.

    say: takes lines of progress. Raises `SetupError` with what venv or pip said, in one line.
    """
    if is_ready(folder, requirements):
        return interpreter(folder)
    say(f"making {folder.name} (a foreign server for the tests; about 280 MB, once)")
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], say)
    pip = [str(interpreter(folder)), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--no-deps", "--only-binary", ":all:", "--progress-bar", "off"]
    _run([*pip, "install", *options, "-r", str(requirements)], say)
    (folder / "stamp").write_text(_stamp(requirements))
    return interpreter(folder)


def say(line: str) -> None:
    """One line of progress, on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _stamp(requirements: Path) -> str:
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    return f"{digest} python {sys.version_info.major}.{sys.version_info.minor}\n"


def _run(command: list[str], say: Callable[[str], None]) -> None:
    lines: deque[str] = deque(maxlen=200)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith(_PACKAGE):
                say("  " + Path(line.split()[1]).name)
    if process.returncode:
        raise SetupError(f"cannot make the environment of the foreign server: {_reason(lines)}", _MEND)


def _reason(lines: deque[str]) -> str:
    """The line that says what went wrong: pip's first ERROR, else the last words."""
    said = [line for line in lines if line]
    errors = [line for line in said if line.startswith("ERROR")]
    return (errors or said[-1:] or ["no word of it"])[0].removeprefix("ERROR: ")


if __name__ == "__main__":
    try:
        say(f"{make(say).parents[1].name} is ready")
    except SetupError as error:
        say(str(error))
        raise SystemExit(2) from None
