"""Where an emotion2vec model lies: a folder that the user names, or where a hub's own client keeps what it downloads.

A folder holds config.yaml, model.pt and tokens.txt. funasr evaluates a string of config.yaml as Python: only a folder
that one trusts may be named.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sessions.errors import MissingWeights, SetupError

FILES = ("config.yaml", "model.pt", "tokens.txt")
KNOWN = ("iic/emotion2vec_plus_large", "iic/emotion2vec_plus_base", "iic/emotion2vec_plus_seed")
HUBS = ("ms", "hf")


def folder_of(model: str, hub: str) -> Path:
    """The folder of that model on this machine. Nothing is downloaded: a hub's own client does that, in plain sight.

    model: a folder, or one of `KNOWN` · hub: whose client's copy is taken, "ms" (ModelScope) or "hf" (Hugging Face).
    Raises `SetupError` for a name that is neither, `MissingWeights` where the model is not here, or not whole.
    """
    if model not in KNOWN:
        return _checked(Path(model).expanduser().absolute(), model)
    for folder in _downloaded(model, hub):
        if not _absent(folder):
            return folder
    raise MissingWeights(
        f"{model} is not on this machine",
        f"Run: {_download_by(model, hub)}; or name a folder with {', '.join(FILES)}: --set emotion.model=FOLDER",
    )


def hashes(folder: Path) -> dict[str, str]:
    """sha256 of each file, for a metric's identity."""
    found = {}
    for name in FILES:
        with (folder / name).open("rb") as file:
            found[f"weights {name}"] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _checked(folder: Path, named: str) -> Path:
    # funasr takes a folder that is not there for the name of a model on a hub, and goes on to another error.
    if not folder.is_dir():
        raise SetupError(
            f"there is no folder {named!r} with an emotion2vec model",
            f"Give a folder with {', '.join(FILES)}, or one of {', '.join(KNOWN)}",
        )
    if absent := _absent(folder):
        raise MissingWeights(f"{folder} has no {absent[0]}", f"An emotion2vec folder holds {', '.join(FILES)}")
    return folder


def _absent(folder: Path) -> list[str]:
    return [name for name in FILES if not (folder / name).is_file()]


def _downloaded(model: str, hub: str) -> list[Path]:
    """Where the hub's own client keeps it, in the layouts of its versions."""
    owner, _, name = model.partition("/")
    cache = Path.home() / ".cache"
    if hub == "hf":
        home = Path(os.environ.get("HF_HOME") or cache / "huggingface")
        return _snapshots(Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--emotion2vec--{name}")
    given = os.environ.get("MODELSCOPE_CACHE")
    homes = [Path(given)] if given else [cache / "modelscope", cache / "modelscope/hub"]
    return [
        folder
        for home in homes
        for folder in (
            *_snapshots(home / "models" / f"{owner}--{name}"),
            home / "models" / owner / name,
            home / owner / name,
        )
    ]


def _snapshots(repository: Path) -> list[Path]:
    return sorted((repository / "snapshots").glob("*"))


def _download_by(model: str, hub: str) -> str:
    """The hub's own client, which shows how far it is and goes on where it was stopped."""
    if hub == "hf":
        return f"hf download {model.replace('iic/', 'emotion2vec/')} (it comes with make score)"
    return f".venv-emotion/bin/modelscope download {model}"
