"""A throw-away environment for one peer, made from pinned packages beside ours, whose versions it would clash with."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from sessions.errors import SetupError

_ROOT = Path(__file__).resolve().parents[2]


def interpreter_for(peer: str) -> Path:
    """The Python of `.venv-peer-PEER`, which is made first where it is missing or was made from other requirements.

    Raises `SetupError` with pip's last word where it cannot be made.
    """
    requirements = Path(__file__).with_name(f"requirements-{peer}.txt")
    folder = _ROOT / f".venv-peer-{peer}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    made_from = f"{hashlib.sha256(requirements.read_bytes()).hexdigest()} {sys.version_info[:2]}\n"
    stamp = folder / "stamp"
    if stamp.is_file() and stamp.read_text() == made_from and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], peer)
    pip = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    _run([*pip, "install", "--no-deps", "--only-binary", ":all:", "-r", str(requirements)], peer)
    stamp.write_text(made_from)
    return python


def _run(command: list[str], peer: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = (ran.stderr + ran.stdout).strip().splitlines() or ["no word of it"]
        errors = [line for line in said if line.startswith("ERROR")]
        reason = (errors or said[-1:])[0].removeprefix("ERROR: ")
        raise SetupError(
            f"cannot make the environment of {peer}: {reason}", "Check that the package index is reachable"
        )
