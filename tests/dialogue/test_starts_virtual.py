"""When turns start, and what an interruption does, on the virtual clock: equal to the nanosecond."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.dialogue.onset import OnsetFinder
from harness.dialogue.record import TurnToSpeak
from sessions.clock import NS_PER_MS, NS_PER_S
from sessions.events import Flushed, GaveUp, Sent, TurnStarted
from sessions.gate import find_onset
from sessions.runs import Limits
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.peers import Gone, Wire, audio, created, done, greet, sleep_ms, tone

QUICK = Limits(connect_s=2, reply_s=60, idle_s=20)


def after(event: str, gap_ms: float = 0, *, timeout_s: float = 30, **fields: Any) -> TurnToSpeak:
    """500 ms of speech that starts so long after the event."""
    turn = utterance(gap_ms=gap_ms)
    return replace(turn, after=event, timeout_ns=round(timeout_s * NS_PER_S), **fields)


def silence(duration_ms: int, gap_ms: float = 0, watch_ms: int = 0) -> TurnToSpeak:
    pcm = np.zeros(duration_ms * 24, dtype=np.int16)
    return TurnToSpeak(pcm, -1, "annotation", round(gap_ms * NS_PER_MS), kind="silence", watch_ms=watch_ms)


Answer = Callable[[Wire, int], Coroutine[Any, Any, None]]


class Manual:
    """A class-A server that answers each request as `answer` says and obeys a cancel. told: what it was sent."""

    def __init__(self, answer: Answer, *, obeys: bool = True) -> None:
        self._answer, self._obeys = answer, obeys
        self.told: list[tuple[int, dict[str, Any]]] = []

    async def __call__(self, wire: Wire) -> None:
        await greet(wire)
        running: asyncio.Task[None] | None = None
        count = 0
        try:
            while True:
                message = await wire.receive()
                self.told.append((wire.clock.now_ns(), message))
                if message["type"] == "response.create":
                    running = asyncio.create_task(self._answer(wire, count))
                    count += 1
                elif message["type"] == "response.cancel" and self._obeys and running is not None:
                    running.cancel()
                    await wire.send(done(f"r{count - 1}", "cancelled"))
        finally:
            if running is not None:
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError, Gone):
                    await running

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for _, message in self.told if message["type"] == kind]


def says(duration_ms: int, *, lead_ms: int = 0, packet_ms: int = 20, real_time: bool = True) -> Answer:
    """300 ms after the request: a lead of silence and a tone, in packets."""

    async def answer(wire: Wire, index: int) -> None:
        reply = f"r{index}"
        await sleep_ms(wire, 300)
        await wire.send(created(reply))
        pcm = np.concatenate([tone(lead_ms) * 0, tone(duration_ms)])
        for first in range(0, len(pcm), packet_ms * 24):
            await wire.send(audio(reply, pcm[first : first + packet_ms * 24]))
            if real_time:
                await sleep_ms(wire, packet_ms)
        await wire.send(done(reply))

    return answer


def started(played: Played) -> list[TurnStarted]:
    return [event for event in played.record.log() if isinstance(event, TurnStarted)]


def flushed(played: Played) -> list[Flushed]:
    return [event for event in played.record.log() if isinstance(event, Flushed)]


def sent(played: Played, what: str) -> list[Sent]:
    return [event for event in played.record.log() if isinstance(event, Sent) and event.what == what]


def outcomes(played: Played) -> list[str]:
    return [turn.outcome for turn in played.turns]


# ---- starts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packet_ms", [5, 20, 80, 400])
@pytest.mark.parametrize("real_time", [True, False])
@pytest.mark.parametrize("gap_ms", [0, 137, 900, 1999.5])
def test_a_turn_starts_after_the_first_audible_sample_is_heard(packet_ms: int, real_time: bool, gap_ms: float) -> None:
    peer = Manual(says(3000, lead_ms=85, packet_ms=packet_ms, real_time=real_time))
    played = play_virtual(peer, [utterance(), after("onset", gap_ms, kind="interruption")], limits=QUICK)
    first, second = started(played)
    heard_ns = first.speech_end_ns + (300 + 85) * NS_PER_MS
    # What is heard is known when the gate has seen four blocks (20 ms) of it.
    known_ms = 0 if not real_time or packet_ms >= 80 else 20
    assert 0 <= second.start_ns - max(heard_ns + round(gap_ms * NS_PER_MS), heard_ns) <= known_ms * NS_PER_MS
    if gap_ms > known_ms:
        assert second.start_ns == heard_ns + round(gap_ms * NS_PER_MS)
    assert outcomes(played) == ["interrupted", "answered"]


def test_a_turn_starts_after_the_users_own_speech() -> None:
    peer = Manual(says(200))
    played = play_virtual(peer, [utterance(), after("speech", 150), after("speech", 50)], limits=QUICK)
    first, second, third = started(played)
    assert second.start_ns == first.speech_end_ns + 150 * NS_PER_MS
    assert third.start_ns == second.speech_end_ns + 50 * NS_PER_MS


def test_one_request_at_a_time_where_the_client_ends_turns() -> None:
    """The second end of turn waits until the first reply was heard to its end."""
    played = play_virtual(Manual(says(2000)), [utterance(), after("speech", 100)], limits=QUICK)
    first, second = started(played)
    requests = sent(played, "request")
    assert requests[0].t_ns == first.speech_end_ns
    assert requests[1].t_ns == first.speech_end_ns + 2300 * NS_PER_MS > second.speech_end_ns
    assert outcomes(played) == ["answered", "answered"]


def test_a_turn_starts_at_an_instant() -> None:
    turns = [after("at", at_ns=250 * NS_PER_MS), after("at", at_ns=700 * NS_PER_MS), after("at", at_ns=9 * NS_PER_S)]
    played = play_virtual(Manual(says(200)), turns, limits=QUICK)
    ready_ns = played.derived.conversation.ready_ns
    assert ready_ns is not None
    # The second one's instant lies in the first utterance: one mouth.
    assert [turn.start_ns - ready_ns for turn in started(played)] == [250 * NS_PER_MS, 750 * NS_PER_MS, 9 * NS_PER_S]


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_a_silence_says_nothing_and_the_next_turn_waits_for_its_end(turn_detection: str) -> None:
    async def listens(wire: Wire) -> None:
        await greet(wire)
        while True:
            await wire.receive()

    turns = [silence(1500, gap_ms=100), after("speech", 40)]
    played = play_virtual(listens, turns, turn_detection=turn_detection, limits=Limits(idle_s=3))
    quiet, spoken = started(played)
    assert (quiet.last_sample, quiet.samples, quiet.turn_kind) == (-1, 36_000, "silence")
    assert quiet.speech_end_ns == quiet.start_ns
    assert spoken.start_ns == quiet.start_ns + (1500 + 40) * NS_PER_MS
    assert outcomes(played) == ["quiet as scripted", "time-out"]
    if turn_detection == "manual":
        assert not [event for event in sent(played, "audio") if event.turn == 0]


def test_a_cough_is_sent_and_taken_back_and_the_peer_is_watched() -> None:
    peer = Manual(says(200))
    cough = after("reply", 100, kind="noise", watch_ms=700)
    played = play_virtual(peer, [utterance(), cough, utterance(gap_ms=50)], limits=QUICK)
    _, noise, last = started(played)
    (clear,) = sent(played, "clear")
    assert clear.t_ns == noise.speech_end_ns
    assert [event.turn for event in sent(played, "commit")] == [0, 2]
    assert last.start_ns == noise.speech_end_ns + (700 + 50) * NS_PER_MS
    assert outcomes(played) == ["answered", "quiet as scripted", "answered"]
    assert len(peer.of("input_audio_buffer.clear")) == 1


def test_what_is_said_while_the_agent_speaks_without_meaning_to_stop_it() -> None:
    peer = Manual(says(3000))
    turns = [utterance(), after("onset", 500, kind="backchannel"), after("onset", 1500, kind="overlap")]
    played = play_virtual(peer, turns, limits=QUICK)
    first, _, overlap = started(played)
    assert overlap.start_ns == first.speech_end_ns + (300 + 1500) * NS_PER_MS
    assert outcomes(played) == ["answered", "quiet as scripted", "answered"]
    assert not flushed(played)
    assert not peer.of("response.cancel")


# ---- waits that never fire -------------------------------------------------------------------------------------------


async def says_nothing(wire: Wire, index: int) -> None:
    await sleep_ms(wire, 100)
    await wire.send(created(f"r{index}"))
    await wire.send(audio(f"r{index}", tone(500) * 0))
    await wire.send(done(f"r{index}"))


async def never(wire: Wire, index: int) -> None:
    del wire, index


def test_a_wait_for_a_sound_that_cannot_come_ends_with_the_reply() -> None:
    barge_in = after("onset", 500, kind="interruption")
    played = play_virtual(Manual(says_nothing), [utterance(), barge_in, utterance()], limits=QUICK)
    (given_up,) = (event for event in played.record.events if isinstance(event, GaveUp))
    assert (given_up.turn, given_up.outcome) == (1, "time-out")
    assert given_up.detail == "the wait never fired: nothing audible of a reply to turn 1 was heard"
    assert [turn.turn for turn in started(played)] == [0, 2]
    assert outcomes(played) == ["empty", "time-out", "empty"]


def test_a_wait_ends_by_its_own_time_out() -> None:
    barge_in = after("onset", 500, kind="interruption", timeout_s=7)
    late = after("speech", 100)
    played = play_virtual(Manual(never), [utterance(), barge_in, late], limits=QUICK)
    first, second = started(played)
    given_up = next(event for event in played.record.events if isinstance(event, GaveUp))
    assert given_up.t_ns == first.speech_end_ns + 7 * NS_PER_S
    assert given_up.detail == "the wait never fired: nothing audible of a reply to turn 1 was heard within 7 s"
    assert second.start_ns == given_up.t_ns


def test_a_wait_for_a_reply_ends_by_the_scripts_time_out() -> None:
    played = play_virtual(Manual(never), [utterance(), after("reply", 0, timeout_s=4), after("speech")], limits=QUICK)
    given_up = next(event for event in played.record.events if isinstance(event, GaveUp))
    assert given_up.detail == "the wait never fired: no reply to turn 1 began within 4 s"
    assert given_up.t_ns == started(played)[0].speech_end_ns + 4 * NS_PER_S


def test_an_agent_that_never_ends_is_left_by_the_limit_of_a_reply() -> None:
    """Ten minutes in real time: the limit ends the dialogue. In one burst: the next turn would have to wait for it."""
    talks = Manual(says(600_000, packet_ms=100))
    played = play_virtual(talks, [utterance(), utterance()], limits=Limits(reply_s=30))
    assert outcomes(played) == ["no end event", "no end event"]
    assert "30 s in all" in played.turns[0].detail
    burst = Manual(says(600_000, packet_ms=1000, real_time=False))
    played = play_virtual(burst, [utterance(), utterance()], limits=Limits(reply_s=30))
    assert outcomes(played) == ["answered", "time-out"]
    assert played.turns[1].detail.startswith("the wait never fired: the reply would be heard for 600 s")


def test_a_user_may_break_into_ten_minutes() -> None:
    peer = Manual(says(600_000, packet_ms=1000, real_time=False))
    turns = [utterance(), after("onset", 2000, kind="interruption"), after("onset", 100, kind="interruption")]
    played = play_virtual(peer, turns, limits=Limits(reply_s=30))
    assert outcomes(played)[:2] == ["interrupted", "interrupted"]


# ---- interruptions, class A ------------------------------------------------------------------------------------------


def test_a_cancel_where_the_server_was_done_is_not_sent() -> None:
    """6 s of audio and the end within 300 ms, barge-in at 2 s."""

    async def burst(wire: Wire, index: int) -> None:
        await sleep_ms(wire, 100)
        await wire.send(created(f"r{index}"))
        for _ in range(6):
            await wire.send(audio(f"r{index}", tone(1000)))
        await sleep_ms(wire, 200)
        await wire.send(done(f"r{index}"))

    peer = Manual(burst)
    played = play_virtual(peer, [utterance(), after("onset", 2000, kind="interruption")], limits=QUICK)
    _, second = started(played)
    assert not peer.of("response.cancel")
    (truncate,) = peer.of("conversation.item.truncate")
    assert (truncate["item_id"], truncate["audio_end_ms"], truncate["content_index"]) == ("item-r0", 2000, 0)
    (flush,) = flushed(played)
    assert (flush.t_ns, flush.reply, flush.turn, flush.why) == (second.start_ns, "r0", 1, "cancel")
    assert outcomes(played) == ["interrupted", "answered"]


def test_never_truncated_beyond_what_was_received() -> None:
    """2.000 s in a burst, then the server stalls with the reply open; barge-in at 3.5 s."""

    async def stalls(wire: Wire, index: int) -> None:
        await wire.send(created(f"r{index}"))
        await wire.send(audio(f"r{index}", tone(2000)))
        if index:
            await wire.send(done(f"r{index}"))

    peer = Manual(stalls)
    played = play_virtual(peer, [utterance(), after("onset", 3500, kind="interruption")], limits=QUICK)
    assert peer.of("conversation.item.truncate")[0]["audio_end_ms"] == 2000
    assert len(peer.of("response.cancel")) == 1
    assert outcomes(played) == ["interrupted", "answered"]


@pytest.mark.parametrize("heard_ms", [0, 1, 20, 333, 979, 1000, 1399, 1700])
def test_barge_in_at_any_instant(heard_ms: int) -> None:
    """1 s of audio, 400 ms of nothing, 1 s more. Truncated where it was heard; the pause was not heard as speech."""

    async def answer(wire: Wire, index: int) -> None:
        await wire.send(created(f"r{index}"))
        await wire.send(audio(f"r{index}", tone(1000)))
        await sleep_ms(wire, 1400)
        await wire.send(audio(f"r{index}", tone(1000)))
        await wire.send(done(f"r{index}"))

    peer = Manual(answer)
    played = play_virtual(peer, [utterance(), after("onset", heard_ms, kind="interruption")], limits=QUICK)
    first, second = started(played)
    assert second.start_ns == first.speech_end_ns + heard_ms * NS_PER_MS
    expected_ms = min(heard_ms, 1000) if heard_ms < 1400 else heard_ms - 400
    assert peer.of("conversation.item.truncate")[0]["audio_end_ms"] == expected_ms
    assert [event.t_ns for event in flushed(played)] == [second.start_ns]


def test_a_reply_that_was_over_before_is_not_broken_off() -> None:
    peer = Manual(says(400))
    played = play_virtual(peer, [utterance(), after("onset", 1500, kind="interruption")], limits=QUICK)
    first, second = started(played)
    assert second.start_ns == first.speech_end_ns + 1800 * NS_PER_MS
    assert not flushed(played)
    assert {"response.cancel", "conversation.item.truncate"}.isdisjoint({m["type"] for _, m in peer.told})
    assert outcomes(played) == ["answered", "answered"]


def test_a_server_that_goes_on_after_the_cancel_is_not_heard() -> None:
    peer = Manual(says(2000), obeys=False)
    played = play_virtual(peer, [utterance(), after("onset", 500, kind="interruption")], limits=QUICK)
    (flush,) = flushed(played)
    first = played.derived.conversation.replies[0]
    assert first.flushed_ns == flush.t_ns
    assert first.packets[-1].t_ns > flush.t_ns
    assert outcomes(played) == ["interrupted", "answered"]


def test_what_was_asked_before_an_interruption_is_not_answered_after_it() -> None:
    """The user breaks in before the reply has begun; when it begins, while the user speaks, it is cancelled."""
    peer = Manual(says(1000))
    played = play_virtual(peer, [utterance(), after("speech", 100, kind="interruption")], limits=QUICK)
    first, second = started(played)
    (flush,) = flushed(played)
    assert flush.t_ns == first.speech_end_ns + 300 * NS_PER_MS
    assert [event.t_ns for event in sent(played, "cancel")] == [flush.t_ns]
    assert sent(played, "request")[1].t_ns == second.speech_end_ns
    assert outcomes(played) == ["interrupted", "answered"]


def test_a_refused_cancel_is_no_failure() -> None:
    class Refusing(Manual):
        async def __call__(self, wire: Wire) -> None:
            await greet(wire)
            count = 0
            while True:
                message = await wire.receive()
                if message["type"] == "response.create":
                    await wire.send(created(f"r{count}"))
                    await wire.send(audio(f"r{count}", tone(3000)))
                    if count:
                        await sleep_ms(wire, 6000)
                        await wire.send(done(f"r{count}"))
                    count += 1
                elif message["type"] == "response.cancel":
                    await wire.send({"type": "error", "error": {"message": "no active response", "type": "x"}})

    played = play_virtual(Refusing(never), [utterance(), after("onset", 500, kind="interruption")], limits=QUICK)
    assert outcomes(played) == ["interrupted", "answered"]


# ---- the server's ears, class B --------------------------------------------------------------------------------------


class Vad:
    """A class-B server: it answers 200 ms after the end of each sound, and says that it hears one 100 ms after its
    first sample. cancels: whether it then stops its reply."""

    def __init__(self, *, cancels: bool, reply_ms: int = 3000) -> None:
        self._cancels, self._reply_ms = cancels, reply_ms
        self.truncated: list[dict[str, Any]] = []

    async def __call__(self, wire: Wire) -> None:
        await greet(wire)
        tasks: list[asyncio.Task[None]] = []
        loud, count = False, 0
        try:
            while True:
                message = await wire.receive()
                if message["type"] == "conversation.item.truncate":
                    self.truncated.append(message)
                if message["type"] != "input_audio_buffer.append":
                    continue
                is_loud = set(message["audio"]) != {"A"}
                if is_loud and not loud:
                    tasks.append(asyncio.create_task(self._hears(wire, count - 1, tasks[-1:])))
                if loud and not is_loud:
                    tasks.append(asyncio.create_task(self._answers(wire, count)))
                    count += 1
                loud = is_loud
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hears(self, wire: Wire, reply: int, running: list[asyncio.Task[None]]) -> None:
        await sleep_ms(wire, 80)  # the frame that brought it was 20 ms long
        await wire.send({"type": "input_audio_buffer.speech_started", "item_id": "i", "audio_start_ms": 0})
        if self._cancels and running and not running[0].done():
            running[0].cancel()
            await wire.send(done(f"r{reply}", "cancelled"))

    async def _answers(self, wire: Wire, index: int) -> None:
        await sleep_ms(wire, 180)
        await wire.send({"type": "input_audio_buffer.speech_stopped", "item_id": "i", "audio_end_ms": 0})
        await wire.send(created(f"r{index}"))
        for _ in range(self._reply_ms // 20):
            await wire.send(audio(f"r{index}", tone(20)))
            await sleep_ms(wire, 20)
        await wire.send(done(f"r{index}"))


@pytest.mark.parametrize("cancels", [True, False])
def test_what_is_heard_ends_when_the_server_says_that_it_heard_the_user(cancels: bool) -> None:
    peer = Vad(cancels=cancels)
    turns = [utterance(), after("onset", 1000, kind="interruption")]
    played = play_virtual(peer, turns, turn_detection="server_vad", limits=QUICK)
    first, second = started(played)
    assert second.start_ns == first.speech_end_ns + (200 + 1000) * NS_PER_MS
    (flush,) = flushed(played)
    assert (flush.t_ns, flush.turn, flush.why) == (second.start_ns + 100 * NS_PER_MS, 1, "server")
    assert [message["audio_end_ms"] for message in peer.truncated] == [1100]
    assert not sent(played, "cancel")
    reply = played.derived.conversation.replies[0]
    assert reply.flushed_ns == flush.t_ns
    assert (reply.status, reply.packets[-1].t_ns > flush.t_ns) == (
        ("cancelled", False) if cancels else ("completed", True)
    )
    assert outcomes(played) == ["interrupted", "answered"]


def test_an_answer_before_the_user_was_done_may_be_followed_by_another() -> None:
    """A short one in the pause of an utterance, heard to its end; the next turn waits for the one that follows."""
    pcm = np.concatenate([tone(400), tone(1500) * 0, tone(400)])
    paused = TurnToSpeak(pcm, len(pcm) - 1, "annotation", 0, pauses=((9600, 36_000),))
    peer = Vad(cancels=True, reply_ms=600)
    played = play_virtual(peer, [paused, utterance()], turn_detection="server_vad", limits=QUICK)
    first, second = started(played)
    assert first.pauses == [(9600, 36_000)]
    assert second.start_ns >= first.speech_end_ns + (200 + 600) * NS_PER_MS
    assert len(played.derived.conversation.replies) == 3


def test_two_answers_are_both_heard_before_the_next_turn() -> None:
    async def twice(wire: Wire, index: int) -> None:
        for part in "ab":
            await wire.send(created(f"r{index}{part}"))
            await wire.send(audio(f"r{index}{part}", tone(1000)))
            await wire.send(done(f"r{index}{part}"))
            await sleep_ms(wire, 600)

    played = play_virtual(Manual(twice), [utterance(), utterance(gap_ms=100)], limits=QUICK)
    first, second = started(played)
    assert second.start_ns == first.speech_end_ns + (600 + 1000 + 100) * NS_PER_MS


def test_sound_after_the_end_of_a_reply_is_waited_for() -> None:
    async def late(wire: Wire, index: int) -> None:
        await wire.send(created(f"r{index}"))
        await wire.send(audio(f"r{index}", tone(1000)))
        await wire.send(done(f"r{index}"))
        await sleep_ms(wire, 500)
        await wire.send(audio(f"r{index}", tone(1000)))

    played = play_virtual(Manual(late), [utterance(), utterance(gap_ms=100)], limits=QUICK)
    first, second = started(played)
    assert second.start_ns == first.speech_end_ns + (2000 + 100) * NS_PER_MS
    assert "audio after done" in played.turns[0].flags


def test_a_lost_connection_fails_what_was_awaited_and_all_that_follows() -> None:
    async def leaves(wire: Wire, index: int) -> None:
        await wire.send(created(f"r{index}"))
        await wire.send(audio(f"r{index}", tone(400)))
        await sleep_ms(wire, 900)
        await wire.close(1011)

    turns = [utterance(), after("onset", 100, kind="backchannel", watch_ms=100), after("onset", 2000), utterance()]
    played = play_virtual(Manual(leaves), turns, limits=QUICK)
    assert outcomes(played) == ["closed", "quiet as scripted", "closed", "closed"]


# ---- the onset while a reply comes -----------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([8000, 16_000, 22_050, 24_000, 44_100]),
    st.lists(st.integers(0, 3000), min_size=1, max_size=12),
)
def test_the_onset_found_piece_by_piece_is_that_of_the_whole(seed: int, rate_hz: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    blocks = [rng.standard_normal(rate_hz // 150) * rng.choice([20, 60, 300, 3000]) + rng.integers(-99, 99)]
    blocks += [rng.standard_normal(rng.integers(1, rate_hz // 50)) * rng.choice([20, 300, 3000]) for _ in range(20)]
    pcm = np.concatenate(blocks).astype(np.int16)
    finder, found, at = OnsetFinder(rate_hz), None, 0
    for size in [*sizes, len(pcm)]:
        found = finder.feed(pcm[at : at + size]) if found is None else found
        at += size
    assert (finder.end() if found is None else found) == find_onset(pcm, rate_hz).index


def test_the_clients_messages_are_what_the_protocol_says() -> None:
    peer = Manual(says(2000))
    turns = [utterance(), after("onset", 100, kind="noise"), after("onset", 900, kind="interruption")]
    played = play_virtual(peer, turns, limits=QUICK)
    kinds = [json.loads(text)["type"] for _, text in played.sent]
    shown = [kind for kind in kinds if kind not in ("input_audio_buffer.append", "session.update")]
    assert shown == [
        "input_audio_buffer.commit",
        "response.create",
        "input_audio_buffer.clear",
        "response.cancel",
        "conversation.item.truncate",
        "input_audio_buffer.commit",
        "response.create",
    ]
