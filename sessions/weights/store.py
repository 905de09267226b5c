"""Finds weights on this machine and checks their hashes. Opens no socket; downloading is `harness.fetch`'s.

Places, in this order: a folder that the user gives, our cache, an installed package (never imported), the cache of
Hugging Face or of torch.hub left by another program. A place counts only if all files of the entry lie in one folder
and their sha256 fit.

Hashing half a gigabyte at every start would cost a second, so each computed hash is kept in a small JSON file together
with the size and modification time that it belongs to. `verify` never uses those notes.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from sessions.errors import MissingWeights, SetupError
from sessions.weights.entry import File, Weight, entry
from sessions.weights.manifest import MANIFEST

Place = Literal["given", "cache", "package", "hub cache"]


@dataclass(frozen=True, slots=True)
class Found:
    """A usable entry. path: the folder that holds its files · place: which kind of place · sha256s: by file name."""

    name: str
    path: Path
    place: Place
    sha256s: dict[str, str]


@dataclass(frozen=True, slots=True)
class Checked:
    """One file, hashed anew. sha256: what it is, None if the file is not there."""

    name: str
    file: str
    path: Path
    place: Place
    sha256: str | None
    ok: bool


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hash that was computed, and the file state that it holds for."""

    size_bytes: int
    mtime_ns: int
    sha256: str


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where our weights lie: `$DUOLOGUE_HOME/weights`, else `$XDG_CACHE_HOME/duologue/weights` (`~/.cache/…`)."""
    if home := environ.get("DUOLOGUE_HOME"):
        return Path(home).expanduser().absolute() / "weights"
    return _xdg_cache(environ) / "duologue" / "weights"


def _xdg_cache(environ: Mapping[str, str]) -> Path:
    given = environ.get("XDG_CACHE_HOME", "")
    # The XDG rules say that a relative path is to be ignored.
    return Path(given) if Path(given).is_absolute() else Path.home() / ".cache"


def _hub_cache(environ: Mapping[str, str]) -> Path:
    for variable, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if given := environ.get(variable):
            return Path(given).expanduser().absolute() / below
    return _xdg_cache(environ) / "huggingface" / "hub"


def _torch_cache(environ: Mapping[str, str]) -> Path:
    home = environ.get("TORCH_HOME")
    return (Path(home).expanduser().absolute() if home else _xdg_cache(environ) / "torch") / "hub" / "checkpoints"


def sha256_of(path: Path) -> str:
    """The sha256 of a whole file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Store:
    """The weights of `manifest` on this machine. Tests pass their own manifest and environment."""

    manifest: Mapping[str, Weight] = field(default_factory=lambda: MANIFEST)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def root(self) -> Path:
        return cache_folder(self.environ)

    def entry(self, name: str) -> Weight:
        """Raises `SetupError` for an unknown name."""
        return entry(name, self.manifest)

    def cache_path(self, name: str) -> Path:
        """The folder of our cache for this entry, whether it exists or not."""
        return self.root / name

    def found(self, name: str, *, given: Path | None = None) -> Found:
        """The first place that has the whole entry with the pinned hashes.

        Raises `MissingWeights` if there is none, `SetupError` if the user gave a folder and its files do not fit.
        """
        weight = self.entry(name)
        for place, folder in self._places(weight, given):
            sha256s = self._fitting(weight, folder)
            if sha256s is not None:
                return Found(name, folder, place, sha256s)
            if place == "given":
                raise self._bad_given(weight, folder)
        raise self._missing(weight)

    def folder(self, name: str, *, given: Path | None = None) -> Path:
        """The folder of `found`."""
        return self.found(name, given=given).path

    def present(self, name: str) -> Found | None:
        """Like `found`, but None where nothing fits."""
        try:
            return self.found(name)
        except MissingWeights:
            return None

    def absent_files(self, name: str) -> list[File]:
        """The files that our cache lacks, or has with another hash."""
        weight = self.entry(name)
        folder = self.cache_path(name)
        return [file for file in weight.files if self._sha256(weight, folder / file.name, file) != file.sha256]

    def verify(self, name: str, *, given: Path | None = None) -> list[Checked]:
        """Hash again, from the bytes, what would be used or repaired: the given folder, the cache, or a package.

        One result per file; empty if no place has any of them.
        """
        weight = self.entry(name)
        for place, folder in self._places(weight, given):
            checked = [self._check(weight, file, folder, place) for file in weight.files]
            damaged = place in ("given", "cache") and any(one.sha256 for one in checked)
            if damaged or all(one.ok for one in checked):
                return checked
        return []

    def _places(self, weight: Weight, given: Path | None) -> Iterator[tuple[Place, Path]]:
        named = self.environ.get(weight.variable)
        if given is None and named:
            given = Path(named)
        if given is not None:
            yield "given", _as_folder(weight, given.expanduser().absolute())
        yield "cache", self.cache_path(weight.name)
        if (folder := _package_folder(weight)) is not None:
            yield "package", folder
        for folder in self._snapshots(weight):
            yield "hub cache", folder
        if weight.upstream.host == "github-release":  # what torch.hub fetches from one lies there under its own name
            yield "hub cache", _torch_cache(self.environ)

    def _snapshots(self, weight: Weight) -> Iterator[Path]:
        parents = {Path(file.upstream_path).parent for file in weight.files}
        names_kept = all(Path(file.upstream_path).name == file.name for file in weight.files)
        if weight.upstream.host != "hub" or len(parents) != 1 or not names_kept:
            return
        below = parents.pop()
        repository = "models--" + weight.upstream.repository.replace("/", "--")
        snapshots = _hub_cache(self.environ) / repository / "snapshots"
        yield snapshots / weight.upstream.revision / below
        others: list[Path] = []
        with contextlib.suppress(OSError):
            others = sorted(path for path in snapshots.iterdir() if path.name != weight.upstream.revision)
        yield from (path / below for path in others)

    def _fitting(self, weight: Weight, folder: Path) -> dict[str, str] | None:
        sha256s = {file.name: self._sha256(weight, folder / file.name, file) for file in weight.files}
        fits = all(sha256s[file.name] == file.sha256 for file in weight.files)
        return {name: sha256 for name, sha256 in sha256s.items() if sha256} if fits else None

    def _sha256(self, weight: Weight, path: Path, file: File) -> str | None:
        """The file's hash, from the notes if its size and time are unchanged; None if it cannot be the file."""
        try:
            stat = path.stat()
            if stat.st_size != file.size_bytes:
                return None
            note = self._notes(weight).get(str(path))
            if note is not None and (note.size_bytes, note.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
                return note.sha256
            return self._hash(weight, path)
        except OSError:
            return None

    def _hash(self, weight: Weight, path: Path) -> str:
        """Hash the bytes of `path` and keep a note of it. Raises `OSError`."""
        stat = path.stat()  # before the bytes, so that a file that changes meanwhile is hashed again next time
        sha256 = sha256_of(path)
        notes = self._notes(weight)
        notes[str(path)] = Note(stat.st_size, stat.st_mtime_ns, sha256)
        self._keep(weight, notes)
        return sha256

    def _keep(self, weight: Weight, notes: dict[str, Note]) -> None:
        target = self._notes_path(weight)
        beside = target.with_name(f"{target.name}.{os.getpid()}")
        # The notes only save time: a read-only or full disk must not stop a run that needs nothing else from it.
        with contextlib.suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(msgspec.json.encode(notes))
            beside.replace(target)

    def _check(self, weight: Weight, file: File, folder: Path, place: Place) -> Checked:
        path = folder / file.name
        try:
            sha256 = self._hash(weight, path)
        except OSError:
            return Checked(weight.name, file.name, path, place, None, False)
        return Checked(weight.name, file.name, path, place, sha256, sha256 == file.sha256)

    def _notes_path(self, weight: Weight) -> Path:
        return self.root / ".checked" / f"{weight.name}.json"

    def _notes(self, weight: Weight) -> dict[str, Note]:
        try:
            return msgspec.json.decode(self._notes_path(weight).read_bytes(), type=dict[str, Note])
        except (OSError, msgspec.MsgspecError):
            return {}

    def _bad_given(self, weight: Weight, folder: Path) -> SetupError:
        mend = f"Give a folder with the pinned files, or none (unset {weight.variable})"
        if folder.is_file():
            names = ", ".join(file.name for file in weight.files)
            what = f"weights {weight.name!r}: the given {folder} is a file, and not by the name of one: {names}"
            return SetupError(what, "Give the folder with the pinned files, under their own names")
        for file in weight.files:
            path = folder / file.name
            if not path.is_file():
                return SetupError(f"weights {weight.name!r}: the given folder {folder} has no {file.name}", mend)
            if (sha256 := sha256_of(path)) != file.sha256:
                what = f"weights {weight.name!r}: {path} has sha256 {sha256}, pinned is {file.sha256}"
                return SetupError(what, mend)
        return SetupError(f"weights {weight.name!r}: {folder} changed while it was read", mend)

    def _missing(self, weight: Weight) -> MissingWeights:
        folder = self.cache_path(weight.name)
        absent = self.absent_files(weight.name)
        damaged = [file.name for file in absent if (folder / file.name).exists()]
        state = f"damaged in {folder}: {', '.join(damaged)}" if damaged else "no place on this machine has them"
        return MissingWeights(
            f"weights {weight.name!r} are missing ({', '.join(file.name for file in weight.files)}; {state})",
            f"Run: duologue weights fetch {weight.name}",
        )


def _as_folder(weight: Weight, given: Path) -> Path:
    """`given`, or its parent if it is the entry's only file under its own name."""
    is_the_file = len(weight.files) == 1 and given.name == weight.files[0].name and given.is_file()
    return given.parent if is_the_file else given


def _package_folder(weight: Weight) -> Path | None:
    """Where the installed distribution keeps the files, found by its metadata alone."""
    if weight.installed is None:
        return None
    try:
        distribution = importlib.metadata.distribution(weight.installed.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(distribution.locate_file(weight.installed.folder)))
