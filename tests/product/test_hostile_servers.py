"""Servers that mean harm, against `duologue measure`: deep nests, half characters, escape sequences, echoed secrets."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from clients.openai_realtime import OpenAIRealtimeInterpreter
from clients.wire.openai_realtime import AudioDelta, Malformed, TextDelta, decode_server
from clients.wire.pcm import decode_base64
from harness.report.wording import SHOWN_AT_MOST
from sessions.clock import MonotonicClock
from sessions.secrets import Secrets
from tests.support.commands import run
from tests.support.peers import Wire, audio, created, done, greet, on_a_socket, request, text, tone

CLOCK = MonotonicClock()
CANARY = 'canary/sk-0123"456789'


@pytest.fixture
def clip(tmp_path: Path) -> str:
    path = tmp_path / "hello.wav"
    soundfile.write(path, np.concatenate([tone(200), np.zeros(1200, dtype=np.int16)]), 24_000)
    return str(path)


# ---- what comes in ---------------------------------------------------------------------------------------------------


def test_a_nest_of_brackets_is_malformed_and_nothing_worse() -> None:
    assert isinstance(decode_server(b'{"type":"x","a":' + b"[" * 200_000), Malformed)


def test_half_a_character_becomes_the_replacement_character() -> None:
    event = decode_server(b'{"type":"response.output_text.delta","response_id":"r","delta":"a\\ud83d"}')
    assert event == TextDelta("r", "a\ufffd")


@pytest.mark.parametrize("size", [(1 << 18) - 4, (1 << 18) // 4 * 3, 1 << 20])
def test_base64_in_slices_is_as_strict_as_in_one(size: int) -> None:
    data = np.random.default_rng(1).bytes(size)
    whole = base64.b64encode(data).decode()
    assert decode_base64(whole).data == data
    assert decode_base64(whole.rstrip("=")).data == data


def test_padding_between_slices_is_a_fault() -> None:
    at = 1 << 18
    assert decode_base64(f"{'A' * (at - 2)}=={'A' * at}").fault
    assert decode_base64(f"{'A' * at}*{'A' * (at - 1)}").fault == "base64 that does not decode (character '*')"


def test_a_reply_ends_once() -> None:
    interpreter = OpenAIRealtimeInterpreter()
    assert len(interpreter.feed(json.dumps(done("r")).encode())) == 2
    assert interpreter.feed(json.dumps(done("r", "failed")).encode()) == []


def test_a_minute_of_audio_in_one_message() -> None:
    event = decode_server(json.dumps(audio("r", tone(60_000))).encode())
    assert isinstance(event, AudioDelta) and event.audio.data == tone(60_000).astype("<i2").tobytes()


@pytest.mark.sockets
async def test_the_server_writes_no_line_and_no_escape_sequence_of_ours(tmp_path: Path, clip: str) -> None:
    async def refuses(wire: Wire) -> None:
        await wire.send({"type": "session.created", "session": {}})
        await wire.receive()
        await wire.send({"type": "error", "error": {"message": "no\x1b]0;t\x07\n\x1b[31mred\ud800 " + "x" * 99_999}})
        await wire.receive()

    async with on_a_socket(refuses, CLOCK) as url:
        ran = await run("measure", url, "--audio", clip, "--out", str(tmp_path / "run"))
    assert ran.code == 2 and ran.err.count("\n") == 2, ran.err
    assert "\x1b" not in ran.err and "\x07" not in ran.err
    assert len(ran.err) < 2 * SHOWN_AT_MOST and "--voice" in ran.err


@pytest.mark.sockets
async def test_megabytes_of_text_are_shown_in_part(tmp_path: Path, clip: str) -> None:
    async def chatters(wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        await wire.send(created("r"))
        await wire.send(audio("r", tone(100)))
        await wire.send(text("r", "word " * 400_000))
        await wire.send('{"type":"response.output_text.delta","response_id":"r","delta":"\\ud800"}')
        await wire.send(done("r"))
        await wire.receive()

    async with on_a_socket(chatters, CLOCK) as url:
        ran = await run("measure", url, "--audio", clip, "--out", str(tmp_path / "run"))
    assert ran.code in (0, 1) and "Traceback" not in ran.err, ran.err
    assert "(2000001 characters in all)" in " ".join(ran.out.split())
    assert len(ran.out) < 20_000
    assert (tmp_path / "run" / "report.html").stat().st_size < 1_000_000


# ---- what must not go out --------------------------------------------------------------------------------------------


def test_a_short_header_value_leaves_the_messages_whole() -> None:
    secrets = Secrets()
    for value in ("true", "audio", "response", "error", "delta", "AAAA"):
        secrets.add(value)
    message = b'{"type":"error","done":true,"audio":{"delta":"qAAAAq"},"response_id":"r","word":"true","s":"my audio"}'
    masked = secrets.mask_bytes(message)
    assert masked == message.replace(b'"word":"true"', b'"word":"****"').replace(b"my audio", b"my *****")


def test_a_secret_is_found_however_it_is_escaped() -> None:
    secrets = Secrets()
    secrets.add(CANARY)
    by_number = "".join(f"\\u{ord(character):04X}" for character in CANARY)
    for form in (json.dumps(CANARY), json.dumps(CANARY).replace("/", "\\/"), by_number):
        masked = secrets.mask_bytes(form.encode())
        assert len(masked) == len(form) and masked.strip(b'"*') == b""


async def tells_in_pieces(wire: Wire) -> None:
    await greet(wire)
    await request(wire)
    await wire.send(created("r"))
    for piece in ("so, ", f"it is {CANARY[:5]}", CANARY[5:11], f"{CANARY[11:]}, yes"):
        await wire.send(text("r", piece))
    await wire.send(json.dumps(text("r", CANARY)).replace("c", "\\u0063"))
    await wire.send(audio("r", tone(100)))
    await wire.send(done("r"))
    await wire.receive()


@pytest.mark.sockets
async def test_a_secret_told_in_pieces_is_masked(tmp_path: Path, clip: str) -> None:
    out, key = tmp_path / "run", {"KEY": CANARY}
    async with on_a_socket(tells_in_pieces, CLOCK) as url:
        ran = await run("measure", url, "--audio", clip, "--api-key-env", "KEY", "--out", str(out), extra=key)
    rebuilt = await run("report", str(out))
    assert ran.code in (0, 1) and rebuilt.code == 0, ran.err
    tail = CANARY.partition('"')[2]
    for shown in (ran.out, ran.err, rebuilt.out):
        assert tail not in shown
    for path in out.rglob("*"):
        assert not path.is_file() or tail.encode() not in path.read_bytes(), path
    assert "protocol fault" not in ran.out  # each message is still a good one


# ---- clumsy hands ----------------------------------------------------------------------------------------------------


async def answers_quickly(wire: Wire) -> None:
    await greet(wire)
    await request(wire)
    await wire.send(created("r"))
    await wire.send(audio("r", tone(100)))
    await wire.send(done("r"))
    await wire.receive()


@pytest.mark.sockets
async def test_no_redirect_is_followed_with_a_key(tmp_path: Path, clip: str) -> None:
    asked: list[Any] = []

    def elsewhere(connection: Any, request: Any) -> Any:
        asked.append(request)
        return connection.respond(HTTPStatus.OK, "")

    async with on_a_socket(answers_quickly, CLOCK, process_request=elsewhere) as other:

        def redirect(connection: Any, request: Any) -> Any:
            response = connection.respond(HTTPStatus.FOUND, "")
            response.headers["Location"] = other
            return response

        async with on_a_socket(answers_quickly, CLOCK, process_request=redirect) as url:
            ran = await run("measure", url, "--audio", clip, "--out", str(tmp_path / "run"))
    assert ran.code == 2 and f"HTTP 302, which leads to {other}" in ran.err, ran.err
    assert asked == []


@pytest.mark.sockets
async def test_any_terminal_and_any_limit(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"
    plain = {"PYTHONIOENCODING": "ascii", "COLUMNS": "30"}
    refused = await run("measure", "ws://127.0.0.1:1", "--audio", clip, "--out", str(out))
    assert refused.code == 2 and not out.exists()  # nothing was performed: the same command may be given again
    async with on_a_socket(answers_quickly, CLOCK) as url:
        ran = await run("measure", url, "--audio", clip, "--out", str(out), extra=plain)
    assert ran.code in (0, 1) and "report: " in ran.out, ran.err
    for option, value in (("--limit-idle", "inf"), ("--limit-reply", "nan"), ("--limit-connect", "-1")):
        assert (await run("measure", "ws://127.0.0.1:1", "--audio", clip, option, value)).code == 2
    for arguments in (["--header", "A b: c"], ["--header", "A: b\nc"]):
        ran = await run("measure", "ws://127.0.0.1:1", "--audio", clip, *arguments)
        assert ran.code == 2 and "cannot be sent" in ran.err
    ran = await run("measure", "--resume", str(out), "--repeat", "9")
    assert ran.code == 2 and "--repeat cannot change a run" in ran.err
    ran = await run("measure", "ws://127.0.0.1:1", "--audio", clip, "--out", str(tmp_path / ("x" * 300)))
    assert ran.code == 2 and "too long" in ran.err
