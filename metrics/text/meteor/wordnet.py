"""WordNet, whose synonyms METEOR counts as matches: where it is on this machine, and which one it is.

NLTK's reader opens it, from a folder or an archive of NLTK's data, or from a folder that holds WordNet's own files, as
Debian's package does.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from sessions.errors import MissingWeights

AUTO: Final = "auto"
_PARTS: Final = ("noun", "verb", "adj", "adv")
_FILES: Final = tuple(f"{kind}.{part}" for kind in ("data", "index") for part in _PARTS)
_SYSTEM: Final = ("/usr/share/wordnet", "/opt/homebrew/opt/wordnet/dict", "/usr/local/opt/wordnet/dict")
_NLTK: Final = ("/usr/share/nltk_data", "/usr/local/share/nltk_data", "/usr/lib/nltk_data", "/usr/local/lib/nltk_data")
_LEXICOGRAPHER_FILES: Final = 45
_MEND: Final = (
    "Get it with: python -m nltk.downloader wordnet, or apt-get install wordnet-base, "
    "or name its folder with --set meteor.wordnet=FOLDER"
)


@dataclass(frozen=True, slots=True)
class WordNet:
    """path: a folder that holds data.noun and the others, or an archive of one · version: as its files say, "3.0" ·
    sha256: of those files, by name and content."""

    path: Path
    version: str
    sha256: str


def find(asked: str) -> WordNet:
    """The WordNet that was asked for by its folder, else NLTK's, else the system's. Raises `MissingWeights`.

    One that cannot be read is passed over for the next, and named where there is no next.
    """
    broken = []
    for place in _places() if asked == AUTO else [Path(asked).expanduser().resolve()]:
        try:
            if _holds(place):
                return _described(place)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            broken.append(f"{place} cannot be read ({error})")
    if broken:
        raise MissingWeights(f"METEOR needs WordNet, and {'; '.join(broken)}", f"Delete it. {_MEND}")
    if asked != AUTO:
        raise MissingWeights(f"there is no WordNet in {asked}: it must hold {', '.join(_FILES[:2])} …", _MEND)
    raise MissingWeights("METEOR needs WordNet, which is not on this machine", _MEND)


def _places() -> list[Path]:
    """In order. NLTK's folders are those that it looks in itself."""
    nltk = [Path(entry) for entry in os.environ.get("NLTK_DATA", "").split(os.pathsep) if entry]
    nltk += [Path.home() / "nltk_data"]
    nltk += [Path(sys.prefix, *below) for below in (("nltk_data",), ("share", "nltk_data"), ("lib", "nltk_data"))]
    nltk += map(Path, _NLTK)
    corpora = [root / "corpora" / name for root in nltk for name in ("wordnet", "wordnet.zip")]
    return corpora + [Path(place) for place in _SYSTEM]


def _holds(path: Path) -> bool:
    if path.suffix == ".zip" and path.is_file():
        with zipfile.ZipFile(path) as archive:
            return {f"wordnet/{name}" for name in _FILES} <= set(archive.namelist())
    return all((path / name).is_file() for name in _FILES)


@cache
def _described(path: Path) -> WordNet:
    digest, version = hashlib.sha256(), ""
    for name in _FILES:
        content = _read(path, name)
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
        if not version and (found := re.search(rb"Word[nN]et (\d[\d.+]*) Copyright", content[:4000])):
            version = found[1].decode()
    return WordNet(path, version or "unknown", digest.hexdigest())


def _read(path: Path, name: str) -> bytes:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read(f"wordnet/{name}")
    return (path / name).read_bytes()


@cache
def load(wordnet: WordNet) -> Any:
    """NLTK's reader of it: `synsets(word)`, each with `lemmas()`, each with a `name()`."""
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):  # type: ignore[misc]
        """Of files that may lack what METEOR never asks for: names of the lexicographers' files, and maps to other
        versions of WordNet."""

        def open(self, file: str) -> Any:
            if file == "lexnames":
                return io.StringIO(
                    "".join(f"{number:02d}\tfile{number}\t1\n" for number in range(_LEXICOGRAPHER_FILES))
                )
            return super().open(file)

        def map_wn(self, version: str = "wordnet") -> None:
            return None

    folder = str(wordnet.path.parent if wordnet.path.suffix == ".zip" else wordnet.path)
    if folder not in nltk.data.path:
        nltk.data.path.append(folder)  # it reads nothing outside of these
    root: Any = str(wordnet.path)
    if wordnet.path.suffix == ".zip":
        root = nltk.data.ZipFilePathPointer(str(wordnet.path), "wordnet/")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The multilingual functions are not available")
        return Reader(root, None)
