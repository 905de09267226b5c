"""Instants, attribution and the measures of a turn, on conversations made by hand, to the nanosecond."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.attribution import attribute
from metrics.conversation import (
    Conversation,
    Packet,
    Pcm,
    PeerFault,
    Reply,
    SentFrame,
    Stall,
    TextPiece,
    UserTurn,
    VadEvent,
)
from metrics.measures.base import Measure
from metrics.result import Failed, TurnResult, Unavailable, Value
from metrics.table import METRICS, definitions, metric
from metrics.turns import measure_conversation
from metrics.view import view_of
from sessions.errors import SetupError

MS = 1_000_000
RATE_HZ = 24_000
START_NS = 50_000 * MS + 123_457


def sound(ms: int, silent_ms: int = 0) -> Pcm:
    """`silent_ms` of zeros, then `ms` of a square wave that is above the gate at its first sample."""
    zeros = np.zeros(silent_ms * RATE_HZ // 1000, dtype=np.int16)
    return np.concatenate([zeros, np.tile(np.array([4000, -4000], dtype=np.int16), ms * RATE_HZ // 2000)])


def frames(start_ns: int, samples: int, late_ns: int = 0, rate_hz: int = RATE_HZ) -> tuple[SentFrame, ...]:
    """20 ms frames over `samples`; frame k is due when its last sample exists and leaves `late_ns` after."""
    size = rate_hz // 50
    made = []
    for first in range(0, samples, size):
        count = min(size, samples - first)
        due_ns = start_ns + (first + count) * 10**9 // rate_hz
        made.append(SentFrame(due_ns, due_ns + late_ns, first, count))
    return tuple(made)


def turn_a(start_ns: int = START_NS, index: int = 0, late_ns: int = 1000) -> UserTurn:
    """Class A: half a second whose last frame ends at the last speech sample, committed 2 µs after it was written."""
    samples = RATE_HZ // 2
    end_ns = start_ns + 500 * MS
    sent = frames(start_ns, samples, late_ns)
    written_ns = end_ns + late_ns
    return UserTurn(
        index, start_ns, RATE_HZ, samples, samples - 1, end_ns, "script", sent, written_ns + 2000, written_ns + 3000
    )


END_NS = START_NS + 500 * MS


def reply_at(t_ns: int, *packets: tuple[int, Pcm], done_ms: int = 900, texts: tuple[TextPiece, ...] = ()) -> Reply:
    """packets: (ms after `t_ns`, pcm) · done `done_ms` after `t_ns`."""
    made = tuple(Packet(t_ns + after_ms * MS, pcm) for after_ms, pcm in packets)
    return Reply(f"r{t_ns}", t_ns, made, texts, done_ns=t_ns + done_ms * MS, status="completed")


def measured(conversation: Conversation) -> TurnResult:
    [result] = measure_conversation(conversation)
    return result


def value(result: TurnResult, name: str) -> float:
    found = result.measures[name]
    assert isinstance(found, Value), f"{name}: {found}"
    return found.value


def reason(result: TurnResult, name: str) -> str:
    found = result.measures[name]
    assert isinstance(found, Unavailable), f"{name}: {found}"
    return found.because


def test_a_manual_turn_to_the_nanosecond() -> None:
    text = (TextPiece(END_NS + 250 * MS, ""), TextPiece(END_NS + 260 * MS, "Hello"), TextPiece(END_NS + 270 * MS, "!"))
    empty = np.zeros(0, dtype=np.int16)
    reply = reply_at(END_NS + 200 * MS, (50, empty), (100, sound(120, 80)), (290, sound(100)), texts=text)
    conversation = Conversation("A", RATE_HZ, START_NS - MS, (turn_a(),), (reply,))
    result = measured(conversation)

    assert result.instants_ns == {
        "speech_end": END_NS,
        "last_sent": END_NS + 1000,
        "turn_committed": END_NS + 3000,
        "reply_created": END_NS + 200 * MS,
        "first_text": END_NS + 260 * MS,
        "first_packet": END_NS + 300 * MS,
        "first_audible": END_NS + 380 * MS,
        "reply_done": END_NS + 1100 * MS,
    }
    assert result.played_ns == {str(b): END_NS + (380 + b) * MS for b in (0, 20, 60, 100, 200)}
    expected = {
        "first_packet_ms": 300.0,
        "first_text_ms": 260.0,
        "voice_to_voice_ms": 380.0,
        "voice_to_voice_b20_ms": 400.0,
        "voice_to_voice_b60_ms": 440.0,
        "voice_to_voice_b100_ms": 480.0,
        "voice_to_voice_b200_ms": 580.0,
        "first_packet_from_last_sent_ms": 299.999,
        "first_text_from_last_sent_ms": 259.999,
        "voice_to_voice_from_last_sent_ms": 379.999,
        "silence_padding_ms": 80.0,
        "commit_to_first_packet_ms": 299.997,
        "gap_max_ms": 190.0,
        "gap_p50_ms": 190.0,
        "gapless_prebuffer_ms": 0.0,
        "real_time_factor": 190 / 300,
        "reply_duration_ms": 300.0,
        "send_lateness_max_ms": 0.001,
        "heartbeat_lag_max_ms": 0.0,
    }
    expected |= {f"underruns_b{b}": 0.0 for b in (0, 20, 60, 100, 200)}
    expected |= {f"underrun_b{b}_ms": 0.0 for b in (0, 20, 60, 100, 200)}
    for name, figure in expected.items():
        assert value(result, name) == figure, name
    assert reason(result, "server_vad_delay_ms") == "class A has no server voice detection"
    assert set(expected) | {"server_vad_delay_ms"} == set(METRICS)
    assert (result.turn_class, result.outcome, result.heard_text) == ("completed", "answered", "Hello!")
    assert (result.method, result.reply_ids, result.flags) == ("script", [reply.id], [])


def test_speech_end_may_lie_inside_a_frame() -> None:
    turn = turn_a()
    n = 10_007  # in frame 20 of 25
    turn = replace(turn, last_sample=n, speech_end_ns=START_NS + 417 * MS)
    result = measured(Conversation("A", RATE_HZ, None, (turn,), (reply_at(END_NS, (10, sound(50))),)))
    assert result.instants_ns["last_sent"] == turn.frames[20].sent_ns


def test_a_reply_over_the_user_has_negative_latencies() -> None:
    reply = reply_at(END_NS - 200 * MS, (50, sound(50)))
    result = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (reply,)))
    assert value(result, "voice_to_voice_ms") == -150.0
    assert value(result, "voice_to_voice_b200_ms") == 50.0
    assert value(result, "first_packet_ms") == -150.0


def test_a_server_vad_turn() -> None:
    samples = RATE_HZ
    turn = UserTurn(
        0, START_NS, RATE_HZ, samples, 11_999, END_NS, "script", frames(START_NS, 3 * samples, late_ns=5000)
    )
    vad = (
        VadEvent(START_NS - 5, "stopped"),
        VadEvent(START_NS + 100 * MS, "started"),
        VadEvent(END_NS - 100 * MS, "stopped"),
        VadEvent(END_NS - 50 * MS, "started"),
        VadEvent(END_NS + 520 * MS, "stopped"),
        VadEvent(END_NS + 900 * MS, "stopped"),
    )
    reply = reply_at(END_NS + 525 * MS, (100, sound(50)))
    result = measured(Conversation("B", RATE_HZ, None, (turn,), (reply,), vad=vad))
    assert value(result, "server_vad_delay_ms") == 520.0
    assert result.instants_ns["last_sent"] == END_NS + 5000
    assert reason(result, "commit_to_first_packet_ms") == "class B has no end-of-turn message"
    silent = measured(Conversation("B", RATE_HZ, None, (turn,), (reply,)))
    assert "did not say that speech had stopped" in reason(silent, "server_vad_delay_ms")


def test_one_request_per_turn() -> None:
    turn = replace(turn_a(), frames=(), committed_ns=None, requested_ns=END_NS + 4 * MS)
    reply = reply_at(END_NS + 100 * MS, (10, sound(50)))
    result = measured(Conversation("C", RATE_HZ, None, (turn,), (reply,)))
    assert result.instants_ns["last_sent"] == result.instants_ns["turn_committed"] == END_NS + 4 * MS
    assert value(result, "commit_to_first_packet_ms") == 106.0
    assert value(result, "first_packet_from_last_sent_ms") == 106.0
    assert value(result, "send_lateness_max_ms") == 4.0
    unsent = measured(Conversation("C", RATE_HZ, None, (replace(turn, requested_ns=None),), (reply,)))
    assert reason(unsent, "first_packet_from_last_sent_ms") == "the request was not sent"
    assert reason(unsent, "send_lateness_max_ms") == "no frame was sent"


def test_full_duplex_has_no_first_packet() -> None:
    reply = reply_at(END_NS, (10, sound(50)))
    result = measured(Conversation("D", RATE_HZ, None, (turn_a(),), (reply,)))
    for name in METRICS:
        if not name.startswith(("send_lateness", "heartbeat", "voice_to_voice")) and "text" not in name:
            assert "class D" in reason(result, name), name
    assert value(result, "voice_to_voice_ms") == 10.0 and value(result, "voice_to_voice_b60_ms") == 70.0
    assert result.outcome == "answered"


def test_missing_instants_say_why() -> None:
    silent = measured(Conversation("A", RATE_HZ, None, (turn_a(),), ()))
    assert reason(silent, "voice_to_voice_ms") == reason(silent, "underruns_b0") == "no reply came"
    text = reply_at(END_NS, texts=(TextPiece(END_NS + MS, "Hi"),))
    written = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (text,)))
    assert reason(written, "voice_to_voice_b20_ms") == reason(written, "gap_max_ms") == "the reply has no audio"
    assert value(written, "first_text_ms") == 1.0
    quiet = reply_at(END_NS, (5, sound(0, 50)))
    below = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (quiet,)))
    assert reason(below, "silence_padding_ms") == "no sample of the reply is above the gate (gate/1)"
    assert reason(below, "first_text_ms") == "the reply has no text"
    assert value(below, "first_packet_ms") == 5.0
    assert "no audible sample" in below.flags
    assert "one arrival" in reason(below, "gap_p50_ms")
    unsent = replace(turn_a(), frames=turn_a().frames[:-1], committed_ns=None)
    cut = measured(Conversation("A", RATE_HZ, None, (unsent,), (quiet,)))
    assert "was not sent" in reason(cut, "first_packet_from_last_sent_ms")
    assert reason(cut, "commit_to_first_packet_ms") == "the end-of-turn message was not sent"


def test_reply_done_falls_back_to_the_last_audio() -> None:
    reply = replace(reply_at(END_NS, (10, sound(20)), (40, sound(20))), done_ns=None, status="")
    result = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (reply,)))
    assert result.instants_ns["reply_done"] == END_NS + 40 * MS
    empty = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (replace(reply, packets=()),)))
    assert "reply_done" not in empty.instants_ns


def two_turns(*replies: Reply, vad: tuple[VadEvent, ...] = ()) -> Conversation:
    second = turn_a(START_NS + 2000 * MS, index=1)
    return Conversation("B", RATE_HZ, None, (turn_a(), second), replies, vad=vad)


def test_the_tail_of_an_older_reply_stays_with_the_older_turn() -> None:
    older = reply_at(END_NS + 100 * MS, (0, sound(50)), (1800, sound(50)), done_ms=1801)
    newer = reply_at(END_NS + 2300 * MS, (0, sound(50)))
    first, second = measure_conversation(two_turns(newer, older))
    assert first.reply_ids == [older.id] and second.reply_ids == [newer.id]
    assert value(first, "reply_duration_ms") == 100.0
    assert value(second, "first_packet_ms") == 300.0


def test_a_turn_begins_when_its_first_frame_is_written() -> None:
    second = turn_a(START_NS + 2000 * MS, index=1)
    before = reply_at(second.frames[0].sent_ns - 1, (0, sound(50)))
    conversation = Conversation("B", RATE_HZ, None, (turn_a(), second), (before,))
    assert [replies.reply for replies in attribute(conversation)] == [before, None]
    after = replace(before, created_ns=second.frames[0].sent_ns)
    conversation = replace(conversation, replies=(after,))
    assert [replies.reply for replies in attribute(conversation)] == [None, after]


def test_a_false_start_is_counted_and_gives_no_latency() -> None:
    created_ns = END_NS - 300 * MS
    false = replace(
        reply_at(created_ns, (0, sound(400)), done_ms=160), status="cancelled", reason="turn_detected", id="false"
    )
    real = reply_at(END_NS + 600 * MS, (0, sound(50)))
    later = reply_at(END_NS + 900 * MS, (0, sound(50)))
    flush = VadEvent(created_ns + 120 * MS, "started")
    first, _ = measure_conversation(two_turns(false, real, later, vad=(flush,)))
    assert (first.false_starts, first.false_start_heard_ms) == (1, 120.0)
    assert first.reply_ids == ["false", real.id, later.id]
    assert value(first, "voice_to_voice_ms") == 600.0
    assert first.flags == ["more replies after the one that was measured: 1"]
    unannounced, _ = measure_conversation(two_turns(false, real))
    assert unannounced.false_start_heard_ms == 160.0, "without the server's word, up to the cancelled end"


def test_a_reply_that_outlives_the_speech_is_no_false_start() -> None:
    created_ns = END_NS - 300 * MS
    early = replace(reply_at(created_ns, (0, sound(50)), done_ms=300), status="cancelled")
    first, _ = measure_conversation(two_turns(early))
    assert first.false_starts == 0
    assert value(first, "voice_to_voice_ms") == -300.0


def test_a_greeting_belongs_to_no_turn() -> None:
    greeting = reply_at(START_NS - 500 * MS, (0, sound(50)))
    first, second = measure_conversation(two_turns(greeting))
    assert first.reply_ids == second.reply_ids == []
    assert first.flags == ["the peer spoke before the first turn"] and second.flags == []


def test_audio_after_done_is_kept_and_flagged() -> None:
    reply = reply_at(END_NS + 100 * MS, (0, sound(50)), (400, sound(20)), done_ms=100)
    result = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (reply,)))
    assert result.flags == ["audio after done"]
    assert result.instants_ns["reply_done"] == END_NS + 200 * MS
    assert value(result, "reply_duration_ms") == 70.0
    assert value(result, "underruns_b0") == 1.0 and value(result, "underrun_b0_ms") == 350.0


def test_faults_and_clicks_are_shown() -> None:
    click = np.concatenate([sound(3), sound(50, 400)])
    reply = reply_at(END_NS + 100 * MS, (0, click))
    faults = (
        PeerFault(END_NS, "bad base64", "delta 3"),
        PeerFault(END_NS + 1, "bad base64", "delta 3"),
        PeerFault(START_NS - 1, "too early", ""),
    )
    result = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (reply,), faults=faults))
    assert result.flags == [
        "protocol fault: bad base64: delta 3 (2 times)",
        "sound too short for speech: 5 ms or less at 0 ms into the reply",
    ]
    assert value(result, "silence_padding_ms") == 403.0
    assert result.turn_class == "completed"


def test_gaps_are_between_distinct_arrivals() -> None:
    reply = reply_at(END_NS, (0, sound(20)), (10, sound(20)), (10, sound(20)), (40, sound(20)), (100, sound(20)))
    result = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (reply,)))
    assert value(result, "gap_max_ms") == 60.0
    assert value(result, "gap_p50_ms") == 30.0


def test_lateness_counts_up_to_the_first_audible_sample() -> None:
    turn = UserTurn(0, START_NS, RATE_HZ, 2 * RATE_HZ, 11_999, END_NS, "script", frames(START_NS, 2 * RATE_HZ))
    reply = reply_at(END_NS + 100 * MS, (0, sound(50, 50)), done_ms=400)
    audible_ns = END_NS + 150 * MS
    frame_at = {frame.due_ns: k for k, frame in enumerate(turn.frames)}

    def late(due_ns: int, late_ms: int) -> UserTurn:
        k = frame_at[due_ns]
        slow = replace(turn.frames[k], sent_ns=due_ns + late_ms * MS)
        return replace(turn, frames=(*turn.frames[:k], slow, *turn.frames[k + 1 :]))

    before, after = START_NS + 640 * MS, START_NS + 660 * MS
    assert before <= audible_ns < after
    for due_ns, expected in ((before, 33.0), (after, 0.0)):
        result = measured(Conversation("B", RATE_HZ, None, (late(due_ns, 33),), (reply,)))
        assert value(result, "send_lateness_max_ms") == expected
    silent = replace(reply, packets=())
    for due_ns, expected in ((END_NS + 500 * MS, 33.0), (END_NS + 520 * MS, 0.0)):
        result = measured(Conversation("B", RATE_HZ, None, (late(due_ns, 33),), (silent,)))
        assert value(result, "send_lateness_max_ms") == expected, "nothing is audible: up to reply_done"


def test_heartbeat_lag_counts_from_the_first_frame_to_reply_done() -> None:
    reply = reply_at(END_NS, (10, sound(50)), done_ms=500)
    done_ns, due_ns = END_NS + 500 * MS, turn_a().frames[0].due_ns

    def lag(stall: Stall) -> float:
        return value(
            measured(Conversation("A", RATE_HZ, None, (turn_a(),), (reply,), stalls=(stall,))), "heartbeat_lag_max_ms"
        )

    assert lag(Stall(due_ns - 1, 30 * MS)) == 0.0
    assert lag(Stall(due_ns, 30 * MS)) == 30.0
    assert lag(Stall(done_ns + 10 * MS, 30 * MS)) == 30.0, "it began before reply_done"
    assert lag(Stall(done_ns + 31 * MS, 30 * MS)) == 0.0


def shifted(conversation: Conversation, by_ns: int) -> Conversation:
    turns = tuple(
        replace(
            turn,
            start_ns=turn.start_ns + by_ns,
            speech_end_ns=turn.speech_end_ns + by_ns,
            committed_ns=None if turn.committed_ns is None else turn.committed_ns + by_ns,
            frames=tuple(replace(f, due_ns=f.due_ns + by_ns, sent_ns=f.sent_ns + by_ns) for f in turn.frames),
        )
        for turn in conversation.turns
    )
    replies = tuple(
        replace(
            reply,
            created_ns=reply.created_ns + by_ns,
            done_ns=None if reply.done_ns is None else reply.done_ns + by_ns,
            packets=tuple(replace(packet, t_ns=packet.t_ns + by_ns) for packet in reply.packets),
        )
        for reply in conversation.replies
    )
    return replace(conversation, turns=turns, replies=replies)


@given(by_ns=st.integers(-(10**11), 10**13), arrivals_ms=st.lists(st.integers(0, 2000), min_size=1, max_size=6))
def test_only_differences_matter(by_ns: int, arrivals_ms: list[int]) -> None:
    packets = [(ms, sound(20, 7)) for ms in sorted(arrivals_ms)]
    conversation = Conversation("A", RATE_HZ, None, (turn_a(),), (reply_at(END_NS, *packets, done_ms=2500),))
    here, there = measured(conversation), measured(shifted(conversation, by_ns))
    assert here.measures == there.measures
    moved = {name: t_ns + by_ns for name, t_ns in here.instants_ns.items()}
    assert there.instants_ns == moved


def test_every_measure_is_named_versioned_and_documented() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    for name in METRICS:
        found = metric(name)
        assert found.name == name and found.version and found.unit and found.formula
        assert found.direction in ("lower", "higher", "none")
        assert f"`{name}`" in docs, f"docs/metrics.md does not define {name}"
    known = definitions()
    assert known["gate"] == known["playout"] == "1" and set(METRICS) < set(known)


def test_an_unknown_measure_names_the_nearest() -> None:
    with pytest.raises(SetupError, match="Did you mean 'first_packet_ms'"):
        measure_conversation(two_turns(), names=["frist_packet_ms"])


def test_a_measure_that_breaks_is_an_error_and_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(view: object) -> Value:
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setitem(METRICS, "broken_ms", f"{__name__}:BROKEN")
    monkeypatch.setattr("metrics.turns.metric", lambda name: Measure(name, "1", "ms", "lower", "1 / 0", broken))
    result = measure_conversation(two_turns(), names=["broken_ms"])[0]
    assert result.measures == {"broken_ms": Failed("ZeroDivisionError: nothing to divide by")}


def test_results_survive_a_file() -> None:
    result = measured(Conversation("A", RATE_HZ, None, (turn_a(),), (reply_at(END_NS, (10, sound(50))),)))
    assert msgspec.json.decode(msgspec.json.encode(result), type=TurnResult) == result


def test_a_view_shares_the_play_outs_of_all_buffers() -> None:
    reply = reply_at(END_NS, (0, sound(50)), (100, sound(50)))
    conversation = Conversation("A", RATE_HZ, None, (turn_a(),), (reply,))
    view = view_of(conversation, attribute(conversation)[0])
    assert {b: len(playout.underruns) for b, playout in view.heard.playouts.items()} == {
        0: 1,
        20: 1,
        60: 0,
        100: 0,
        200: 0,
    }
