"""One class and one named outcome per attempt: the endings that peers have shown in the field."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from metrics.conversation import (
    Conversation,
    End,
    Packet,
    PeerFault,
    Reply,
    SentFrame,
    Stall,
    TextPiece,
    UserTurn,
    VadEvent,
)
from metrics.outcome import COMPLETED, FAILED, kind_of
from metrics.result import TurnResult, Unavailable, Value
from metrics.turns import measure_conversation

MS = 1_000_000
RATE_HZ = 24_000
START_NS = 1000 * MS
END_NS = START_NS + 500 * MS
LATENCIES = ("first_packet_ms", "first_text_ms", "voice_to_voice_ms")


def turn(index: int = 0, start_ns: int = START_NS, late_ns: int = 0) -> UserTurn:
    made = tuple(
        SentFrame(start_ns + (k + 1) * 20 * MS, start_ns + (k + 1) * 20 * MS + late_ns, k * 480, 480) for k in range(25)
    )
    end_ns = start_ns + 500 * MS
    return UserTurn(index, start_ns, RATE_HZ, 12_000, 11_999, end_ns, "script", made, end_ns, end_ns)


def audio(ms: int, from_ns: int = END_NS + 300 * MS) -> tuple[Packet, ...]:
    if not ms:
        return ()
    return (Packet(from_ns, np.tile(np.array([4000, -4000], dtype=np.int16), ms * RATE_HZ // 2000)),)


def reply(
    status: str = "completed",
    *,
    packets: tuple[Packet, ...] = (),
    text: str = "",
    reason: str = "",
    code: str = "",
    tool: bool = False,
    done_ns: int | None = END_NS + 800 * MS,
) -> Reply:
    texts = (TextPiece(END_NS + 310 * MS, text),) if text else ()
    return Reply("r", END_NS + 200 * MS, packets, texts, done_ns, status, reason, code, has_tool_call=tool)


def only(conversation: Conversation, limit_ms: float = 20.0) -> TurnResult:
    [result] = measure_conversation(conversation, limit_lateness_ms=limit_ms)
    return result


def judged(
    *replies: Reply,
    ends: tuple[End, ...] = (),
    faults: tuple[PeerFault, ...] = (),
    user: UserTurn | None = None,
    protocol_class: str = "A",
    vad: tuple[VadEvent, ...] = (),
    stalls: tuple[Stall, ...] = (),
) -> TurnResult:
    user = user or turn()
    return only(Conversation(protocol_class, RATE_HZ, 0, (user,), replies, faults, vad, ends, stalls))


def verdict(result: TurnResult) -> tuple[str, str]:
    return result.turn_class, result.outcome


class TestEndingsWithoutSound:
    def test_empty(self) -> None:
        assert verdict(judged(reply())) == ("completed", "empty")

    def test_tool_call(self) -> None:
        assert verdict(judged(reply(tool=True))) == ("completed", "tool call")

    def test_text_only(self) -> None:
        result = judged(reply(text="By letter."))
        assert verdict(result) == ("completed", "text only")
        assert result.heard_text == "By letter."
        assert isinstance(result.measures["voice_to_voice_ms"], Unavailable)

    def test_clean_close_with_nothing_sent(self) -> None:
        result = judged(ends=(End(END_NS + 5 * MS, 0, "closed", "closed by the server with code 1000"),))
        assert verdict(result) == ("failed", "closed")
        assert result.detail == "closed by the server with code 1000"

    def test_none_of_them_has_an_audio_latency(self) -> None:
        closed = judged(ends=(End(END_NS + 5 * MS, 0, "closed", ""),))
        for result in (judged(reply()), judged(reply(tool=True)), closed):
            assert all(isinstance(result.measures[name], Unavailable) for name in LATENCIES)

    def test_audio_that_nobody_can_hear_is_no_answer(self) -> None:
        silence = (Packet(END_NS + 300 * MS, np.zeros(4800, dtype=np.int16)),)
        assert verdict(judged(reply(packets=silence))) == ("completed", "empty")
        result = judged(reply(packets=silence, text="Hello"))
        assert verdict(result) == ("completed", "text only")
        assert result.detail == "its audio is below the gate" and "no audible sample" in result.flags
        assert isinstance(result.measures["first_packet_ms"], Value)


NOT_A_SUCCESS = {
    "rate limit": reply("failed", code="rate_limit_exceeded"),
    "server error": reply("failed", code="server_error"),
    "incomplete: max_output_tokens": reply("incomplete", reason="max_output_tokens"),
    "incomplete: content_filter": reply("incomplete", reason="content_filter"),
    "cancelled: turn_detected": reply("cancelled", reason="turn_detected"),
    "cancelled: client_cancelled": reply("cancelled", reason="client_cancelled"),
}


@pytest.mark.parametrize("outcome", NOT_A_SUCCESS)
@pytest.mark.parametrize("audio_ms", [0, 400])
def test_a_done_that_is_no_success(outcome: str, audio_ms: int) -> None:
    """Six outcomes, and the first packet's instant stays in the row."""
    ended = NOT_A_SUCCESS[outcome]
    result = judged(replace(ended, packets=audio(audio_ms)))
    assert verdict(result) == ("failed", outcome)
    assert kind_of(outcome) in FAILED
    assert (ended.reason or ended.error_code) in result.detail
    assert result.instants_ns.get("first_packet") == (END_NS + 300 * MS if audio_ms else None)


