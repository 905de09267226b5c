"""What one entry of the weights table says: files with their hashes, whose they are, and who carries the same bytes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sessions.errors import SetupError

Role = Literal["asr", "llm", "mos", "tts", "tts-user", "vad", "voice"]
Index = Literal["pypi", "npm"]
Host = Literal["hub", "github-release", "github-file", "package"]


@dataclass(frozen=True, slots=True)
class Package:
    """One published package file. sha256 and size_bytes are those of the wheel or tarball itself."""

    index: Index
    name: str
    version: str
    sha256: str
    size_bytes: int

    @property
    def spec(self) -> str:
        """As the index's own client wants it: `name==version` or `name@version`."""
        return f"{self.name}{'==' if self.index == 'pypi' else '@'}{self.version}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a weight file that one package member holds. sha256 and size_bytes are the member's."""

    package: Package
    member: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class File:
    """One weight file. upstream_path: its path in the upstream repository · pieces: joined in order, they
    are it; () where no package carries it."""

    name: str
    sha256: str
    size_bytes: int
    upstream_path: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Upstream:
    """Who published the weights first.

    host: "hub" (a Hugging Face repository at a commit), "github-release" (revision = tag), "github-file" (revision =
    tag or commit), "package" (published only inside a package, revision = its version).
    """

    host: Host
    repository: str
    revision: str


@dataclass(frozen=True, slots=True)
class Installed:
    """Where an installed distribution keeps the files. folder: relative to its root, the file names are ours."""

    distribution: str
    folder: str


@dataclass(frozen=True, slots=True)
class Weight:
    """A model: what it is for, whose it is, and its files."""

    name: str
    role: Role
    purpose: str
    upstream: Upstream
    licence: str
    files: tuple[File, ...]
    installed: Installed | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def variable(self) -> str:
        """The environment variable that points to a folder of the user's own."""
        return "DUOLOGUE_WEIGHTS_" + "".join(c if c.isalnum() else "_" for c in self.name.upper())

    def url(self, file: File, hub: str) -> str:
        """Where `file` can be downloaded, `hub` being the model hub's base address; "" if only packages have it."""
        up = self.upstream
        match up.host:
            case "hub":
                return f"{hub.rstrip('/')}/{up.repository}/resolve/{up.revision}/{file.upstream_path}"
            case "github-release":
                return f"https://github.com/{up.repository}/releases/download/{up.revision}/{file.upstream_path}"
            case "github-file":
                return f"https://raw.githubusercontent.com/{up.repository}/{up.revision}/{file.upstream_path}"
            case "package":
                return ""

    def address(self, file: File, hub: str) -> str:
        """For people: the address of `file`, or the package that is its only source."""
        return self.url(file, hub) or f"{file.upstream_path} in the package {file.pieces[0].package.spec}"


def entry(name: str, manifest: Mapping[str, Weight]) -> Weight:
    """The entry called `name`. Raises `SetupError` that lists the known names and the nearest one."""
    if name in manifest:
        return manifest[name]
    near = difflib.get_close_matches(name, manifest, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise SetupError(f"unknown weights {name!r}", f"{hint}Known: {', '.join(sorted(manifest))}")
