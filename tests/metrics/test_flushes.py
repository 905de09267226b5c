"""From a log to what was heard of each reply, and to what each turn was."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from harness.results.derive import derive
from harness.results.flushes import with_cuts
from metrics.conversation import Reply, VadEvent
from metrics.turns import measure_conversation
from sessions.events import AnyEvent, Flushed, Sent, TurnStarted
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.peers import Wire, audio, created, done, greet, request, sleep_ms, tone
from tests.support.spoken_dialogues import MS, RATE_HZ, number, reply, sound, vad


def cuts(
    replies: tuple[Reply, ...],
    events: tuple[AnyEvent, ...] = (),
    voices: tuple[VadEvent, ...] = (),
    protocol_class: str = "B",
) -> list[tuple[int | None, int | None]]:
    """(flushed, cancelled) of each reply, in ms."""
    made = with_cuts(replies, events, voices, protocol_class, RATE_HZ)
    return [tuple(None if t is None else t // MS for t in (one.flushed_ns, one.cancelled_ns)) for one in made]  # type: ignore[misc]


def cancel(t_ms: int) -> Sent:
    return Sent(t_ns=t_ms * MS, what="cancel", bytes=40, turn=0)


def flushed(t_ms: int, reply_id: str, why: str = "cancel") -> Flushed:
    return Flushed(t_ns=t_ms * MS, reply=reply_id, turn=1, why=why)


SPEAKS = reply("a", 1000, (1100, sound(2000)), done_ms=1200)


class TestWithoutTheEvent:
    """Logs of before, and of clients that say nothing of it."""

    def test_the_servers_word_drops_what_was_not_heard_yet(self) -> None:
        assert cuts((SPEAKS,), voices=tuple(vad("started", 900, 1500, 1600))) == [(1500, None)]

    @pytest.mark.parametrize(("at_ms", "is_dropped"), [(3099, True), (3100, False)])
    def test_only_while_audio_was_still_to_be_heard(self, at_ms: int, is_dropped: bool) -> None:
        assert cuts((SPEAKS,), voices=tuple(vad("started", at_ms))) == [(at_ms if is_dropped else None, None)]

    def test_not_by_other_words_of_the_server(self) -> None:
        assert cuts((SPEAKS,), voices=(*vad("stopped", 1500), *vad("committed", 1500))) == [(None, None)]

    def test_in_class_a_our_own_cancel_does_and_the_servers_word_does_not(self) -> None:
        assert cuts((SPEAKS,), (cancel(2000),), tuple(vad("started", 1500)), "A") == [(2000, 2000)]

    def test_the_cancel_is_that_of_the_reply_that_was_running(self) -> None:
        older = reply("older", 500, (600, sound(100)), done_ms=700)
        running = reply("running", 1000, (1100, sound(2000)), done_ms=2100, status="cancelled")
        assert cuts((running, older), (cancel(2000),), protocol_class="A") == [(None, None), (2000, 2000)]


class TestWithTheEvent:
    def test_it_says_all_of_it(self) -> None:
        other = reply("b", 1000, (1100, sound(2000)), done_ms=1200)
        events = (flushed(1700, "a", "server"),)
        assert cuts((SPEAKS, other), events, tuple(vad("started", 1500))) == [(1700, None), (None, None)]

    def test_a_complete_reply_is_dropped_without_a_cancel(self) -> None:
        assert cuts((SPEAKS,), (flushed(2000, "a"),), protocol_class="A") == [(2000, None)]

    def test_two_that_run_have_a_cancel_each(self) -> None:
        one = reply("one", 1000, (1100, sound(2000)), done_ms=2500, status="cancelled")
        two = replace(one, id="two", created_ns=one.created_ns + MS)
        events = (flushed(2000, "one"), cancel(2001), flushed(2002, "two"), cancel(2003))
        assert cuts((one, two), events, protocol_class="A") == [(2000, 2001), (2002, 2003)]


async def answers_twice(wire: Wire) -> None:
    """Two turns, each with a reply of 2 s that is sent at once."""
    await greet(wire)
    for name in ("a", "b"):
        await request(wire)
        await sleep_ms(wire, 300)
        await wire.send(created(name))
        await wire.send(audio(name, tone(2000)))
        await wire.send(done(name))
    await wire.receive()


def retold(played: Played, **fields: object) -> list[AnyEvent]:
    """The log, its second turn told otherwise."""
    return [
        msgspec.structs.replace(event, **fields) if isinstance(event, TurnStarted) and event.turn == 1 else event
        for event in played.record.log()
    ]


def test_turns_are_what_the_log_says_of_them() -> None:
    played = play_virtual(answers_twice, [utterance(1000), utterance(1000)])
    plain = played.derived.conversation.turns[1]
    assert (plain.kind, plain.expects_reply, plain.onset_ns, plain.pauses_ns) == ("speech", True, plain.start_ns, ())
    told = retold(played, turn_kind="noise", onset_sample=480, pauses=[(2400, 4800), (9600, 2401)], watch_ms=1500)
    turn = derive(told, bytes(played.record.received)).conversation.turns[1]
    assert (turn.kind, turn.expects_reply, turn.watch_ns) == ("noise", False, 1500 * MS)
    assert turn.onset_ns == turn.start_ns + 20 * MS
    assert turn.pauses_ns == ((turn.start_ns + 100 * MS, 200 * MS), (turn.start_ns + 400 * MS, 100_041_667))


def test_o09_from_the_log_to_the_outcome() -> None:
    """A complete reply of 2 s, of which the client drops all but the first 500 ms."""
    played = play_virtual(answers_twice, [utterance(1000), utterance(1000)])
    events = retold(played, turn_kind="interruption")
    first = played.derived.conversation.replies[0]
    heard_from_ns = first.packets[0].t_ns
    barged = msgspec.structs.replace(
        next(event for event in events if isinstance(event, TurnStarted) and event.turn == 1),
        start_ns=heard_from_ns + 500 * MS,
    )
    events = [barged if isinstance(event, TurnStarted) and event.turn == 1 else event for event in events]
    events.append(Flushed(t_ns=heard_from_ns + 500 * MS, reply=first.id, turn=1, why="cancel"))
    conversation = derive(events, bytes(played.record.received)).conversation
    interrupted, interruption = measure_conversation(conversation)
    assert (interrupted.turn_class, interrupted.outcome) == ("completed", "interrupted")
    taken = interruption.turn_taking
    assert number(taken["barge_in_stop_ms"]) == 0.0
    assert (number(taken["interrupted_heard_ms"]), number(taken["interrupted_generated_ms"])) == (500.0, 2000.0)