def test_counts_of_classes_and_outcomes_add_up() -> None:
    results = [judged(made) for made in (*NOT_A_SUCCESS.values(), reply(), reply(packets=audio(400)))]
    classes, outcomes = (
        Counter(result.turn_class for result in results),
        Counter(result.outcome for result in results),
    )
    assert classes == {"failed": 6, "completed": 2}
    assert len(outcomes) == 8 and set(outcomes.values()) == {1}


def test_unknown_reasons_do_not_make_new_names() -> None:
    result = judged(reply("incomplete", reason="moon phase"))
    assert verdict(result) == ("failed", "incomplete") and "moon phase" in result.detail
    result = judged(reply("pondering"))
    assert verdict(result) == ("failed", "server error") and "'pondering'" in result.detail
    assert verdict(judged(reply("failed", code="insufficient_quota"))) == ("failed", "rate limit")


class TestHowAReplyEnds:
    """1 s of audio, then no end, a close, a reset, or more audio after the end."""

    open_reply = reply("", packets=audio(1000), done_ns=None)

    def ends(self, outcome: str) -> TurnResult:
        return judged(self.open_reply, ends=(End(END_NS + 5000 * MS, 0, outcome, "as seen"),))

    @pytest.mark.parametrize(
        ("ended", "outcome"),
        [("time-out", "no end event"), ("no end event", "no end event"), ("closed", "closed"), ("reset", "reset")],
    )
    def test_failed_with_its_audio_and_instants(self, ended: str, outcome: str) -> None:
        result = self.ends(ended)
        assert verdict(result) == ("failed", outcome) and result.detail == "as seen"
        assert result.instants_ns["first_audible"] == END_NS + 300 * MS
        assert result.instants_ns["reply_done"] == END_NS + 300 * MS, "the last audio, not the idle limit"
        assert result.measures["reply_duration_ms"] == Value(1000.0)

    def test_audio_after_done(self) -> None:
        late = audio(200, END_NS + 1100 * MS)
        result = judged(reply(packets=audio(1000) + late))
        assert verdict(result) == ("completed", "answered") and result.flags == ["audio after done"]

    def test_a_close_after_the_end_does_not_undo_it(self) -> None:
        result = judged(reply(packets=audio(400)), ends=(End(END_NS + 900 * MS, 0, "closed", ""),))
        assert verdict(result) == ("completed", "answered")
        assert result.flags == ["closed 100 ms after the reply's end"]

    def test_an_end_after_we_gave_up_comes_too_late(self) -> None:
        result = judged(reply(packets=audio(400)), ends=(End(END_NS + 700 * MS, 0, "time-out", "idle for 0.4 s"),))
        assert verdict(result) == ("failed", "no end event")

    def test_what_comes_after_we_gave_up_was_not_there_in_time(self) -> None:
        late = reply("", packets=audio(400, END_NS + 3000 * MS), done_ns=None)
        gave_up = End(END_NS + 2000 * MS, 0, "time-out", "no sign of life for 2 s")
        assert verdict(judged(late, ends=(gave_up,))) == ("failed", "time-out")

    def test_never_ended_and_the_dialogue_went_on(self) -> None:
        assert verdict(judged(self.open_reply)) == ("failed", "no end event")
        assert verdict(judged(reply("", done_ns=None))) == ("failed", "time-out")


