"""The command as people run it, where processes stop, descriptors run out, names, certificates and servers are wrong.

Processes are real; only order and bounds that a busy machine cannot turn round decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime  # noqa: TID251 - of certificates, not of now
import json
import os
import re
import resource
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import trustme
from websockets.asyncio.server import ServerConnection, serve

from clients.transports.websocket import open_websocket
from harness import exits
from sessions.clock import MonotonicClock
from sessions.errors import TransportError
from sessions.runs import RunFolder
from sessions.secrets import Secrets
from tests.support.commands import CALM, ROOT, Ran, environment, finish, run, start
from tests.support.peers import Gone, SocketWire, Wire, audio, created, done, greet, on_a_socket, request, tone

pytestmark = pytest.mark.sockets
CLOCK = MonotonicClock()
STOP_S = 3


@pytest.fixture
def clip(tmp_path: Path) -> str:
    path = tmp_path / "hello.wav"
    soundfile.write(path, np.concatenate([tone(200), np.zeros(1200, dtype=np.int16)]), 24_000)
    return str(path)


async def answers(wire: Wire) -> None:
    await greet(wire)
    for index in range(1000):
        await request(wire)
        await wire.send(created(f"r{index}"))
        await wire.send(audio(f"r{index}", tone(100)))
        await wire.send(done(f"r{index}"))


def summary_of(out: Path) -> Any:
    return json.loads((out / "summary.json").read_text())


def turns_of(out: Path, dialogue: int = 0) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = summary_of(out)["spoken"][dialogue]["turns"]
    return turns


# ---- processes that stop -------------------------------------------------------------------------------------------

BEHAVIOUR = """
version: 1
description: A reply in 100 ms; the second one of each dialogue takes 1.5 s.
reply: {delay_ms: 100, duration_ms: 200, packet_ms: 40, pace: realtime, text: ""}
turns: [{}, {delay_ms: 1500}]
after_turns: reply
"""
MIDST_S = 0.8
"""So long after the first turn, the second has been spoken and its reply is awaited, for another second."""


@contextlib.asynccontextmanager
async def metronome(place: Path) -> AsyncIterator[tuple[str, int]]:
    """A metronome in a process of its own: its address, its process id."""
    file = place / "behaviour.yaml"
    file.write_text(BEHAVIOUR)
    process = await start("serve", "--port", "0", "--metronome", str(file))
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            said = (await process.stdout.readline()).decode()
        yield said.split()[-1], process.pid
    finally:
        process.terminate()
        await finish(process)


@contextlib.asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`duologue ARGUMENTS`, which does not outlive its test."""
    process = await start(*arguments)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await finish(process)


async def until_line(process: asyncio.subprocess.Process, text: str) -> None:
    """Read what the command tells until it says that."""
    assert process.stderr is not None
    async with asyncio.timeout(60):
        async for line in process.stderr:
            if text in line.decode():
                return
    pytest.fail(f"the command never said {text!r}")


