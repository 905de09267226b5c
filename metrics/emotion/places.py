"""Where an emotion2vec model lies: a folder that the user names, what a hub's client has downloaded, or the hub itself.

A folder holds config.yaml, model.pt and tokens.txt. funasr evaluates a string of config.yaml as Python: only a folder
that one trusts may be named.
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from pathlib import Path

from metrics.scoring.extras import require
from sessions.errors import MissingWeights, SetupError

FILES = ("config.yaml", "model.pt", "tokens.txt")
KNOWN = ("iic/emotion2vec_plus_large", "iic/emotion2vec_plus_base", "iic/emotion2vec_plus_seed")
HUBS = ("ms", "hf")
_ANSWER_S = 3.0


def here(model: str, hub: str) -> Path | None:
    """The folder of that model on this machine; None where only a hub has it.

    model: a folder, or one of `KNOWN` · hub: "ms" (ModelScope) or "hf" (Hugging Face).
    Raises `SetupError` for a name that is neither, `MissingWeights` where a folder is not whole.
    """
    if model not in KNOWN:
        return _checked(Path(model).expanduser().absolute(), model)
    return next((folder for folder in _downloaded(model, hub) if not _absent(folder)), None)


def not_here(model: str, hub: str) -> MissingWeights:
    """What to say where nothing may be downloaded now."""
    return MissingWeights(
        f"{model} is not on this machine",
        f"Ask for it by name (--metrics emotion), which downloads it from {_address(hub)}, "
        "or name a folder: --set emotion.model=FOLDER",
    )


def download(model: str, hub: str) -> Path:
    """Fetch it from the hub. Raises `MissingWeights` where the hub does not answer, `MissingExtra`."""
    _require_answer(model, hub)
    return _checked(Path(_download(model, hub)), model)


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


def _address(hub: str) -> str:
    if hub == "hf":
        return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    named = os.environ.get("MODELSCOPE_ENDPOINT") or os.environ.get("MODELSCOPE_DOMAIN") or "www.modelscope.cn"
    return named if "://" in named else f"https://{named}"


def _require_answer(model: str, hub: str) -> None:
    """One question, for at most 3 s: the clients themselves try for half a minute per file. Raises `MissingWeights`."""
    address = _address(hub)
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_ANSWER_S).close()
    except urllib.error.HTTPError:
        return  # it answers, if only to say that there is no such page
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise MissingWeights(
            f"{model} is not on this machine, and {address} does not answer ({reason})",
            f"Copy {', '.join(FILES)} to a folder and name it: --set emotion.model=FOLDER",
        ) from error


def _download(model: str, hub: str) -> str:
    package = "modelscope" if hub == "ms" else "huggingface_hub"
    require(package, "emotion", "Run: make emotion")
    try:
        if hub == "ms":
            from modelscope.hub.snapshot_download import snapshot_download

            return str(snapshot_download(model))
        from huggingface_hub import snapshot_download as from_hugging_face

        return str(from_hugging_face(model.replace("iic/", "emotion2vec/")))
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise MissingWeights(
            f"{model} could not be downloaded from {_address(hub)} ({type(error).__name__}: {first})",
            f"Copy {', '.join(FILES)} to a folder and name it: --set emotion.model=FOLDER",
        ) from error
