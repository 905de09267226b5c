"""Servers that answer otherwise than a server should, in both classes: each has its named outcome, and the dialogue its
next turn. On the virtual clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from harness.dialogue.record import TurnToSpeak
from sessions.clock import NS_PER_S
from sessions.events import GaveUp
from sessions.runs import Limits
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.peers import Wire, audio, created, done, greet, sleep_ms, tone

LIMITS = Limits(connect_s=2, reply_s=30, idle_s=5)
CLASSES = {"A": "manual", "B": "server_vad"}
Answer = Callable[[Wire, str], Awaitable[None]]


class Server:
    """Answers each of the user's turns as `answer` says: after the request, or after a loud stretch of the lane.

    early: begins its answer with the first sound of a turn, not with its end.
    """

    def __init__(self, answer: Answer, *, early: bool = False) -> None:
        self._answer, self._early = answer, early

    async def __call__(self, wire: Wire) -> None:
        await greet(wire)
        loud, turns = False, 0
        while True:
            message = await wire.receive()
            was_loud = loud
            if message["type"] == "input_audio_buffer.append":
                loud = set(message["audio"]) != {"A"}
                is_due = loud and not was_loud if self._early else was_loud and not loud
            else:
                is_due, loud = message["type"] == "response.create" and not self._early, False
            if is_due:
                await self._answer(wire, f"r{turns}")
                turns += 1


def play(answer: Answer, protocol_class: str, *, early: bool = False, turns: Sequence[TurnToSpeak] = ()) -> Played:
    turns = turns or [utterance(500, tail_ms=100), utterance(500, tail_ms=100)]
    server = Server(answer, early=early)
    return play_virtual(server, turns, turn_detection=CLASSES[protocol_class], limits=LIMITS)


def verdicts(played: Played) -> list[tuple[str, str]]:
    return [(turn.turn_class, turn.outcome) for turn in played.turns]


async def says(wire: Wire, reply: str, duration_ms: int = 400) -> None:
    await wire.send(created(reply))
    await wire.send(audio(reply, tone(duration_ms)))
    await wire.send(done(reply))


both = pytest.mark.parametrize("protocol_class", CLASSES)


@both
def test_a_server_that_never_answers(protocol_class: str) -> None:
    async def never(wire: Wire, reply: str) -> None:
        del wire, reply

    played = play(never, protocol_class)
    assert verdicts(played) == [("failed", "time-out")] * 2
    given_up = next(event for event in played.record.events if isinstance(event, GaveUp))
    assert given_up.t_ns - played.turns[0].instants_ns["speech_end"] == 5 * NS_PER_S
    said = "no sign of life for 5 s"
    assert said in played.turns[0].detail
    if protocol_class == "B":
        assert "no end of turn signalled: the server did not hear the speech end" in played.turns[0].detail
    assert "turn 1 ended with time-out" in played.turns[1].detail or said in played.turns[1].detail


@both
def test_a_server_that_answers_twice(protocol_class: str) -> None:
    async def twice(wire: Wire, reply: str) -> None:
        await says(wire, f"{reply}-a")
        await says(wire, f"{reply}-b")

    played = play(twice, protocol_class)
    assert verdicts(played) == [("completed", "answered")] * 2
    for number, turn in enumerate(played.turns):
        assert turn.reply_ids == [f"r{number}-a", f"r{number}-b"]
        assert "more replies after the one that was measured: 1" in turn.flags
        assert played.ms(number, "reply_duration_ms") == 400, "figures are of the first"


@both
def test_a_server_that_answers_twice_under_one_name(protocol_class: str) -> None:
    """The second is no second reply, so its audio is the first's, after its end."""

    async def twice(wire: Wire, reply: str) -> None:
        await says(wire, reply)
        await sleep_ms(wire, 100)
        await says(wire, reply)

    played = play(twice, protocol_class)
    assert verdicts(played) == [("completed", "answered")] * 2
    assert [turn.reply_ids for turn in played.turns] == [["r0"], ["r1"]]
    assert all("audio after done" in turn.flags for turn in played.turns)


@both
def test_a_server_that_answers_before_the_user_is_done(protocol_class: str) -> None:
    async def interrupts(wire: Wire, reply: str) -> None:
        await says(wire, reply, 800)

    played = play(interrupts, protocol_class, early=True)
    assert verdicts(played) == [("completed", "answered")] * 2
    for number in range(2):
        assert played.ms(number, "first_packet_ms") < 0 and played.ms(number, "voice_to_voice_ms") < 0
    taking = [turn.turn_taking for turn in played.turns]
    if protocol_class == "B":
        assert all(taken["premature_endpoint"].value == 1 for taken in taking)  # type: ignore[union-attr]
        assert all(taken["talk_over"].value == 1 for taken in taking)  # type: ignore[union-attr]


def test_a_word_while_the_user_speaks_is_a_backchannel_and_the_answer_is_missed() -> None:
    played = play(says, "B", early=True)
    assert verdicts(played) == [("failed", "time-out")] * 2
    assert "the agent's backchannels: 1" in played.turns[0].flags


@both
@pytest.mark.parametrize("in_real_time", [True, False])
def test_a_server_that_talks_for_ten_minutes(protocol_class: str, in_real_time: bool) -> None:
    """In real time the limit of a reply ends it. All at once, it is an answer that nobody can wait for."""

    async def talks(wire: Wire, reply: str) -> None:
        await wire.send(created(reply))
        for _ in range(600):
            await wire.send(audio(reply, tone(1000)))
            if in_real_time:
                await sleep_ms(wire, 1000)
        await wire.send(done(reply))

    played = play(talks, protocol_class)
    first, second = played.turns
    if in_real_time:
        assert (first.turn_class, first.outcome) == ("failed", "no end event")
        assert "30 s in all" in first.detail
    else:
        assert (first.turn_class, first.outcome) == ("completed", "answered")
        assert played.ms(0, "reply_duration_ms") == 600_000
        assert (second.turn_class, second.outcome) == ("failed", "time-out")
        assert "the reply would be heard for 600 s" in second.detail


@both
def test_a_server_that_goes_on_after_its_done(protocol_class: str) -> None:
    async def goes_on(wire: Wire, reply: str) -> None:
        await says(wire, reply)
        await sleep_ms(wire, 200)
        await wire.send(audio(reply, tone(300)))

    played = play(goes_on, protocol_class)
    assert verdicts(played) == [("completed", "answered")] * 2
    assert [turn.flags for turn in played.turns] == [["audio after done"]] * 2
    assert played.ms(0, "reply_duration_ms") == 700, "it is kept, and belongs to the turn"