async def stop_for_a_while(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(STOP_S)
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_processes_that_stop(tmp_path: Path, clip: str) -> None:
    """All at once, for they mostly wait."""
    scenes = (
        a_client_that_was_stopped_voids_the_turns_that_it_slept_through,
        a_server_that_was_stopped_is_late_and_that_is_not_our_fault,
        a_server_that_was_stopped_beyond_a_limit_failed_and_the_next_dialogue_is_whole,
    )
    for scene in scenes:
        (tmp_path / scene.__name__).mkdir()
    await asyncio.gather(*(scene(tmp_path / scene.__name__, clip) for scene in scenes))


async def a_client_that_was_stopped_voids_the_turns_that_it_slept_through(tmp_path: Path, clip: str) -> None:
    """It slept past its own limit too: what came meanwhile lies in the socket, which is no silence of the server."""
    out = tmp_path / "run"
    async with metronome(tmp_path) as (url, _):
        options = ["--limit-lateness", "1000", "--limit-idle", "2", "--out", str(out)]
        async with command("measure", url, *["--audio", clip] * 3, *options) as process:
            await until_line(process, "turn 1/3")
            await asyncio.sleep(MIDST_S)
            await stop_for_a_while(process.pid)
            ran = await finish(process)
    assert ran.code == 0, ran.err
    turns = turns_of(out)
    assert [turn["turn_class"] for turn in turns] == ["completed", "invalid", "completed"]
    assert turns[1]["outcome"] == "answered" and "the heartbeat was" in turns[1]["detail"]
    attempts = summary_of(out)["attempts"]
    assert (attempts["completed"], attempts["invalid"], attempts["failed"]) == (2, 1, 0)
    assert summary_of(out)["headline"]["turns"] == 2
    said = " ".join(ran.out.split())
    assert "Invalid: this machine was more than 1000 ms late" in said
    assert re.search(r"This machine stalled in 1 turn, for (2[5-9]|3\d|\d{2})\d\d ms at worst\.", said), said
    assert "This machine stalled in 1 turn" in (out / "report.html").read_text()
    stalls = [json.loads(line) for line in _log(out) if '"stall"' in line]
    assert max(stall["lag_ns"] for stall in stalls) >= (STOP_S - 0.5) * 1e9


def _log(out: Path) -> list[str]:
    return (out / "dialogues" / "d0001" / "events.jsonl").read_text().splitlines()


async def with_a_stopped_server(tmp_path: Path, clip: str, *options: str) -> Path:
    """Three turns, the server stopped in the second one; the run's folder."""
    out = tmp_path / "run"
    async with metronome(tmp_path) as (url, pid):
        ours = ["--limit-lateness", "1000", "--out", str(out), *options]
        async with command("measure", url, *["--audio", clip] * 3, *ours) as process:
            await until_line(process, "turn 1/3")
            await asyncio.sleep(MIDST_S)
            await stop_for_a_while(pid)
            ran = await finish(process)
    assert ran.code == 0, ran.err
    assert summary_of(out)["attempts"]["invalid"] == 0
    return out


async def a_server_that_was_stopped_is_late_and_that_is_not_our_fault(tmp_path: Path, clip: str) -> None:
    out = await with_a_stopped_server(tmp_path, clip)
    assert [turn["turn_class"] for turn in turns_of(out)] == ["completed"] * 3
    late, quick = (turns_of(out)[turn]["voice_to_voice_ms"] for turn in (1, 2))
    assert late > 2_000 > quick


async def a_server_that_was_stopped_beyond_a_limit_failed_and_the_next_dialogue_is_whole(
    tmp_path: Path, clip: str
) -> None:
    out = await with_a_stopped_server(tmp_path, clip, "--limit-idle", "2", "--repeat", "2")
    assert [(turn["turn_class"], turn["outcome"]) for turn in turns_of(out)] == [
        ("completed", "answered"),
        ("failed", "time-out"),
        ("failed", "time-out"),
    ]
    assert [turn["outcome"] for turn in turns_of(out, 1)] == ["answered"] * 3


# ---- descriptors ---------------------------------------------------------------------------------------------------


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (70, 70))


async def test_too_few_descriptors_are_told_before_anything_is_made(tmp_path: Path, clip: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "harness", "measure", "ws://127.0.0.1:1", "--audio", clip),
        *("--sessions", "40", "--repeat", "40", "--out", str(tmp_path / "run")),
        env=environment({}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=_few_descriptors,
    )
    assert "40 sessions need 104 file descriptors, this machine allows 70. Raise the limit" in one_line(
        await finish(process)
    )
    assert not (tmp_path / "run").exists()


async def test_descriptors_that_run_out_in_the_midst_cost_dialogues_and_lose_nothing(tmp_path: Path, clip: str) -> None:
    """The limit falls below what is open; new connections fail, finished dialogues wait until it is lifted."""
    out, total = tmp_path / "run", 20
    requests = asyncio.Semaphore(0)

    async def peer(wire: Wire) -> None:
        requests.release()
        await answers(wire)

    options = ["--rate", "10", "--arrivals", "constant", "--limit-lateness", "5000", "--repeat", str(total)]
    async with (
        on_a_socket(peer, CLOCK) as url,
        command("measure", url, "--audio", clip, *options, "--out", str(out)) as process,
    ):
        async with asyncio.timeout(60):
            for _ in range(3):
                await requests.acquire()
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        await asyncio.sleep(0.7)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        ran = await finish(process)
    assert ran.code == 0, ran.err
    assert sorted(line.number for line in RunFolder.open(out).journal()) == list(range(total))
    attempts = summary_of(out)["attempts"]
    assert attempts["total"] == total == attempts["completed"] + attempts["failed"]
    assert 0 < attempts["failed"] == attempts["failed_by_kind"]["transport"] < total
    details = {turn["detail"] for one in summary_of(out)["spoken"] for turn in one["turns"] if turn["detail"]}
    assert all("no file descriptor is left" in detail and "ulimit -n" in detail for detail in details)


# ---- addresses, certificates, servers of another kind --------------------------------------------------------------


def one_line(ran: Ran) -> str:
    """What the command says that the user can mend."""
    assert ran.code == 2 and "Traceback" not in ran.err, (ran.code, ran.out, ran.err)
    (line,) = (line for line in ran.err.splitlines() if line.startswith("duologue: "))
    return line