@pytest.mark.parametrize("outcome", ["transport", "refused", "rate limit", "time-out", "peer does not read", "flood"])
def test_what_the_client_saw_is_kept_as_it_says(outcome: str) -> None:
    result = judged(ends=(End(END_NS + MS, 0, outcome, "why"),))
    assert verdict(result) == ("failed", outcome) and result.detail == "why"
    assert outcome in FAILED


@pytest.mark.parametrize("outcome", ["peer does not read", "flood"])
def test_a_broken_session_fails_even_an_ended_reply(outcome: str) -> None:
    result = judged(reply(packets=audio(400)), ends=(End(END_NS + 900 * MS, 0, outcome, ""),))
    assert verdict(result) == ("failed", outcome)


def test_an_unknown_end_is_a_transport_failure() -> None:
    assert verdict(judged(ends=(End(END_NS, 0, "gremlins", "x"),))) == ("failed", "transport")


def test_the_first_end_counts() -> None:
    ends = (End(END_NS + 20 * MS, 0, "closed", ""), End(END_NS + 10 * MS, 0, "time-out", "nothing for 10 ms"))
    assert verdict(judged(ends=ends)) == ("failed", "time-out")


def test_no_connection_is_a_failed_attempt_of_a_turn_that_never_began() -> None:
    ends = (End(5, 0, "transport", "connection refused"), End(6, 0, "closed", ""))
    result = only(Conversation("A", RATE_HZ, None, (), (), ends=ends))
    assert verdict(result) == ("failed", "transport") and result.detail == "connection refused"
    assert result.instants_ns == {} and result.measures["voice_to_voice_ms"] == Unavailable("the turn never began")


def test_a_turn_that_the_user_stopped_is_no_attempt() -> None:
    second = turn(1, START_NS + 3000 * MS)
    stopped = End(START_NS + 3300 * MS, 1, "", "stopped by the user")
    conversation = Conversation("A", RATE_HZ, 0, (turn(), second), (reply(packets=audio(400)),), ends=(stopped,))
    assert [result.turn for result in measure_conversation(conversation)] == [0]
    assert measure_conversation(Conversation("A", RATE_HZ, 0, (), (), ends=(End(1, 0, "", ""),))) == []


class TestProtocolFaults:
    def test_a_flag_where_the_reply_is_fine(self) -> None:
        fault = PeerFault(END_NS + 350 * MS, "half a sample", "1 byte left over")
        result = judged(reply(packets=audio(400)), faults=(fault,))
        assert verdict(result) == ("completed", "answered")
        assert result.flags == ["protocol fault: half a sample: 1 byte left over"]

    def test_nothing_could_be_decoded(self) -> None:
        fault = PeerFault(END_NS + 350 * MS, "bad base64", "delta 1")
        result = judged(reply(), faults=(fault,))
        assert verdict(result) == ("failed", "server error") and "bad base64: delta 1" in result.detail
        garbage = judged(ends=(End(END_NS + 9000 * MS, 0, "time-out", "9 s"),), faults=(fault,))
        assert verdict(garbage) == ("failed", "server error") and "9 s" in garbage.detail
        assert verdict(judged(reply(text="Hi"), faults=(fault,))) == ("completed", "text only")
        assert verdict(judged(reply(tool=True), faults=(fault,))) == ("completed", "tool call")

    @pytest.mark.parametrize(
        ("code", "outcome"), [("input_audio_buffer_commit_empty", "refused"), ("rate_limit_exceeded", "rate limit")]
    )
    def test_a_refused_request(self, code: str, outcome: str) -> None:
        fault = PeerFault(END_NS + 3 * MS, "error", "no", code, fatal=True)
        result = judged(faults=(fault,), ends=(End(END_NS + 4 * MS, 0, "closed", ""),))
        assert verdict(result) == ("failed", outcome) and result.detail == f"{code}: no"


