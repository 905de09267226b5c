"""Measures of turn-taking, on conversations made by hand: exact instants, exact numerators and denominators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.attribution import attribute
from metrics.conversation import Conversation, End, Reply, VadEvent
from metrics.result import Measured, Value
from metrics.spans import Span
from metrics.turn_taking.endpoints import pause_cases
from metrics.turn_taking.from_log import lanes_of
from metrics.turn_taking.lanes import NEEDS_LOG, Lanes, Sound
from metrics.turn_taking.session import session_continuity
from metrics.turn_taking.table import TURN_TAKING, take_all, turn_taking, turn_taking_definitions
from metrics.turn_taking.totals import AFTER_INTERRUPTION, PausePoint, Rate, rate_of, totals
from metrics.turns import measure_conversation
from tests.support.spoken_dialogues import MS, RATE_HZ, number, quiet, reason, reply, sound, talk, user, vad


class TestBargeIn:
    """Speech 0…1 s, its answer from 1.5 s, interrupted at 2.5 s by a clip whose first 40 ms are silent."""

    turns = (user(0, 0, 1000), user(1, 2500, 1000, "interruption", onset_ms=40))

    def test_stop_latency_ends_where_heard_audio_ends(self) -> None:
        first = reply("a", 1400, (1500, sound(5000)), done_ms=2900, status="cancelled", flushed_ms=2840)
        answer = reply("b", 4000, (4100, sound(500)))
        first_turn, second = talk(self.turns, (first, answer))
        taken = second.turn_taking
        assert number(taken["barge_in_stop_ms"]) == 300.0, "2 540 ms … 2 840 ms"
        assert number(taken["interruption_ignored"]) == 0.0
        assert number(taken["interrupted_heard_ms"]) == 1340.0
        assert number(taken["interrupted_generated_ms"]) == 5000.0
        assert number(taken["user_over_agent_ms"]) == number(taken["overlap_ms"]) == 300.0
        assert number(taken["agent_over_user_ms"]) == 0.0
        assert (first_turn.turn_class, first_turn.outcome) == ("completed", "interrupted")
        assert number(second.measures["voice_to_voice_ms"]) == 600.0, "the new answer's latency is the usual one"

    def test_a_reply_that_was_generated_long_before_is_interrupted_too(self) -> None:
        first = reply("a", 1400, (1500, sound(5000)), flushed_ms=2840)
        first_turn, second = talk(self.turns, (first, reply("b", 4000, (4100, sound(500)))))
        assert (first_turn.outcome, number(second.turn_taking["barge_in_stop_ms"])) == ("interrupted", 300.0)

    def test_an_agent_that_goes_on_is_ignoring_the_user(self) -> None:
        first = reply("a", 1400, (1500, sound(5000)))
        _, second = talk(self.turns, (first, reply("b", 7000, (7100, sound(500)))))
        assert number(second.turn_taking["interruption_ignored"]) == 1.0
        assert reason(second.turn_taking["barge_in_stop_ms"]) == "the agent did not stop within 2000 ms"
        assert number(second.turn_taking["interrupted_heard_ms"]) == 5000.0

    def test_an_end_within_the_window_is_a_stop_and_exactly_the_window_is_within_it(self) -> None:
        for ends_ms, ignored in ((4540, 0.0), (4541, 1.0)):
            first = reply("a", 1400, (1500, sound(ends_ms - 1500)))
            _, second = talk(self.turns, (first, reply("b", 7000, (7100, sound(500)))))
            assert number(second.turn_taking["interruption_ignored"]) == ignored

    def test_silence_at_the_end_of_a_reply_is_no_speech(self) -> None:
        first = reply("a", 1400, (1500, sound(500)), (1600, quiet(3000)))
        _, second = talk(self.turns, (first, reply("b", 4000, (4100, sound(500)))))
        assert reason(second.turn_taking["barge_in_stop_ms"]) == "the agent was not speaking when the user interrupted"
        assert reason(second.turn_taking["interruption_ignored"]) == reason(second.turn_taking["barge_in_stop_ms"])

    def test_a_flush_in_a_pause_of_the_agent_stopped_it_before_the_user_began(self) -> None:
        first = reply("a", 1400, (1500, sound(900)), (3000, sound(900)), flushed_ms=2900)
        _, second = talk(self.turns, (first, reply("b", 4000, (4100, sound(500)))))
        assert number(second.turn_taking["barge_in_stop_ms"]) == 0.0
        assert number(second.turn_taking["interrupted_heard_ms"]) == 900.0

    def test_three_of_ten_interruptions_are_ignored(self) -> None:
        dialogues = {}
        for k in range(10):
            flushed_ms = None if k < 3 else 2740
            first = reply("a", 1400, (1500, sound(5000)), flushed_ms=flushed_ms)
            dialogues[f"d{k}"] = talk(self.turns, (first, reply("b", 7000, (7100, sound(500)))))
        made = totals(dialogues)
        ignored = made.rates["interruption_ignored"]
        assert (ignored.hits, ignored.of, ignored.unavailable) == (3, 10, {})
        assert ignored.ci95 == pytest.approx((0.1078, 0.6032), abs=5e-5)
        stops = made.figures["barge_in_stop_ms"]
        assert (stops.distribution.n, stops.distribution.p50) == (7, 200.0)
        assert stops.unavailable == {"the agent did not stop within 2000 ms": 3}
        assert made.figures[AFTER_INTERRUPTION].distribution.p50 == 3600.0
        assert made.kinds == {"speech": 10, "interruption": 10}


class TestOutcomes:
    """What became of a reply that was dropped."""

    def test_one_that_was_heard_to_its_end_was_not_interrupted(self) -> None:
        turns = (user(0, 0, 1000), user(1, 2500, 1000, "interruption"))
        first = reply("a", 1400, (1500, sound(1000)), done_ms=3000, flushed_ms=2800)
        first_turn, second = talk(turns, (first, reply("b", 4000, (4100, sound(500)))))
        assert first_turn.outcome == "answered"
        assert reason(second.turn_taking["barge_in_stop_ms"]) == "the agent was not speaking when the user interrupted"

    def test_a_server_that_hears_a_user_who_is_quiet_cuts_off_its_own_answer(self) -> None:
        [turn] = talk((user(0, 0, 1000),), (reply("a", 1400, (1500, sound(5000)), flushed_ms=2500),))
        assert turn.outcome == "answered"
        assert turn.flags == ["cut off though no turn of the script had begun: the server heard the user speak"]

    def test_a_peer_that_does_not_confirm_the_cut(self) -> None:
        turns = (user(0, 0, 1000), user(1, 2500, 1000, "interruption"))
        endless = replace(reply("a", 1400, (1500, sound(5000)), flushed_ms=2800), done_ns=None, status="")
        first_turn, _ = talk(turns, (endless, reply("b", 4000, (4100, sound(500)))))
        assert (first_turn.turn_class, first_turn.outcome) == ("completed", "interrupted")

    def test_a_reply_that_a_manual_turn_did_not_ask_for_yet_answers_the_one_before(self) -> None:
        """The user interrupts before anything is heard; the reply begins while he speaks, and is cancelled at once."""
        first = user(0, 0, 1000, committed_ms=1000)
        second = replace(user(1, 1500, 1000, "interruption", committed_ms=2500), requested_ns=2500 * MS)
        late = reply("a", 1800, done_ms=1900, status="cancelled", flushed_ms=1800, cancelled_ms=1801)
        one, two = talk((first, second), (late, reply("b", 2800, (2900, sound(500)))), protocol_class="A")
        assert (one.turn_class, one.outcome, two.outcome) == ("completed", "interrupted", "answered")
        assert two.false_starts == 0

    def test_a_reply_to_a_sound_may_be_open_when_the_dialogue_goes_on(self) -> None:
        turns = (user(0, 0, 1000), user(1, 3000, 300, "backchannel"))
        endless = replace(reply("b", 3500, (3600, sound(500))), done_ns=None, status="")
        _, second = talk(turns, (reply("a", 1400, (1500, sound(500))), endless))
        assert (second.turn_class, second.outcome) == ("completed", "answered")


class TestClassA:
    """The client ends turns: it cancels, and what still comes is on its way already."""

    turns = (user(0, 0, 1000, committed_ms=1000), user(1, 3500, 1000, "interruption", committed_ms=4500))

    def interrupted(self, first: Reply) -> dict[str, Measured]:
        _, second = talk(self.turns, (first, reply("b", 4700, (4800, sound(500)))), protocol_class="A")
        return second.turn_taking

    def test_from_the_cancel_to_the_last_packet(self) -> None:
        packets = [(1500 + 100 * k, sound(100)) for k in range(22)]
        first = reply("a", 1400, *packets, done_ms=3620, status="cancelled", flushed_ms=3500, cancelled_ms=3500)
        assert self.interrupted(first)["barge_in_stop_ms"] == Value(100.0)

    def test_nothing_after_the_cancel_is_0(self) -> None:
        first = reply(
            "a", 1400, (1500, sound(6000)), done_ms=3540, status="cancelled", flushed_ms=3500, cancelled_ms=3500
        )
        assert self.interrupted(first)["barge_in_stop_ms"] == Value(0.0)

    def test_o09_a_reply_that_was_complete_is_dropped_without_a_cancel(self) -> None:
        first = reply("a", 1400, (1500, sound(6000)), done_ms=1700, flushed_ms=3500)
        first_turn, _ = talk(self.turns, (first,), protocol_class="A")
        assert (first_turn.turn_class, first_turn.outcome) == ("completed", "interrupted")
        taken = self.interrupted(first)
        assert taken["barge_in_stop_ms"] == Value(0.0)
        assert (taken["interrupted_heard_ms"], taken["interrupted_generated_ms"]) == (Value(2000.0), Value(6000.0))

    def test_o08_never_more_is_heard_than_came_and_an_underrun_is_silence(self) -> None:
        """2 s of audio at once, then nothing; the user barges in 3.5 s after the first of it."""
        turns = (user(0, 0, 1000, committed_ms=1000), user(1, 5000, 1000, "interruption", committed_ms=6000))
        burst = [(1500, sound(200)) for _ in range(10)]
        first = reply("a", 1400, *burst, done_ms=5100, status="cancelled", flushed_ms=5000, cancelled_ms=5000)
        _, second = talk(turns, (first,), protocol_class="A")
        assert number(second.turn_taking["interrupted_heard_ms"]) == 2000.0
        assert number(second.turn_taking["overlap_ms"]) == 0.0, "the agent was silent from 3.5 s on"

    def test_the_servers_own_turn_taking_cannot_be_had(self) -> None:
        turns = (*self.turns, user(2, 6000, 300, "backchannel"), user(3, 8000, 1000, "silence"))
        results = talk(turns, (reply("a", 1400, (1500, sound(1000))),), protocol_class="A")
        why = "in class A the client alone ends turns"
        assert reason(results[0].turn_taking["premature_endpoint"]) == why
        assert reason(results[1].turn_taking["interruption_ignored"]) == why
        assert reason(results[1].turn_taking["barge_in_stop_ms"]) == "the client neither cancelled nor dropped a reply"
        assert {reason(results[2].turn_taking[name]) for name in ("false_interruption", "answered_backchannel")} == {
            why
        }
        assert {reason(results[3].turn_taking[name]) for name in ("stayed_quiet", "reprompt_ms")} == {why}
        assert [result.pauses for result in results] == [[], [], [], []]


class TestCoughs:
    turns = (user(0, 0, 1000), user(1, 2500, 200, "noise"))

    def test_seven_of_twenty_stop_the_agent(self) -> None:
        dialogues = {}
        for k in range(20):
            answer = reply("a", 1400, (1500, sound(5000)), flushed_ms=2700 if k < 7 else None)
            dialogues[f"d{k}"] = talk(self.turns, (answer,))
        made = totals(dialogues)
        stopped = made.rates["false_interruption"]
        assert (stopped.hits, stopped.of) == (7, 20)
        assert stopped.ci95 == pytest.approx((0.1812, 0.5671), abs=5e-5)
        assert (made.rates["answered_backchannel"].hits, made.rates["answered_backchannel"].of) == (0, 20)
        assert (made.rates["responded"].hits, made.rates["responded"].of) == (20, 20), "coughs expect no reply"

    def test_the_window_is_from_onset_to_end_and_watch(self) -> None:
        for flushed_ms, stopped in ((2501, 1.0), (4700, 1.0), (4701, 0.0)):
            _, cough = talk(self.turns, (reply("a", 1400, (1500, sound(5000)), flushed_ms=flushed_ms),))
            assert number(cough.turn_taking["false_interruption"]) == stopped, flushed_ms

    def test_the_users_next_sound_ends_the_watch(self) -> None:
        turns = (*self.turns, user(2, 3500, 500, "interruption"))
        answers = (reply("a", 1400, (1500, sound(5000)), flushed_ms=3800), reply("b", 4100, (4200, sound(300))))
        _, cough, interruption = talk(turns, answers)
        assert number(cough.turn_taking["false_interruption"]) == 0.0
        assert number(interruption.turn_taking["barge_in_stop_ms"]) == 300.0

    def test_where_nobody_spoke_there_was_nothing_to_stop(self) -> None:
        _, cough = talk(self.turns, (reply("a", 1400, (1500, sound(500))),))
        assert reason(cough.turn_taking["false_interruption"]) == "the agent was not speaking at the sound's onset"

    def test_a_server_that_cancels_without_a_word_stopped_too(self) -> None:
        answer = reply("a", 1400, (1500, sound(5000)), done_ms=2900, status="cancelled")
        first, cough = talk(self.turns, (answer,))
        assert number(cough.turn_taking["false_interruption"]) == 1.0
        assert (first.turn_class, first.outcome, first.detail) == ("completed", "interrupted", "by a noise")

    def test_a_backchannel_is_no_attempt_to_be_answered(self) -> None:
        turns = (user(0, 0, 1000), user(1, 2500, 300, "backchannel"))
        first, second = talk(turns, (reply("a", 1400, (1500, sound(3000))),))
        assert (first.outcome, second.turn_class, second.outcome) == ("answered", "completed", "quiet as scripted")
        assert reason(second.measures["voice_to_voice_ms"]) == "a turn of kind backchannel expects no reply"
        assert isinstance(second.measures["send_lateness_max_ms"], Value)
        assert "responded" not in second.turn_taking and second.reply_ids == []

    def test_one_that_was_answered_is_told_of_and_gives_no_latency(self) -> None:
        turns = (user(0, 0, 1000), user(1, 3000, 300, "backchannel"))
        replies = (reply("a", 1400, (1500, sound(500))), reply("b", 3500, (3600, sound(500))))
        first, second = talk(turns, replies)
        assert number(second.turn_taking["answered_backchannel"]) == 1.0
        assert (second.outcome, second.reply_ids) == ("answered", ["b"])
        assert reason(second.measures["voice_to_voice_ms"]) == "a turn of kind backchannel expects no reply"
        assert first.reply_ids == ["a"] and number(first.turn_taking["spurious_speech"]) == 0.0

    def test_a_late_answer_is_not_an_answer_to_the_cough(self) -> None:
        turns = (user(0, 0, 1000), user(1, 1300, 200, "noise"))
        first, cough = talk(turns, (reply("a", 1700, (1800, sound(500))),), vad("stopped", 1650))
        assert number(first.measures["voice_to_voice_ms"]) == 800.0
        assert number(first.measures["server_vad_delay_ms"]) == 650.0
        assert (cough.outcome, number(cough.turn_taking["answered_backchannel"])) == ("quiet as scripted", 0.0)


class TestPauses:
    """One utterance with pauses of 0.3, 0.5 and 0.7 s, against a server that takes the turn after 500 ms of silence."""

    turn = user(0, 0, 5500, pauses_ms=((1000, 300), (2300, 500), (3800, 700)))

    def server(self) -> list[VadEvent]:
        ended = [at + 500 for at, length in ((1000, 300), (2300, 500), (3800, 700)) if length >= 500]
        return vad("committed", *ended, 6000)

    def test_the_curve_is_exactly_that_servers(self) -> None:
        first = reply("false", 2850, (2900, sound(2000)), flushed_ms=3000)
        second = reply("false 2", 4350, (4400, sound(2000)), flushed_ms=4600)
        dialogues = {
            f"d{k}": talk([self.turn], (first, second, reply("a", 6050, (6100, sound(500)))), self.server())
            for k in range(4)
        }
        made = totals(dialogues)
        assert [(point.pause_ms, point.cut.hits, point.cut.of) for point in made.pauses] == [
            (300.0, 0, 4),
            (500.0, 4, 4),
            (700.0, 4, 4),
        ]
        assert (made.rates["premature_endpoint"].hits, made.rates["premature_endpoint"].of) == (4, 4)
        [turn] = dialogues["d0"]
        assert turn.false_starts == 2 and number(turn.measures["voice_to_voice_ms"]) == 600.0

    def test_each_pause_has_its_own_share(self) -> None:
        dialogues = {}
        for k in range(25):
            cut = vad("committed", 4300) if k < 3 else []
            dialogues[f"d{k}"] = talk([self.turn], (reply("a", 6050, (6100, sound(500))),), cut)
        assert totals(dialogues).pauses == [
            PausePoint(300.0, rate_of(0, 25)),
            PausePoint(500.0, rate_of(0, 25)),
            PausePoint(700.0, Rate(3, 25, rate_of(3, 25).ci95)),
        ]

    def test_an_ending_just_after_a_pause_is_because_of_it_and_the_speech_end_is_never_premature(self) -> None:
        for at_ms, cut in ((2299, [True, False, False]), (2300, [False, True, False]), (5499, [False, False, True])):
            [turn] = talk([self.turn], (reply("a", 6050, (6100, sound(500))),), vad("committed", at_ms))
            assert [case.was_cut for case in turn.pauses] == cut, at_ms
        [turn] = talk([self.turn], (reply("a", 6050, (6100, sound(500))),), vad("committed", 5500))
        assert not any(case.was_cut for case in turn.pauses)
        assert number(turn.turn_taking["premature_endpoint"]) == 0.0

    def test_a_reply_that_begins_is_an_ending_and_a_stop_alone_is_none(self) -> None:
        [turn] = talk([self.turn], (reply("a", 1200, (1300, sound(6000))),), vad("stopped", 2600))
        assert [case.was_cut for case in turn.pauses] == [True, False, False]

    def test_what_the_turn_before_was_owed_is_not_this_ones(self) -> None:
        before = user(0, 0, 1000)
        after = user(1, 1200, 4000, pauses_ms=((1000, 600),))
        [_, turn] = talk([before, after], (reply("a", 6000, (6100, sound(500))),), vad("committed", 1500))
        assert number(turn.turn_taking["premature_endpoint"]) == 0.0
        [_, turn] = talk([before, after], (reply("a", 6000, (6100, sound(500))),), vad("committed", 1100, 1500))
        assert number(turn.turn_taking["premature_endpoint"]) == 1.0
        assert [case.was_cut for case in turn.pauses] == [False]

    def test_a_turn_that_was_answered_too_early_is_owed_nothing(self) -> None:
        """A server that never lets the user finish does so in every turn, not in the first only."""
        turns = [user(index, 5000 * index, 1000) for index in range(4)]
        early = [reply(f"r{index}", 5000 * index + 600, (5000 * index + 600, sound(800))) for index in range(4)]
        results = talk(turns, tuple(early))
        assert [number(result.turn_taking["premature_endpoint"]) for result in results] == [1.0] * 4

    def test_lengths_may_be_told_apart_more_coarsely(self) -> None:
        dialogues = {"d": talk([self.turn], (reply("a", 6050, (6100, sound(500))),))}
        assert [point.pause_ms for point in totals(dialogues, step_ms=1000.0).pauses] == [0.0, 1000.0]


class TestResponses:
    def test_answered_missed_and_late(self) -> None:
        turns = (user(0, 0, 1000), user(1, 10_000, 1000), user(2, 20_000, 1000), user(3, 30_000, 1000))
        replies = (
            reply("in time", 2900, (3000, sound(500))),
            reply("late", 12_900, (13_001, sound(500))),
            reply("wordless", 21_500),
        )
        results = talk(turns, replies)
        taken = [result.turn_taking for result in results]
        assert [number(one["responded"]) for one in taken] == [1.0, 1.0, 0.0, 0.0]
        assert [number(one["missed"]) for one in taken] == [0.0, 0.0, 0.0, 1.0]
        assert [number(one["late"]) for one in taken[:2]] == [0.0, 1.0], "exactly 2 s is in time"
        assert reason(taken[3]["late"]) == "no audible answer came"
        made = totals({"d": results})
        assert (made.rates["responded"].hits, made.rates["responded"].of) == (2, 4), "a time-out is the agent's silence"
        assert made.left_out == {}

    def test_a_lost_connection_is_no_silence_of_the_agent(self) -> None:
        results = talk((user(0, 0, 1000),), ())
        lost = [
            msgspec.structs.replace(results[0], outcome="reset"),
            msgspec.structs.replace(results[0], turn_class="invalid"),
        ]
        made = totals({"d": lost})
        assert (made.rates["missed"].of, made.left_out) == (0, {"reset": 1, "invalid": 1})
        assert made.rates["missed"].ci95 is None and made.rates["missed"].share is None

    def test_a_user_who_does_not_wait_is_answered_once(self) -> None:
        turns = (user(0, 0, 1000), user(1, 1500, 1000))
        first, second = talk(turns, (reply("a", 2900, (3000, sound(500))),))
        assert (first.turn_class, first.outcome) == ("completed", "interrupted")
        assert first.detail == "the script's next turn began before a reply did"
        assert reason(first.turn_taking["responded"]) == "the user went on within 2000 ms"
        assert reason(first.turn_taking["missed"]) == "the user went on within 2000 ms"
        assert number(second.turn_taking["responded"]) == 1.0
        assert number(second.measures["voice_to_voice_ms"]) == 500.0

    def test_one_who_waited_2_s_was_not_answered(self) -> None:
        first, _ = talk((user(0, 0, 1000), user(1, 3000, 1000)), (reply("a", 4900, (5000, sound(500))),))
        assert (first.turn_class, first.outcome) == ("failed", "time-out")
        assert (number(first.turn_taking["responded"]), number(first.turn_taking["missed"])) == (0.0, 1.0)

    def test_a_turn_that_never_began_is_in_nothing(self) -> None:
        never = (End(4000 * MS, 1, "time-out", "the wait never fired"),)
        answer = reply("a", 1400, (1500, sound(500)))
        results = measure_conversation(Conversation("B", RATE_HZ, 0, (user(0, 0, 1000),), (answer,), ends=never))
        made = totals({"d": results})
        assert (made.turns, made.kinds, made.left_out) == (2, {"speech": 1}, {"never began": 1})
        assert made.rates["responded"].of == 1

    def test_talking_over_the_user(self) -> None:
        [turn] = talk((user(0, 0, 3000),), (reply("a", 2000, (2400, sound(1500))),))
        assert number(turn.turn_taking["talk_over"]) == 1.0
        assert number(turn.turn_taking["agent_over_user_ms"]) == number(turn.turn_taking["overlap_ms"]) == 600.0
        assert number(turn.measures["voice_to_voice_ms"]) == -600.0

    def test_a_pause_of_the_user_is_no_overlap(self) -> None:
        [turn] = talk((user(0, 0, 3000, pauses_ms=((1000, 1000),)),), (reply("a", 900, (1200, sound(2500))),))
        assert number(turn.turn_taking["agent_over_user_ms"]) == 1000.0, "2…3 s, not 1.2…2 s"

    def test_speech_that_nobody_asked_for(self) -> None:
        replies = (reply("a", 1400, (1500, sound(500))), reply("b", 4000, (4100, sound(500))))
        [turn] = talk((user(0, 0, 1000),), replies)
        assert number(turn.turn_taking["spurious_speech"]) == 1.0

    def test_words_after_a_silent_first_reply_are_its_answer(self) -> None:
        replies = (reply("tool", 1400), reply("b", 2000, (2100, sound(500))))
        [turn] = talk((user(0, 0, 1000),), replies)
        assert (number(turn.turn_taking["responded"]), number(turn.turn_taking["spurious_speech"])) == (1.0, 0.0)

    def test_the_agents_backchannel_is_never_a_response(self) -> None:
        hm = reply("mm-hm", 1900, (2000, sound(400)), done_ms=2100)
        [turn] = talk((user(0, 0, 5000),), (hm, reply("a", 5500, (5600, sound(500)))))
        assert number(turn.measures["voice_to_voice_ms"]) == 600.0
        assert number(turn.turn_taking["agent_backchannels"]) == 1.0
        assert number(turn.turn_taking["agent_over_user_ms"]) == 400.0
        assert turn.reply_ids == ["mm-hm", "a"] and turn.flags == ["the agent's backchannels: 1"]
        [alone] = talk((user(0, 0, 5000),), (hm,))
        assert (alone.turn_class, number(alone.turn_taking["missed"])) == ("failed", 1.0)

    def test_a_longer_one_is_a_response(self) -> None:
        early = reply("early", 1900, (2000, sound(1001)), done_ms=2100)
        [turn] = talk((user(0, 0, 5000),), (early,))
        assert number(turn.measures["voice_to_voice_ms"]) == -3000.0


class TestSilence:
    turns = (user(0, 0, 1000), user(1, 4000, 6000, "silence"))

    def test_an_agent_that_stays_quiet(self) -> None:
        _, silence = talk(self.turns, (reply("a", 1400, (1500, sound(1000))),))
        assert (silence.outcome, number(silence.turn_taking["stayed_quiet"])) == ("quiet as scripted", 1.0)
        assert reason(silence.turn_taking["reprompt_ms"]) == "the agent stayed quiet"
        assert "overlap_ms" not in silence.turn_taking

    def test_one_that_asks_again(self) -> None:
        again = reply("again", 9000, (9200, quiet(50)), (9250, sound(800)))
        _, silence = talk(self.turns, (reply("a", 1400, (1500, sound(1000))), again))
        assert number(silence.turn_taking["stayed_quiet"]) == 0.0
        assert number(silence.turn_taking["reprompt_ms"]) == 5250.0
        assert silence.outcome == "answered"

    def test_a_late_answer_is_no_re_prompt(self) -> None:
        first, silence = talk(self.turns, (reply("a", 4500, (4600, sound(1000))),))
        assert number(first.measures["voice_to_voice_ms"]) == 3600.0
        assert number(silence.turn_taking["stayed_quiet"]) == 1.0


class TestFullDuplex:
    """Class D: one stream, in which only quiet tells one utterance from the next."""

    def stream(self, *spoken: tuple[int, int]) -> Reply:
        """Audio from 0 to 20 s in 100 ms messages, sounding in [start, end) ms."""
        lane = quiet(20_000)
        for start_ms, end_ms in spoken:
            lane[start_ms * 24 : end_ms * 24] = sound(end_ms - start_ms)
        packets = [(k * 100, lane[k * 2400 : (k + 1) * 2400]) for k in range(200)]
        return reply("stream", 0, *packets, done_ms=20_000)

    def test_onset_is_the_first_audible_sample_after_200_ms_of_quiet(self) -> None:
        turns = (user(0, 1000, 1000), user(1, 6000, 1000))
        first, second = talk(turns, (self.stream((2400, 3000), (3150, 4000), (7300, 8000)),), protocol_class="D")
        assert number(first.measures["voice_to_voice_ms"]) == 400.0
        assert number(second.measures["voice_to_voice_ms"]) == 300.0
        assert (first.outcome, second.outcome) == ("answered", "answered")
        for name in ("first_packet_ms", "silence_padding_ms", "commit_to_first_packet_ms", "underruns_b0"):
            assert "class D has one continuous stream" in reason(first.measures[name])

    def test_a_stop_an_ignored_interruption_and_a_cough(self) -> None:
        turns = (user(0, 1000, 1000), user(1, 3000, 500, "interruption"), user(2, 5000, 200, "noise"))
        _, stopped, _ = talk(turns, (self.stream((2400, 3250), (3900, 4500)),), protocol_class="D")
        assert number(stopped.turn_taking["barge_in_stop_ms"]) == 250.0
        assert number(stopped.measures["voice_to_voice_ms"]) == 400.0
        assert reason(stopped.turn_taking["interrupted_heard_ms"]) == NEEDS_LOG
        _, ignored, cough = talk(turns, (self.stream((2400, 9000)),), protocol_class="D")
        assert number(ignored.turn_taking["interruption_ignored"]) == 1.0
        assert number(cough.turn_taking["false_interruption"]) == 0.0
        assert cough.outcome == "quiet as scripted"

    def test_an_mm_hm_in_the_users_speech_is_no_answer_and_a_takeover_in_a_pause_is_premature(self) -> None:
        turn = user(0, 1000, 5000, pauses_ms=((1000, 1500),))
        [hm] = talk([turn], (self.stream((2200, 2600), (6500, 7000)),), protocol_class="D")
        assert number(hm.measures["voice_to_voice_ms"]) == 500.0
        assert number(hm.turn_taking["agent_backchannels"]) == 1.0
        assert [case.was_cut for case in hm.pauses] == [False]
        [taken] = talk([turn], (self.stream((2700, 8000)),), protocol_class="D")
        assert [case.was_cut for case in taken.pauses] == [True]
        assert number(taken.measures["voice_to_voice_ms"]) == -3300.0

    def test_nobody_answers(self) -> None:
        [turn] = talk((user(0, 1000, 1000),), (self.stream(),), protocol_class="D")
        assert turn.outcome != "answered" and number(turn.turn_taking["missed"]) == 1.0

    def test_underruns_belong_to_the_session(self) -> None:
        late = reply("stream", 0, (0, sound(100)), (150, sound(100)), (400, sound(100)))
        conversation = Conversation("D", RATE_HZ, 0, (user(0, 1000, 1000),), (late,))
        taken = session_continuity(conversation)
        assert (number(taken["session_underruns"]), number(taken["session_underrun_ms"])) == (2.0, 200.0)
        assert session_continuity(Conversation("B", RATE_HZ, 0, (), (late,))) == {}


class TestAudioAlone:
    """What a recording gives by itself, and what it cannot."""

    sounds = (
        Sound(0, "speech", 0, 0, 1000 * MS),
        Sound(1, "interruption", 3000 * MS, 3000 * MS, 4000 * MS),
        Sound(2, "backchannel", 8000 * MS, 8000 * MS, 8300 * MS, expects_reply=False),
    )

    def take(self, *agent: tuple[int, int]) -> list[dict[str, Measured]]:
        lanes = Lanes("", self.sounds, tuple(Span(a * MS, b * MS) for a, b in agent))
        return [take_all(lanes, one) for one in self.sounds]

    def test_the_same_measures(self) -> None:
        first, second, third = self.take((1500, 3400), (4600, 9000))
        assert first["late"] == Value(0.0) and first["premature_endpoint"] == Value(0.0)
        assert second["barge_in_stop_ms"] == Value(400.0) and second["responded"] == Value(1.0)
        assert third["false_interruption"] == Value(1.0)

    def test_what_needs_the_log_says_so(self) -> None:
        first, second, _ = self.take((1500, 3400))
        needs = {name for name in TURN_TAKING if turn_taking(name).needs_log}
        assert needs == {"interrupted_heard_ms", "interrupted_generated_ms", "spurious_speech"}
        assert {reason(first["spurious_speech"]), reason(second["interrupted_heard_ms"])} == {NEEDS_LOG}

    def test_pauses(self) -> None:
        one = Sound(0, "speech", 0, 0, 5000 * MS, (Span(1000 * MS, 1700 * MS), Span(3000 * MS, 3300 * MS)))
        lanes = Lanes("", (one,), (Span(1650 * MS, 2900 * MS),))
        assert [(case.pause_ms, case.was_cut) for case in pause_cases(lanes, one)] == [(700.0, True), (300.0, False)]


def test_the_agents_lane_is_what_was_heard() -> None:
    turns = (user(0, 0, 1000), user(1, 2500, 500, "interruption"))
    first = reply("a", 1400, (1500, sound(300)), (1800, quiet(150)), (1950, sound(3000)), flushed_ms=2700)
    conversation = Conversation("B", RATE_HZ, 0, turns, (first,))
    lanes = lanes_of(conversation, attribute(conversation))
    assert lanes.agent == (Span(1500 * MS, 2700 * MS),), "150 ms of quiet divide nothing; the flush does"
    assert lanes.sounds[0].speech == (Span(0, 1000 * MS),)


@given(
    arrivals=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 40), st.booleans()), min_size=1, max_size=12),
    onset_ms=st.integers(0, 6000),
    flushed_after_ms=st.none() | st.integers(1, 3000),
)
def test_what_holds_whatever_happens(
    arrivals: list[tuple[int, int, bool]], onset_ms: int, flushed_after_ms: int | None
) -> None:
    """Parts add up, nothing is heard that had not come, and a stop ends with the cut."""
    packets, at_ms = [], 1500
    for wait_ms, tens, is_loud in arrivals:
        at_ms += wait_ms
        packets.append((at_ms, (sound if is_loud else quiet)(10 * tens)))
    cut_ms = None if flushed_after_ms is None else 1400 + flushed_after_ms
    turns = (user(0, 0, 1000), user(1, 1100 + onset_ms, 700, "interruption", onset_ms=50))
    first = reply("a", 1400, *packets, flushed_ms=cut_ms)
    [_, second] = talk(turns, (first,))
    taken = second.turn_taking
    parts = number(taken["agent_over_user_ms"]) + number(taken["user_over_agent_ms"])
    assert parts == pytest.approx(number(taken["overlap_ms"])) and number(taken["overlap_ms"]) <= 650.0
    if isinstance(taken["interrupted_heard_ms"], Value):
        came = sum(len(pcm) for at, pcm in packets if cut_ms is None or at < cut_ms) / 24
        heard, generated = number(taken["interrupted_heard_ms"]), number(taken["interrupted_generated_ms"])
        assert heard <= min(came, generated) + 1e-6
    if isinstance(taken["barge_in_stop_ms"], Value):
        stop_ms = number(taken["barge_in_stop_ms"])
        assert stop_ms >= 0.0 and (cut_ms is None or stop_ms <= max(0, cut_ms - 1150 - onset_ms))


def test_every_measure_is_named_versioned_and_documented() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    for name in TURN_TAKING:
        found = turn_taking(name)
        assert found.name == name and found.version and found.formula and found.kinds
        assert f"`{name}`" in docs, f"docs/metrics.md does not define {name}"
    assert turn_taking_definitions().keys() == {*TURN_TAKING, "agent_backchannel", "pause_curve"}
