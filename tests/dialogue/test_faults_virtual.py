"""Faults from the field, each with its right outcome, on the virtual clock."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from metrics.result import Unavailable
from sessions.clock import NS_PER_MS, NS_PER_S
from sessions.events import Closed, GaveUp, TurnStarted
from sessions.runs import Limits
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.peers import Peer, Wire, audio, created, done, greet, raw_audio, request, sleep_ms, text, tone

QUICK = Limits(connect_s=2, reply_s=60, idle_s=5)


def replying(*messages: dict[str, Any] | str | float, then: str = "") -> Peer:
    """A server that answers each request with `messages`; a number is a pause in ms. then: close, 1001, reset."""

    async def peer(wire: Wire) -> None:
        await greet(wire)
        while True:
            await request(wire)
            for message in messages:
                if isinstance(message, (int, float)):
                    await sleep_ms(wire, message)
                else:
                    await wire.send(message)
            if then == "reset":
                await wire.reset()
            elif then:
                await wire.close(int(then))

    return peer


def outcome(peer: Peer, **settings: Any) -> tuple[str, str]:
    turn = play_virtual(peer, limits=QUICK, **settings).turns[0]
    return turn.turn_class, turn.outcome


# ---- a turn that ends without sound --------------------------------------------------------------------------------

TOOL: dict[str, Any] = {"output": [{"type": "function_call", "name": "f"}]}


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (replying(created("r"), done("r", output=[])), ("completed", "empty")),
        (replying(created("r"), done("r", **TOOL)), ("completed", "tool call")),
        (replying(created("r"), text("r", "Hello."), done("r")), ("completed", "text only")),
        (replying(then="1000"), ("failed", "closed")),
    ],
)
def test_a_turn_without_sound_ends_at_once_and_has_no_latency(peer: Peer, expected: tuple[str, str]) -> None:
    played = play_virtual(peer, limits=QUICK)
    turn = played.turns[0]
    assert (turn.turn_class, turn.outcome) == expected
    assert isinstance(turn.measures["first_packet_ms"], Unavailable)
    assert isinstance(turn.measures["voice_to_voice_ms"], Unavailable)
    ended = played.record.events[-1].t_ns
    assert ended - turn.instants_ns["speech_end"] < NS_PER_S


def test_the_dialogue_goes_on_after_a_turn_without_sound() -> None:
    played = play_virtual(replying(created("r"), done("r")), [utterance(), utterance()], limits=QUICK)
    assert [t.outcome for t in played.turns] == ["empty", "time-out"]  # the same reply id twice is not a second reply


# ---- response.done that is not a success ---------------------------------------------------------------------------


def _failed(code: str) -> dict[str, Any]:
    return {"status_details": {"type": "failed", "error": {"type": "server_error", "code": code, "message": "sorry"}}}


ENDINGS = {
    "rate limit": ("failed", _failed("rate_limit_exceeded")),
    "server error": ("failed", _failed("server_error")),
    "incomplete: max_output_tokens": ("incomplete", {"status_details": {"reason": "max_output_tokens"}}),
    "incomplete: content_filter": ("incomplete", {"status_details": {"reason": "content_filter"}}),
    "cancelled: turn_detected": ("cancelled", {"status_details": {"reason": "turn_detected"}}),
    "cancelled: client_cancelled": ("cancelled", {"status_details": {"reason": "client_cancelled"}}),
}


@pytest.mark.parametrize("expected", ENDINGS)
@pytest.mark.parametrize("sound_ms", [0, 400])
def test_each_unhappy_ending_has_its_own_outcome(expected: str, sound_ms: int) -> None:
    status, fields = ENDINGS[expected]
    sound = [audio("r", tone(sound_ms))] if sound_ms else []
    played = play_virtual(replying(100, created("r"), *sound, done("r", status, **fields)), limits=QUICK)
    turn = played.turns[0]
    assert (turn.turn_class, turn.outcome) == ("failed", expected)
    if sound_ms:
        assert played.ms(0, "first_packet_ms") == 100.0


# ---- bytes and base64 ----------------------------------------------------------------------------------------------


def ramp(samples: int = 24_000) -> np.ndarray[Any, np.dtype[np.int16]]:
    return np.arange(samples).astype(np.int16)


def _cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, position, k = [], 0, 0
    while position < len(data):
        size = sizes[k % len(sizes)]
        pieces.append(data[position : position + size])
        position, k = position + size, k + 1
    return pieces


@pytest.mark.parametrize("sizes", [[4063, 1697, 1, 3], [1], [3], [48_000], [7, 1]])
def test_samples_survive_any_cut_of_the_bytes(sizes: list[int]) -> None:
    pieces = _cut(ramp(2_400).astype("<i2").tobytes(), sizes)
    deltas = [raw_audio("r", base64.b64encode(piece).decode()) for piece in pieces]
    played = play_virtual(replying(created("r"), *deltas, done("r")), limits=QUICK)
    reply = played.derived.conversation.replies[0]
    assert np.array_equal(np.concatenate([p.pcm for p in reply.packets]), ramp(2_400))
    assert not played.derived.conversation.faults


def test_half_a_sample_is_counted_and_never_joins_the_next_reply() -> None:
    async def peer(wire: Wire) -> None:
        await greet(wire)
        for name in ("a", "b"):
            await request(wire)
            data = ramp().astype("<i2").tobytes()
            await wire.send(created(name))
            await wire.send(raw_audio(name, base64.b64encode(data[:-1] if name == "a" else data).decode()))
            await wire.send(done(name))

    played = play_virtual(peer, [utterance(), utterance()], limits=QUICK)
    first, second = played.derived.conversation.replies
    assert sum(len(p.pcm) for p in first.packets) == 23_999
    assert np.array_equal(second.packets[0].pcm, ramp())
    assert [fault.kind for fault in played.derived.conversation.faults] == ["half sample"]
    assert any("half sample" in flag for flag in played.turns[0].flags)
    assert not any("half sample" in flag for flag in played.turns[1].flags)


def test_a_sample_arrives_with_its_second_byte() -> None:
    data = tone(20).astype("<i2").tobytes()
    first, second = (raw_audio("r", base64.b64encode(part).decode()) for part in (data[:1], data[1:]))
    played = play_virtual(replying(created("r"), 50, first, 40, second, done("r")), limits=QUICK)
    assert played.ms(0, "first_packet_ms") == 90.0


def test_each_base64_piece_is_decoded_on_its_own() -> None:
    data = tone(10).astype("<i2").tobytes()[:14]
    deltas = [raw_audio("r", base64.b64encode(part).decode()) for part in (data[:5], data[5:10], data[10:])]
    played = play_virtual(replying(created("r"), *deltas, done("r")), limits=QUICK)
    joined = np.concatenate([p.pcm for p in played.derived.conversation.replies[0].packets])
    assert joined.astype("<i2").tobytes() == data


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda s: s[:8] + "*" + s[8:], "base64"),
        (lambda s: s[:8] + "\n" + s[8:], "base64"),
        (lambda s: "-_" + s[2:], "base64"),
        (lambda s: s.rstrip("="), "note"),
    ],
)
def test_damaged_base64_is_a_named_fault(damage: Any, kind: str) -> None:
    good = base64.b64encode(tone(100).astype("<i2").tobytes()[:-1]).decode()
    assert good.endswith("=")
    whole = raw_audio("r", base64.b64encode(b"\0").decode())
    rest = raw_audio("r", base64.b64encode(tone(100).astype("<i2").tobytes()).decode())
    messages = [
        created("r"),
        rest,
        raw_audio("r", damage(good)),
        whole if kind == "note" else text("r", "x"),
        done("r"),
    ]
    played = play_virtual(replying(*messages), limits=QUICK)
    assert [fault.kind for fault in played.derived.conversation.faults] == [kind]
    assert played.turns[0].outcome == "answered"
    assert any(kind in flag for flag in played.turns[0].flags)


def test_nothing_but_damaged_audio_is_no_answer() -> None:
    peer = replying(created("r"), raw_audio("r", "****"), done("r"))
    assert outcome(peer) == ("failed", "server error")


# ---- ends ----------------------------------------------------------------------------------------------------------

SECOND = audio("r", tone(1000))


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (replying(created("r"), SECOND), ("failed", "no end event")),
        (replying(created("r"), SECOND, then="1000"), ("failed", "closed")),
        (replying(created("r"), SECOND, then="1001"), ("failed", "closed")),
        (replying(created("r"), SECOND, then="reset"), ("failed", "reset")),
        (replying(created("r"), SECOND, done("r"), 300, audio("r", tone(200))), ("completed", "answered")),
    ],
)
def test_every_end_of_a_reply_keeps_its_audio_and_instants(peer: Peer, expected: tuple[str, str]) -> None:
    played = play_virtual(peer, limits=QUICK)
    turn = played.turns[0]
    assert (turn.turn_class, turn.outcome) == expected
    assert turn.instants_ns["first_packet"] == turn.instants_ns["speech_end"]
    samples = sum(len(p.pcm) for p in played.derived.conversation.replies[0].packets)
    assert samples == 24_000 + (4_800 if expected[0] == "completed" else 0)
    if expected[0] == "completed":
        assert any("after" in flag for flag in turn.flags), turn.flags


def test_the_idle_limit_is_stated_and_in_no_latency() -> None:
    played = play_virtual(replying(created("r"), SECOND), limits=QUICK)
    gave_up = next(e for e in played.record.events if isinstance(e, GaveUp))
    assert gave_up.t_ns - played.turns[0].instants_ns["first_packet"] == 5 * NS_PER_S
    assert "5 s" in played.turns[0].detail


def test_a_long_gap_of_a_living_server_is_a_gap_not_a_failure() -> None:
    """25 s of silence in the reply; application pings only for 35 s."""
    late = replying(created("r"), audio("r", tone(100)), 25_000, audio("r", tone(100)), done("r"))
    played = play_virtual(late)
    assert played.turns[0].outcome == "answered"
    assert played.ms(0, "gap_max_ms") == 25_000.0
    pings: list[Any] = [item for _ in range(35) for item in (1000, {"type": "ping"})]
    played = play_virtual(replying(created("r"), *pings, audio("r", tone(100)), done("r")))
    assert played.turns[0].outcome == "answered"
    assert played.ms(0, "first_packet_ms") == 35_000.0


def test_words_without_an_end_are_a_reply_without_one_for_later_turns_too() -> None:
    played = play_virtual(replying(created("r"), text("r", "Well")), [utterance(), utterance()], limits=QUICK)
    assert [turn.outcome for turn in played.turns] == ["no end event"] * 2
    assert "turn 1 ended with no end event" in played.turns[1].detail


def test_a_dead_server_is_named_so() -> None:
    played = play_virtual(replying(), limits=QUICK)
    assert played.turns[0].outcome == "time-out"
    assert "no sign of life for 5 s" in played.turns[0].detail


# ---- set-up and manners --------------------------------------------------------------------------------------------


async def refuses_session(wire: Wire) -> None:
    await wire.send({"type": "session.created", "session": {}})
    await wire.receive()
    error = {
        "type": "invalid_request_error",
        "code": "invalid_value",
        "message": "no such voice",
        "event_id": "session",
    }
    await wire.send({"type": "error", "error": error})
    await wire.receive()


async def speaks_another_dialect(wire: Wire) -> None:
    await wire.send({"type": "session.created", "id": "sess", "created": 1})
    await wire.receive()


async def sends_garbage(wire: Wire) -> None:
    await wire.send("\x00\x01 hello")
    await wire.receive()


async def never_speaks(wire: Wire) -> None:
    await wire.receive()


@pytest.mark.parametrize(
    ("peer", "kind", "says"),
    [
        (refuses_session, "refused", "no such voice"),
        (speaks_another_dialect, "refused", "does not speak openai-realtime"),
        (sends_garbage, "refused", "not JSON"),
        (never_speaks, "time-out", "it sent nothing"),
    ],
)
def test_a_session_that_cannot_be_set_up_says_why(peer: Peer, kind: str, says: str) -> None:
    played = play_virtual(peer, [utterance(), utterance()], limits=QUICK)
    assert played.record.error is not None
    assert says in str(played.record.error)
    assert [(t.turn_class, t.outcome) for t in played.turns] == [("failed", kind)] * 2


def test_a_refused_request_fails_its_turn_and_the_dialogue_goes_on() -> None:
    async def peer(wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        error = {"code": "invalid_request", "message": "not now", "type": "x", "event_id": "request-0"}
        await wire.send({"type": "error", "error": error})
        await request(wire)
        await wire.send(created("r"))
        await wire.send(audio("r", tone(100)))
        await wire.send(done("r"))

    played = play_virtual(peer, [utterance(), utterance()], limits=QUICK)
    assert [(t.turn_class, t.outcome) for t in played.turns] == [("failed", "refused"), ("completed", "answered")]


def test_an_error_that_names_nothing_ends_the_wait_early() -> None:
    peer = replying({"type": "error", "error": {"code": "boom", "message": "it broke", "type": "server_error"}})
    played = play_virtual(peer)
    assert played.turns[0].turn_class == "failed"
    assert "it broke" in played.turns[0].detail


def test_a_peer_that_does_not_read_fails_the_turn() -> None:
    played = _unread(200_000)
    assert [t.outcome for t in played.turns] == ["peer does not read", "peer does not read"]
    closed = next(e for e in played.record.events if isinstance(e, Closed))
    assert closed.by == "us"
    assert sum(isinstance(e, TurnStarted) for e in played.record.events) == 1


def _unread(waiting_bytes: int) -> Played:
    from tests.support import peers

    original = peers.MemoryTransport.buffered_bytes
    try:
        peers.MemoryTransport.buffered_bytes = property(lambda self: waiting_bytes)  # type: ignore[assignment]
        return play_virtual(replying(created("r"), done("r")), [utterance(), utterance()], limits=QUICK)
    finally:
        peers.MemoryTransport.buffered_bytes = original  # type: ignore[method-assign]


def test_a_false_start_gives_no_latency() -> None:
    """Server VAD: a reply begun and cancelled in the middle of the utterance, then the real one."""

    async def peer(wire: Wire) -> None:
        await greet(wire)
        await sleep_ms(wire, 300)
        await wire.send(created("early"))
        await wire.send(audio("early", tone(60)))
        await sleep_ms(wire, 100)
        await wire.send({"type": "input_audio_buffer.speech_started", "item_id": "i", "audio_start_ms": 0})
        await wire.send(done("early", "cancelled", status_details={"reason": "turn_detected"}))
        await sleep_ms(wire, 900)
        await wire.send(created("real"))
        await wire.send(audio("real", tone(100)))
        await wire.send(done("real"))
        while True:
            await wire.receive()

    played = play_virtual(peer, [utterance(1000, gap_ms=0)], turn_detection="server_vad", limits=QUICK)
    turn = played.turns[0]
    assert (turn.outcome, turn.false_starts, turn.false_start_heard_ms) == ("answered", 1, 60.0)
    start = next(e for e in played.record.events if isinstance(e, TurnStarted))
    expected = (played.derived.conversation.ready_ns or 0) + 1300 * NS_PER_MS - start.speech_end_ns
    assert played.ms(0, "first_packet_ms") == expected / NS_PER_MS
