"""`duologue measure` as a process, against scripted servers on loopback: files, exit codes, one-line errors."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import sys
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from sessions.clock import MonotonicClock
from sessions.runs import RunFolder
from tests.support.commands import CALM, ROOT, Ran, environment, finish, run, start
from tests.support.peers import Gone, Wire, audio, created, done, greet, on_a_socket, request, sleep_ms, text, tone

pytestmark = pytest.mark.sockets
CLOCK = MonotonicClock()
CANARY = "canary-sk-0123456789"


@pytest.fixture
def clip(tmp_path: Path) -> str:
    """A short user turn: 0.3 s of tone, 0.1 s of silence."""
    path = tmp_path / "hello.wav"
    soundfile.write(path, np.concatenate([tone(300), np.zeros(2400, dtype=np.int16)]), 24_000)
    return str(path)


async def answers(wire: Wire) -> None:
    await greet(wire)
    for index in range(1000):
        await request(wire)
        await sleep_ms(wire, 20)
        await wire.send(created(f"r{index}"))
        await wire.send(text(f"r{index}", "Hello <b>there</b> </script>"))
        await wire.send(audio(f"r{index}", tone(150)))
        await wire.send(done(f"r{index}"))


async def test_a_run_ends_with_a_table_a_report_and_a_whole_folder(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"
    async with on_a_socket(answers, CLOCK) as url:
        ran = await run(
            "measure", url, *CALM, "--audio", clip, "--audio", clip, "--repeat", "2", "--warmup", "1", "--out", str(out)
        )
    assert ran.code == 0, ran.err
    assert ran.out.rstrip().endswith(f"report: {out / 'report.html'}")
    assert "voice-to-voice" in ran.out
    assert {path.name for path in out.iterdir()} >= {
        "plan.json",
        "journal.jsonl",
        "dialogues",
        "summary.json",
        "turns.csv",
        "report.html",
    }
    assert [line.warmup for line in RunFolder.open(out).journal()] == [True, False, False]
    dialogue = out / "dialogues" / "d0002"
    assert {path.name for path in dialogue.iterdir()} == {
        "events.jsonl",
        "received.bin",
        "recording.flac",
        "reply-1.flac",
        "reply-2.flac",
    }
    reply, rate_hz = soundfile.read(dialogue / "reply-1.flac", dtype="int16")
    assert (rate_hz, np.array_equal(reply, tone(150))) == (24_000, True)
    lanes, _ = soundfile.read(dialogue / "recording.flac", dtype="int16")
    assert lanes.ndim == 2 and lanes[:, 0].any() and lanes[:, 1].any()
    html = (out / "report.html").read_text()
    assert "Hello <b>there" not in html and "</b> </script>" not in html


async def test_json_is_for_machines(tmp_path: Path, clip: str) -> None:
    async with on_a_socket(answers, CLOCK) as url:
        ran = await run("measure", url, *CALM, "--audio", clip, "--json", "--out", str(tmp_path / "run"))
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())


async def test_report_rebuilds_the_same_summary(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"
    async with on_a_socket(answers, CLOCK) as url:
        await run("measure", url, *CALM, "--audio", clip, "--out", str(out))
    before = (out / "summary.json").read_bytes()
    for name in ("summary.json", "turns.csv", "report.html", "dialogues/d0001/recording.flac"):
        (out / name).unlink()
    ran = await run("report", str(out))
    assert ran.code == 0, ran.err
    assert (out / "summary.json").read_bytes() == before
    assert (out / "dialogues/d0001/recording.flac").exists()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does; a command that died must fail its test, not hang it."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


# ---- refusals: one line, exit code 2 -------------------------------------------------------------------------------


def one_line(ran: Ran) -> str:
    assert ran.code == 2, (ran.code, ran.out, ran.err)
    assert "Traceback" not in ran.err
    lines = [line for line in ran.err.splitlines() if line.startswith("duologue: ")]
    assert len(lines) == 1, ran.err
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["measure"], "no target"),
        (["measure", "ws://127.0.0.1:1"], "--script"),
        (["measure", "http://127.0.0.1:1", "--script", "facts"], "ws://"),
        (["measure", "ws://127.0.0.1:1", "--script", "fcats"], "facts"),
        (["measure", "ws://127.0.0.1:1", "--script", "facts", "--protocol", "openai"], "openai-realtime"),
        (["measure", "ws://127.0.0.1:1", "--script", "facts", "--api-key-env", "NOT_SET_X"], "NOT_SET_X"),
        (["measure", "ws://127.0.0.1:1", "--script", "facts", "--header", "nocolon"], "colon"),
        (["measure", "ws://127.0.0.1:1", "--script", "facts", "--vad", "x=1"], "server_vad"),
        (["measure", "ws://127.0.0.1:1", "--script", "facts", "--repeat", "0"], "--repeat"),
        (["measure", "ws://127.0.0.1:1", "--script", "facts"], "nothing listens"),
        (["measure", "ws://127.0.0.1:1", "--audio", "missing.wav"], "missing.wav"),
        (["measure", "--resume", "nowhere"], "not a run folder"),
        (["report", "nowhere"], "nowhere"),
        (["mesure"], "measure"),
    ],
)
async def test_what_the_user_can_mend_is_one_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    assert says in one_line(await run(*arguments, cwd=tmp_path))


async def test_two_runs_never_share_a_folder(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"

    async def slow(wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        await wire.receive()

    async with on_a_socket(answers, CLOCK) as url:
        await run("measure", url, *CALM, "--audio", clip, "--out", str(out))
        assert "already holds a run" in one_line(await run("measure", url, *CALM, "--audio", clip, "--out", str(out)))
    other = tmp_path / "other"
    async with on_a_socket(slow, CLOCK) as url:
        first = await start("measure", url, *CALM, "--audio", clip, "--out", str(other))
        await until(lambda: (other / ".lock").exists())
        second = await run("measure", "--resume", str(other))
        assert "another process is writing" in one_line(second)
        first.send_signal(signal.SIGINT)
        assert (await finish(first)).code == 130


async def test_a_file_in_the_way_and_a_place_that_is_not_ours(tmp_path: Path, clip: str) -> None:
    (tmp_path / "file").write_text("x")
    ran = await run("measure", "ws://127.0.0.1:1", "--audio", clip, "--out", str(tmp_path / "file"))
    assert "file" in one_line(ran)
    ran = await run("measure", "ws://127.0.0.1:1", "--audio", clip, "--out", str(tmp_path / "file" / "below"))
    assert "file" in one_line(ran)


@pytest.mark.parametrize("command", [[], ["scripts"], ["weights"]])
async def test_a_command_without_its_rest_shows_its_help(command: list[str], tmp_path: Path) -> None:
    ran = await run(*command, cwd=tmp_path)
    assert ran.code == 2
    assert len(ran.err.splitlines()) > 5 and "Usage:" in ran.err


async def test_a_resumed_demo_takes_no_other_options(tmp_path: Path) -> None:
    """Its server and its turns are those of the run that was begun."""
    ran = await run("demo", "--resume", str(tmp_path), "--asr", "whisper-tiny.en", cwd=tmp_path)
    assert "--asr cannot change a run that is resumed" in one_line(ran)
    ran = await run("demo", "--resume", str(tmp_path), cwd=tmp_path)
    assert "not a run folder" in one_line(ran)


async def test_a_run_of_another_command_is_no_demo(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"
    async with on_a_socket(answers, CLOCK) as url:
        await run("measure", url, *CALM, "--audio", clip, "--out", str(out))
    assert "duologue measure --resume" in one_line(await run("demo", "--resume", str(out)))


# ---- interruption and resumption -----------------------------------------------------------------------------------


class Counting:
    """Answers, and counts the connections that came as far as a request."""

    def __init__(self) -> None:
        self.served = 0

    async def __call__(self, wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        self.served += 1
        await wire.send(created("r"))
        await wire.send(audio("r", tone(100)))
        await wire.send(done("r"))
        await wire.receive()


async def test_ctrl_c_leaves_a_readable_run_that_resumes(tmp_path: Path, clip: str) -> None:
    out, peer = tmp_path / "run", Counting()
    async with on_a_socket(peer, CLOCK) as url:
        process = await start("measure", url, *CALM, "--audio", clip, "--repeat", "4", "--out", str(out))
        await until(lambda: peer.served >= 2)
        process.send_signal(signal.SIGINT)
        ran = await finish(process)
        assert ran.code == 130, ran.err
        done_before = len(RunFolder.open(out).journal())
        assert 1 <= done_before < 4
        assert f"--resume {out}" in ran.err
        assert (out / "report.html").exists()
        kept = (out / "dialogues/d0001/events.jsonl").read_bytes()
        ran = await run("measure", "--resume", str(out))
    assert ran.code == 0, ran.err
    journal = RunFolder.open(out).journal()
    assert sorted(line.number for line in journal) == [0, 1, 2, 3]
    assert (out / "dialogues/d0001/events.jsonl").read_bytes() == kept
    assert peer.served in (4, 5)  # the dialogue that was cut off in its midst is performed again


async def test_kill_9_loses_nothing_that_was_done(tmp_path: Path, clip: str) -> None:
    out, peer = tmp_path / "run", Counting()
    async with on_a_socket(peer, CLOCK) as url:
        process = await start("measure", url, *CALM, "--audio", clip, "--repeat", "3", "--out", str(out))
        await until(lambda: (out / "journal.jsonl").exists())
        process.kill()
        await finish(process)
        with (out / "journal.jsonl").open("ab") as torn:
            torn.write(b'{"id":"d00')
        ran = await run("measure", "--resume", str(out))
    assert ran.code == 0, ran.err
    assert sorted(line.number for line in RunFolder.open(out).journal()) == [0, 1, 2]


# ---- failures are results ------------------------------------------------------------------------------------------


async def test_nothing_completed_is_exit_code_1(tmp_path: Path, clip: str) -> None:
    async def fails(wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        await wire.send(created("r"))
        await wire.send(done("r", "failed", status_details={"error": {"code": "rate_limit_exceeded", "message": "!"}}))
        await wire.receive()

    async with on_a_socket(fails, CLOCK) as url:
        ran = await run("measure", url, *CALM, "--audio", clip, "--out", str(tmp_path / "run"))
    assert ran.code == 1, ran.err
    assert "rate limit" in ran.out


async def test_a_flood_fails_the_turn(tmp_path: Path, clip: str) -> None:
    async def floods(wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        while True:
            await wire.send(text("r", "x" * 10_000))

    async with on_a_socket(floods, CLOCK) as url:
        ran = await run(
            "measure", url, *CALM, "--audio", clip, "--limit-bytes", "1000000", "--json", "--out", str(tmp_path / "run")
        )
    assert ran.code == 1, ran.err
    assert '"flood"' in ran.out


# ---- secrets -------------------------------------------------------------------------------------------------------


def assert_clean(folder: Path, *texts: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
    for shown in texts:
        assert CANARY not in shown


async def tells_the_key(wire: Wire) -> None:
    """A server that echoes what it should not."""
    await wire.send({"type": "session.created", "session": {"key": CANARY}})
    await wire.receive()
    await wire.send({"type": "session.updated", "session": {}})
    await request(wire)
    await wire.send(created("r"))
    await wire.send(text("r", f"your key is {CANARY}"))
    await wire.send(done("r", "failed", status_details={"error": {"code": "x", "message": f"bad {CANARY}"}}))
    await wire.close(1008, f"bye {CANARY}")


async def test_no_secret_is_written_anywhere(tmp_path: Path, clip: str) -> None:
    def refuse(connection: Any, request: Any) -> Any:
        return connection.respond(HTTPStatus.UNAUTHORIZED, f"bad {request.headers['Authorization']}")

    key = {"CANARY_KEY": CANARY}
    common = ["--audio", clip, "--api-key-env", "CANARY_KEY", "--header", f"X-Other: {CANARY}-2"]
    async with on_a_socket(answers, CLOCK, process_request=refuse) as url:
        out = tmp_path / "refused"
        ran = await run("measure", f"{url}?model=m&token={CANARY}", *common, "--out", str(out), extra=key)
        assert "HTTP 401" in one_line(ran)
        assert_clean(out, ran.out, ran.err)
    async with on_a_socket(tells_the_key, CLOCK) as url:
        out = tmp_path / "told"
        ran = await run("measure", url, *common, "--out", str(out), extra=key)
        assert ran.code == 1, ran.err
        assert_clean(out, ran.out, ran.err)


async def test_a_crash_shows_no_secret(tmp_path: Path, clip: str) -> None:
    """A bug in our own code, with the key in its message and its locals."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.get('CANARY_KEY'):\n"
        "    import harness.runs.measuring as m\n"
        "    def crash(run, access, **_):\n"
        "        raise RuntimeError('crash with ' + access.api_key)\n"
        "    m.measure_run = crash\n"
    )
    out = tmp_path / "run"
    arguments = ["measure", "ws://127.0.0.1:1", "--audio", clip, "--api-key-env", "CANARY_KEY", "--out", str(out)]
    ran = await run(*arguments, extra={"CANARY_KEY": CANARY, "PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert ran.code == 70
    assert "RuntimeError: crash with ***" in ran.err
    assert_clean(out, ran.out, ran.err)


async def test_a_proxy_in_the_environment_swallows_no_loopback(tmp_path: Path, clip: str) -> None:
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:1") | {"ALL_PROXY": "socks5://127.0.0.1:1"}
    async with on_a_socket(answers, CLOCK) as url:
        ran = await run("measure", url, *CALM, "--audio", clip, "--out", str(tmp_path / "run"), extra=proxies)
    assert ran.code == 0, ran.err


def _no_room() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))


async def test_a_full_disk_is_named_and_what_was_done_is_kept(tmp_path: Path, clip: str) -> None:
    """RLIMIT_FSIZE stands in for a full disk: every write past it fails, as on a device without space."""
    out, peer = tmp_path / "run", Counting()
    async with on_a_socket(peer, CLOCK) as url:
        first = await run("measure", url, *CALM, "--audio", clip, "--out", str(out), "--repeat", "1")
        assert first.code == 0, first.err
        journal = (out / "journal.jsonl").read_bytes()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "harness",
            "report",
            str(out),
            env=environment({}),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=_no_room,
        )
        ran = await finish(process)
    assert "cannot write" in one_line(ran)
    assert (out / "journal.jsonl").read_bytes() == journal
    assert not list(out.glob(".*.part"))


async def test_gone_clients_do_not_matter_to_the_helpers() -> None:
    """The scripted servers themselves: a client that leaves ends its peer quietly."""

    async def peer(wire: Wire) -> None:
        with pytest.raises(Gone):
            await wire.receive()

    async with on_a_socket(peer, CLOCK) as url:
        from websockets.asyncio.client import connect

        async with connect(url):
            pass
