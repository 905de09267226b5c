"""What a timeline shows is what the log says: cuts, underruns and overlaps to the nanosecond, latencies in parts."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from harness.results.timeline import PARTS, Mark, Stretch, timeline_of, waterfall
from metrics.conversation import Conversation, End, VadEvent
from metrics.result import TurnResult
from tests.support.run_samples import turn
from tests.support.spoken_dialogues import MS, RATE_HZ, quiet, reply, sound, user


def shown(conversation: Conversation, kind: str) -> list[Stretch]:
    return [part for part in timeline_of(conversation).stretches if part.kind == kind]


def barge_in() -> Conversation:
    """The agent speaks from 1.5 s with a hole of 300 ms; the user interrupts at 3 s, the client cuts at 3.2 s."""
    packets = ((1_500, sound(500)), (2_300, sound(3_000)))
    return Conversation(
        protocol_class="B",
        rate_hz=RATE_HZ,
        ready_ns=0,
        turns=(user(0, 0, 1_000, pauses_ms=[(400, 200)]), user(1, 3_000, 600, "interruption")),
        replies=(reply("a", 1_400, *packets, done_ms=2_400, flushed_ms=3_200), reply("b", 4_000, (4_100, sound(100)))),
        vad=(VadEvent(3_150 * MS, "started"), VadEvent(3_700 * MS, "stopped"), VadEvent(3_701 * MS, "committed")),
        ends=(End(9_000 * MS, 1, "time-out", "nothing more came"),),
        ended_ns=9_000 * MS,
    )


def test_marks_are_in_order_and_know_their_turn() -> None:
    assert timeline_of(barge_in()).marks == [
        Mark("vad_started", 3_150 * MS),
        Mark("flush", 3_200 * MS, 0),
        Mark("vad_stopped", 3_700 * MS),
        Mark("vad_committed", 3_701 * MS),
        Mark("gave_up", 9_000 * MS, 1, "time-out: nothing more came"),
    ]


def test_the_user_is_shown_without_the_pauses() -> None:
    user_parts = [(part.start_ns // MS, part.end_ns // MS, part.turn, part.text) for part in shown(barge_in(), "user")]
    assert user_parts == [(0, 400, 0, "speech"), (600, 1_000, 0, "speech"), (3_000, 3_600, 1, "interruption")]
    assert [(part.start_ns, part.end_ns) for part in shown(barge_in(), "pause")] == [(400 * MS, 600 * MS)]


def test_underruns_cuts_and_overlap_are_where_they_were_heard() -> None:
    (underrun,) = shown(barge_in(), "underrun")
    assert (underrun.start_ns, underrun.end_ns, underrun.turn) == (2_000 * MS, 2_300 * MS, 0)
    (dropped,) = shown(barge_in(), "dropped")
    assert (dropped.start_ns, dropped.end_ns) == (3_200 * MS, 5_300 * MS)
    (overlap,) = shown(barge_in(), "overlap")
    assert (overlap.start_ns, overlap.end_ns, overlap.turn) == (3_000 * MS, 3_200 * MS, 1)


def test_the_agent_is_heard_in_stretches_that_end_at_the_cut() -> None:
    spans = [(part.start_ns, part.end_ns, part.turn) for part in shown(barge_in(), "agent")]
    assert spans == [
        (1_500 * MS, 2_000 * MS, 0),
        (2_300 * MS, 3_200 * MS, 0),
        (4_100 * MS, 4_200 * MS, 1),
    ]


def test_silence_of_a_reply_is_not_the_agent() -> None:
    one = reply("a", 1_100, (1_200, quiet(300)), (1_500, sound(400)))
    heard = Conversation("A", RATE_HZ, 0, (user(0, 0, 1_000),), (one,), ended_ns=3_000 * MS)
    assert [(part.start_ns, part.end_ns) for part in shown(heard, "agent")] == [(1_500 * MS, 1_900 * MS)]
    assert shown(heard, "underrun") == shown(heard, "dropped") == shown(heard, "overlap") == []


def test_a_session_that_never_began_has_an_empty_timeline() -> None:
    timeline = timeline_of(Conversation("A", RATE_HZ, None, (), ()))
    assert timeline.marks == [] and timeline.stretches == []


def with_instants(**at_ns: int) -> TurnResult:
    return msgspec.structs.replace(turn(0), instants_ns=at_ns)


def test_a_waterfall_passes_over_what_is_missing_or_out_of_order() -> None:
    full = waterfall(
        with_instants(speech_end=0, turn_committed=5, reply_created=100, first_packet=150, first_audible=400)
    )
    assert [(part.name, part.end_ns - part.start_ns) for part in full] == list(
        zip(PARTS, (5, 95, 50, 250), strict=True)
    )
    server_vad = waterfall(with_instants(speech_end=0, server_vad_stopped=200, first_packet=300, first_audible=300))
    assert [part.name for part in server_vad] == ["end_of_turn", "first_packet", "silence_padding"]
    early = waterfall(with_instants(speech_end=100, turn_committed=50, reply_created=40, first_audible=400))
    assert [(part.name, part.start_ns, part.end_ns) for part in early] == [("silence_padding", 100, 400)]
    assert waterfall(with_instants(speech_end=100, first_audible=90)) == []
    assert waterfall(with_instants(speech_end=100)) == []
    cough = msgspec.structs.replace(with_instants(speech_end=0, first_audible=400), expects_reply=False)
    assert waterfall(cough) == [], "what is not to be answered has no latency"


@given(
    st.fixed_dictionaries(
        {"speech_end": st.integers(0, 10**10), "first_audible": st.integers(0, 10**10)},
        optional={
            name: st.integers(0, 10**10)
            for name in ("turn_committed", "server_vad_stopped", "reply_created", "first_packet")
        },
    )
)
def test_the_parts_of_a_waterfall_add_up_exactly(at_ns: dict[str, int]) -> None:
    parts = waterfall(with_instants(**at_ns))
    wait_ns = at_ns["first_audible"] - at_ns["speech_end"]
    assert sum(part.end_ns - part.start_ns for part in parts) == max(0, wait_ns)
    assert all(a.end_ns == b.start_ns and a.start_ns <= a.end_ns for a, b in pairwise(parts))
