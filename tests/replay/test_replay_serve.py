"""`duologue serve --replay`: a recorded dialogue on a socket, behind the same door as every server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.support.commands import finish, run, start

pytestmark = pytest.mark.sockets

CALM = ("--limit-lateness", "5000")
"""How late a busy machine is decides nothing here."""


@contextlib.asynccontextmanager
async def serving(*arguments: str) -> AsyncIterator[dict[str, str]]:
    """`duologue serve ARGUMENTS` on a free port; what it says of itself."""
    process = await start("serve", "--port", "0", "--json", *arguments)
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line, (await finish(process)).err
        yield json.loads(line)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await finish(process)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two dialogues with the metronome."""
    place = tmp_path_factory.mktemp("replay") / "rec"

    async def record() -> None:
        async with serving("--metronome", "steady") as server:
            ran = await run(
                "measure", server["url"], "--script", "small-talk", "--repeat", "2", *CALM, "--out", str(place)
            )
            assert ran.code == 0, ran.err

    asyncio.run(record())
    return place


async def test_a_recorded_dialogue_is_measured_again(recorded: Path, tmp_path: Path) -> None:
    async with serving("--replay", str(recorded / "dialogues" / "d0002")) as server:
        async with aiohttp.ClientSession() as session, session.get(server["health_url"]) as answer:
            assert (await answer.json())["model"] == "replay of rec/d0002 (openai-realtime)"
        ran = await run(
            "measure",
            server["url"],
            "--script",
            "small-talk",
            *CALM,
            "--out",
            str(tmp_path / "new"),
            "--json",
            "--beside",
            str(recorded / "dialogues" / "d0002"),
        )
    assert ran.code == 0, ran.err
    rows = json.loads((tmp_path / "new" / "beside.json").read_bytes())["rows"]
    assert [(row["turn"], row["a"]["dialogue"], row["b"]["dialogue"]) for row in rows] == [
        (turn, "d0002", "d0001") for turn in (1, 2, 3)
    ]
    assert all(row["a"]["answered"] == row["b"]["answered"] for row in rows)
    old, new = (place / "received.bin" for place in (recorded / "dialogues/d0002", tmp_path / "new/dialogues/d0001"))
    assert new.read_bytes() == old.read_bytes()
    assert json.loads(ran.out)["attempts"]["completed"] + json.loads(ran.out)["attempts"]["invalid"] == 3
    compared = await run("compare", str(recorded), str(tmp_path / "new"))
    assert compared.code == 0, compared.err
    assert "voice-to-voice (ms)" in compared.out


async def test_of_a_run_each_connection_gets_the_next_dialogue(recorded: Path, tmp_path: Path) -> None:
    async with serving("--replay", str(recorded)) as server:
        for name, dialogue in (("a", "d0001"), ("b", "d0002"), ("c", "d0001")):
            async with aiohttp.ClientSession() as session, session.ws_connect(server["url"]) as ws:
                first = (await ws.receive_str()).encode()
            assert (recorded / "dialogues" / dialogue / "received.bin").read_bytes().startswith(first), name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--beside", "{tmp}"], "is neither a run folder nor a dialogue of one"),
        (["--beside", "{rec}", "--trials", "2"], "--beside goes with one run"),
    ],
)
async def test_what_cannot_stand_beside_a_run(arguments: list[str], said: str, recorded: Path, tmp_path: Path) -> None:
    given = [one.format(tmp=tmp_path, rec=recorded) for one in arguments]
    ran = await run("measure", "ws://127.0.0.1:9", "--script", "small-talk", *given, cwd=tmp_path)
    assert ran.code == 2
    assert said in ran.err
    assert not (tmp_path / "runs").exists(), "it is told before anything is begun"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--replay", "{tmp}"], "is neither a run folder nor a dialogue of one"),
        (["--replay", "{tmp}/nowhere"], "is neither a run folder nor a dialogue of one"),
        (["--replay", "{rec}", "--metronome", "steady"], "--metronome does not go with --replay"),
        (["--replay", "{rec}", "--front", "openai-realtime"], "--front does not go with --replay"),
    ],
)
async def test_bad_input_is_one_line(arguments: list[str], said: str, recorded: Path, tmp_path: Path) -> None:
    given = [one.format(tmp=tmp_path, rec=recorded) for one in arguments]
    ran = await run("serve", "--port", "0", *given)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("behaviour", ["resets", "closes"])
async def test_how_a_connection_ended_comes_back(behaviour: str, tmp_path: Path) -> None:
    said = ("--script", "small-talk", *CALM)
    async with serving("--metronome", behaviour) as server:
        await run("measure", server["url"], *said, "--out", str(tmp_path / "old"))
    async with serving("--replay", str(tmp_path / "old")) as server:
        beside = ("--beside", str(tmp_path / "old"))
        ran = await run("measure", server["url"], *said, "--out", str(tmp_path / "new"), *beside)
    assert ran.code in (0, 1), ran.err
    rows = json.loads((tmp_path / "new" / "beside.json").read_bytes())["rows"]
    assert {row["a"]["turn_class"] for row in rows} >= {"failed"}
    assert [row["b"]["outcome"] for row in rows] == [row["a"]["outcome"] for row in rows]