async def measure(url: str, clip: str, out: Path, **extra: str) -> Ran:
    return await run("measure", url, *CALM, "--audio", clip, "--limit-connect", "20", "--out", str(out), extra=extra)


async def refused(url: str, **settings: Any) -> str:
    """What is told of a connection that does not come about."""
    with pytest.raises(TransportError) as failed:
        await open_websocket(url, headers={}, clock=CLOCK, timeout_s=20, byte_cap=2**20, secrets=Secrets(), **settings)
    assert "\n" not in str(failed.value)
    return str(failed.value)


async def test_a_name_that_cannot_be_resolved_is_told(tmp_path: Path, clip: str) -> None:
    ran = await measure("ws://no-such-host.invalid", clip, tmp_path / "run")
    assert "the host of ws://no-such-host.invalid/v1/realtime is not known" in one_line(ran)
    assert "Check the name" in ran.err and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (HTTPStatus.OK, "answered HTTP 200: <html>hello"),
        (HTTPStatus.MOVED_PERMANENTLY, "answered HTTP 301, which leads to ws://elsewhere.invalid/"),
        (HTTPStatus.INTERNAL_SERVER_ERROR, "answered HTTP 500: <html>hello"),
    ],
)
async def test_http_answers_to_the_upgrade_are_told_and_not_followed(status: HTTPStatus, says: str) -> None:
    def answer(connection: Any, request: Any) -> Any:
        response = connection.respond(status, "<html>hello\nmore")
        response.headers["Location"] = "ws://elsewhere.invalid/"
        return response

    async with on_a_socket(answers, CLOCK, process_request=answer) as url:
        assert f"{url} {says}" in await refused(url)


async def test_a_server_that_accepts_and_never_speaks_is_told_at_the_limit(tmp_path: Path, clip: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"ws://127.0.0.1:{mute.getsockname()[1]}"
        ran = await run("measure", url, "--audio", clip, "--limit-connect", "0.3", "--out", str(tmp_path / "run"))
    assert f"no WebSocket at {url}/v1/realtime within 0.3 s" in one_line(ran)


def served(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


async def test_certificates_that_do_not_hold_are_told_why(tmp_path: Path, clip: str) -> None:
    """By another authority, expired, for another host; then one that the command is told to trust."""
    ours, past = trustme.CA(), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    trust = ssl.create_default_context()
    ours.configure_trust(trust)
    cases = {
        "unable to get local issuer certificate": trustme.CA().issue_cert("127.0.0.1"),
        "certificate has expired": ours.issue_cert("127.0.0.1", not_before=past, not_after=past),
        "certificate is not valid for '127.0.0.1'": ours.issue_cert("example.org"),
    }
    for says, certificate in cases.items():
        async with on_a_socket(answers, CLOCK, ssl=served(certificate)) as url:
            told = await refused(url, tls=trust)
        assert f"TLS failed at {url}" in told and says in told and "SSL_CERT_FILE" in told
    ours.cert_pem.write_to_path(tmp_path / "ours.pem")
    async with on_a_socket(answers, CLOCK, ssl=served(ours.issue_cert("127.0.0.1"))) as url:
        ran = await measure(url, clip, tmp_path / "refused")
        assert "TLS failed at wss://" in one_line(ran) and not (tmp_path / "refused").exists()
        ran = await measure(url, clip, tmp_path / "good", SSL_CERT_FILE=str(tmp_path / "ours.pem"))
        assert ran.code == 0, ran.err


async def test_an_ipv6_target_with_path_and_query_is_reached_past_any_proxy(tmp_path: Path, clip: str) -> None:
    asked: list[str] = []

    async def handle(ws: ServerConnection) -> None:
        assert ws.request is not None
        asked.append(ws.request.path)
        with contextlib.suppress(Gone):
            await answers(SocketWire(ws, CLOCK))

    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"), "http://127.0.0.1:1")
    async with serve(handle, "::1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        url = f"ws://[::1]:{port}/my/path?model=a%26b%20c"
        ran = await measure(url, clip, tmp_path / "run", **proxies)
    assert ran.code == 0, ran.err
    assert asked == ["/my/path?model=a%26b%20c"]
    assert summary_of(tmp_path / "run")["target"] == url


def test_the_readme_names_every_exit_code() -> None:
    (sentence,) = re.findall(r"Exit codes: ([^.]*)\.", (ROOT / "README.md").read_text().replace("\n", " "))
    told = {int(code) for code in re.findall(r"\b\d+\b", sentence)}
    assert told == {0} | {code for name, code in vars(exits).items() if name.isupper()}