class TestInterruptions:
    def test_by_the_clients_own_cancel(self) -> None:
        user = replace(turn(), cancelled_ns=END_NS + 700 * MS)
        cut = reply("cancelled", reason="client_cancelled", packets=audio(400))
        assert verdict(judged(cut, user=user)) == ("completed", "interrupted")
        assert verdict(judged(replace(cut, done_ns=None, status=""), user=user)) == ("completed", "interrupted")

    def test_by_the_scripts_next_turn(self) -> None:
        second = turn(1, END_NS + 600 * MS)
        cut = reply("cancelled", reason="turn_detected", packets=audio(400))
        conversation = Conversation("B", RATE_HZ, 0, (turn(), second), (cut,))
        assert verdict(measure_conversation(conversation)[0]) == ("completed", "interrupted")
        later = replace(conversation, turns=(turn(), turn(1, END_NS + 900 * MS)))
        assert verdict(measure_conversation(later)[0]) == ("failed", "cancelled: turn_detected")

    def test_a_cancel_that_the_server_did_on_its_own_before_ours(self) -> None:
        user = replace(turn(), cancelled_ns=END_NS + 801 * MS)
        assert verdict(judged(reply("cancelled"), user=user)) == ("failed", "cancelled")


def test_quiet_as_scripted() -> None:
    cough = replace(turn(), expects_reply=False)
    assert verdict(judged(user=cough)) == ("completed", "quiet as scripted")
    waited = (End(END_NS + 2000 * MS, 0, "time-out", "waited 2 s"),)
    assert verdict(judged(user=cough, ends=waited)) == ("completed", "quiet as scripted")
    assert verdict(judged(user=cough, ends=(End(END_NS, 0, "reset", ""),))) == ("failed", "reset")
    assert verdict(judged(reply(packets=audio(400)), user=cough)) == ("completed", "answered")


def test_a_server_that_never_hears_the_end_of_speech_is_said_so() -> None:
    ends = (End(END_NS + 9000 * MS, 0, "time-out", "9 s"),)
    result = judged(ends=ends, protocol_class="B", vad=(VadEvent(START_NS + 100 * MS, "started"),))
    assert verdict(result) == ("failed", "time-out") and "no end of turn signalled" in result.detail
    heard = judged(ends=ends, protocol_class="B", vad=(VadEvent(END_NS + 500 * MS, "stopped"),))
    assert heard.detail == "9 s"


class TestInvalid:
    def test_a_late_frame(self) -> None:
        answer = reply(packets=audio(400))
        at_limit = judged(answer, user=turn(late_ns=20 * MS))
        assert verdict(at_limit) == ("completed", "answered")
        over = judged(answer, user=turn(late_ns=20 * MS + 1))
        assert verdict(over) == ("invalid", "answered")
        assert over.detail == "a frame left 20.0 ms late (limit 20 ms)"
        conversation = Conversation("A", RATE_HZ, 0, (turn(late_ns=21 * MS),), (answer,))
        assert only(conversation, limit_ms=25).turn_class == "completed"

    def test_a_late_heartbeat(self) -> None:
        result = judged(reply(packets=audio(400)), stalls=(Stall(END_NS, 35 * MS),))
        assert verdict(result) == ("invalid", "answered")
        assert result.detail == "the heartbeat was 35.0 ms late (limit 20 ms)"

    def test_a_late_request_of_class_c(self) -> None:
        user = replace(turn(), frames=(), requested_ns=END_NS + 21 * MS)
        assert judged(reply(packets=audio(400)), user=user, protocol_class="C").turn_class == "invalid"

    def test_failed_beats_invalid(self) -> None:
        result = judged(reply("failed"), user=turn(late_ns=50 * MS), stalls=(Stall(END_NS, 35 * MS),))
        assert verdict(result) == ("failed", "server error")

    def test_its_figures_stay_in_its_row(self) -> None:
        result = judged(reply(packets=audio(400)), user=turn(late_ns=50 * MS))
        assert result.measures["voice_to_voice_ms"] == Value(300.0)


def test_names_are_the_designs() -> None:
    assert len(set(COMPLETED + FAILED)) == len(COMPLETED) + len(FAILED) == 18
