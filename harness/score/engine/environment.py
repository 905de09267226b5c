"""In which Python a metric runs, and what its process is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.score.engine.temporary import temporary_errors
from metrics.scoring.device import DEVICE

OURS = ("harness", "metrics", "sessions", "clients", "servers")
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_PYTHONS = ("bin/python", "Scripts/python.exe")


class NoEnvironment(Exception):
    """A metric's environment is not there. The text says what makes it."""


def python_of(environment: str, given: Mapping[str, str]) -> str:
    """The python that runs metrics of `environment`; ours for "". Raises `NoEnvironment`.

    Looked for in `given`, in the variable DUOLOGUE_ENV_<NAME>, then as `.venv-<name>` beside our own environment and
    in the current folder. Each may name an environment's folder or its python.
    """
    if not environment:
        return sys.executable
    variable = variable_of(environment)
    for source, named in (("", given.get(environment)), (f" ({variable})", os.environ.get(variable))):
        if named:
            found = _python_in(Path(named))
            if found is None:
                raise NoEnvironment(f"{named}{source} is neither a python nor an environment that has one")
            return found
    name = f".venv-{environment}"
    for folder in (Path(sys.prefix).parent, Path.cwd()):
        found = _python_in(folder / name)
        if found is not None:
            return found
    raise NoEnvironment(
        f"it runs in an environment of its own, {name}, which is not there. "
        f"Run `make {environment}`, or name one by {variable}"
    )


def variable_of(environment: str) -> str:
    return f"DUOLOGUE_ENV_{environment.upper().replace('-', '_')}"


def _python_in(place: Path) -> str | None:
    if place.is_dir():
        return next((str(place / python) for python in _PYTHONS if (place / python).exists()), None)
    return str(place) if os.access(place, os.X_OK) else None


def variables(environment: str, threads: int, device: str, ours: Path) -> dict[str, str]:
    """What a worker's process has in its environment. ours: a folder that holds our packages and nothing else."""
    found = {**os.environ, **dict.fromkeys(_THREADS, str(threads)), DEVICE: device}
    if environment:
        # Of our own environment it gets our packages alone: the others are what it must not meet.
        for name in ("PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
            found.pop(name, None)
        found["PYTHONPATH"] = str(ours)
    else:
        found["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    # Two models share the cores: threads that wait must not spin.
    found.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return found


def link_ours(folder: Path) -> Path:
    """Make `folder`, with links to our packages in it. Raises `SetupError` where the disk refuses."""
    root = Path(__file__).resolve().parents[3]
    with temporary_errors(folder.parent):
        folder.mkdir()
        for name in OURS:
            (folder / name).symlink_to(root / name, target_is_directory=True)
    return folder
