"""Audio that came before: told from audio that is only like itself, and what becomes of the figures that it spoils."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metrics.conversation import Pcm
from metrics.length import REPEATED
from metrics.repeats import Repeats, find_repeats, telling_ms
from metrics.result import Unavailable, Value
from metrics.table import METRICS, definitions
from servers.app import serve
from servers.models.behaviour import ReplyPlan, load_behaviour, shipped
from servers.models.metronome import load_metronome, timeline
from servers.speech_model import Audio
from servers.write_log import WriteLog
from sessions import audio
from sessions.clock import NS_PER_MS
from tests.servers.test_metronome_virtual import Fronted
from tests.support.commands import CALM, run
from tests.support.dialogues import Played, perform, play_virtual, utterance
from tests.support.peers import Wire, created, done, greet, in_memory, request, sleep_ms, tone
from tests.support.peers import audio as delta
from tests.support.virtual_time import VirtualClock, run_virtual

RATE_HZ = 24_000
LIBRARY = Path(audio.__file__).parent / "library"
SPOILT = [name for name in METRICS if name.startswith("underrun")]
SPOILT += ["gapless_prebuffer_ms", "real_time_factor", "reply_duration_ms"]


@cache
def speech() -> Pcm:
    """Four seconds of a voice, with pauses of digital silence before it and in it."""
    said = audio.load(LIBRARY / "five-rounds/turn-1.flac", rate_hz=RATE_HZ).pcm[: 3 * RATE_HZ]
    quiet = silence(300)
    return np.concatenate([quiet, said[: 2 * RATE_HZ], quiet, said[2 * RATE_HZ :], quiet])[: 4 * RATE_HZ - 2400]


def silence(ms: float) -> Pcm:
    return np.zeros(round(ms * RATE_HZ / 1000), dtype=np.int16)


def cut(pcm: Pcm, ms: float = 250) -> list[Pcm]:
    size = round(ms * RATE_HZ / 1000)
    return [pcm[first : first + size] for first in range(0, len(pcm), size)]


def growing(packets: Sequence[Pcm]) -> list[Pcm]:
    return [np.concatenate(packets[: count + 1]) for count in range(len(packets))]


def ms(found: Repeats | None) -> tuple[float, float] | None:
    return None if found is None else (found.came_samples * 1000 / RATE_HZ, found.once_samples * 1000 / RATE_HZ)


def voice(duration_ms: float) -> Pcm:
    """A voice from its first sample on."""
    said = speech()[silence(300).size + 2400 :]
    return said[: round(duration_ms * RATE_HZ / 1000)]


# ---- what is a repeat ----------------------------------------------------------------------------------------------


def test_plain_pieces_are_none() -> None:
    for size_ms in (20, 80, 250, 10_000):
        assert find_repeats(cut(speech(), size_ms), RATE_HZ) is None


def test_pieces_that_hold_all_so_far_are() -> None:
    assert ms(find_repeats(growing(cut(voice(1000))), RATE_HZ)) == (2500, 1000)
    led_in = np.concatenate([silence(500), voice(1000)])
    assert ms(find_repeats(growing(cut(led_in)), RATE_HZ)) == (250 * 21, 1500)
    stalled = growing(cut(voice(1000)))
    assert ms(find_repeats([stalled[0], *stalled, stalled[-1]], RATE_HZ)) == (3750, 1000)


@pytest.mark.parametrize("size_ms", [20, 80, 250])
@pytest.mark.parametrize("times", [2, 3])
def test_the_whole_reply_once_more_is(size_ms: float, times: int) -> None:
    assert ms(find_repeats(cut(speech(), size_ms) * times, RATE_HZ)) == (
        len(speech()) * times / 24,
        len(speech()) / 24,
    )


def test_the_whole_at_the_end_of_its_pieces_is() -> None:
    assert ms(find_repeats([*cut(speech()), speech()], RATE_HZ)) == (len(speech()) / 12, len(speech()) / 24)


def test_a_new_beginning_that_goes_on_is() -> None:
    """A server that starts anew in mid-reply, twice; the second time farther on."""
    said = cut(speech())
    pieces = [*said[:6], *said[:9], *said]
    assert ms(find_repeats(pieces, RATE_HZ)) == (sum(map(len, pieces)) / 24, len(speech()) / 24)


def test_other_rounding_is_the_same_audio_and_another_take_is_not() -> None:
    noise = np.random.default_rng(1)
    other = (speech() + noise.integers(-2, 3, len(speech()))).astype(np.int16)
    assert find_repeats([speech(), other], RATE_HZ) is not None
    assert find_repeats([speech(), (speech() * 0.995).astype(np.int16)], RATE_HZ) is not None
    assert find_repeats([speech(), (speech() * 0.9).astype(np.int16)], RATE_HZ) is None
    assert find_repeats([speech(), np.roll(speech(), 1)], RATE_HZ) is None


def test_less_than_all_so_far_is_none() -> None:
    said = cut(speech())
    for pieces in ([*said, *said[:-1]], [*said, *said[2:]], [*said, said[3]], [*said, np.flip(speech())]):
        assert find_repeats(pieces, RATE_HZ) is None


@given(st.lists(st.integers(1, 30_000), max_size=12), st.lists(st.integers(1, 30_000), max_size=12))
@settings(max_examples=30)
def test_however_the_two_rounds_are_cut(first: list[int], second: list[int]) -> None:
    rounds = [np.split(speech(), [at for at in accumulate(sizes) if at < len(speech())]) for sizes in (first, second)]
    assert find_repeats(rounds[0], RATE_HZ) is None
    assert ms(find_repeats([*rounds[0], *rounds[1]], RATE_HZ)) == (len(speech()) / 12, len(speech()) / 24)


# ---- what is only like itself --------------------------------------------------------------------------------------

BEEP = tone(400)
GAP = silence(200)
TICK = np.concatenate([tone(20, level=0.5), silence(480)])
HZ_1000 = np.round(6000 * np.sin(2 * np.pi * np.arange(10 * RATE_HZ) / 24)).astype(np.int16)


@pytest.mark.parametrize(
    "pieces",
    [
        [BEEP, GAP, BEEP],
        [np.concatenate([BEEP, GAP])] * 2,
        [BEEP, GAP] * 2,
        [BEEP, BEEP],
        [np.concatenate([BEEP, GAP])] * 40,
        [TICK] * 60,
        growing([TICK] * 3),
        cut(HZ_1000, 20),
        cut(HZ_1000, 500),
        growing(cut(HZ_1000, 250)),
        [silence(500)] * 20,
        [*[silence(80)] * 10, *cut(speech(), 80), *[silence(80)] * 10],
        [np.full(12_000, 3000, dtype=np.int16)] * 10,
        [*cut(voice(400), 80), GAP] * 2,
        [],
        [silence(0)],
        [speech()],
        [silence(0), speech(), silence(0)],
    ],
)
def test_what_is_like_itself_by_nature_is_no_repeat(pieces: list[Pcm]) -> None:
    assert find_repeats(pieces, RATE_HZ) is None


@given(st.floats(45, 11_900), st.floats(0.01, 0.9))
@example(4793.0, 0.5)  # five samples and a bit: no lag of whole samples is a period
@settings(max_examples=40)
def test_no_tone_is_telling(hz: float, level: float) -> None:
    t = np.arange(RATE_HZ // 2) / RATE_HZ
    assert telling_ms(np.round(level * 32767 * np.sin(2 * np.pi * hz * t)).astype(np.int16), RATE_HZ) == 0


def test_speech_and_noise_are_telling_silence_is_not() -> None:
    noise = (np.random.default_rng(1).standard_normal(RATE_HZ) * 1000).astype(np.int16)
    assert telling_ms(noise, RATE_HZ) == 975
    assert telling_ms((noise / 10).astype(np.int16), RATE_HZ) == 0, "below the gate"
    assert telling_ms(voice(1500), RATE_HZ) > 1200
    assert telling_ms(silence(1000), RATE_HZ) == telling_ms(silence(0), RATE_HZ) == 0
    assert telling_ms(np.repeat(noise, 2)[:4000], 8000) > 300


@pytest.mark.parametrize("name", shipped())
def test_no_reply_of_a_shipped_behaviour_repeats(name: str) -> None:
    behaviour = load_behaviour(name)
    for plan in {behaviour.reply, *behaviour.turns}:
        if plan.duration_ms <= 20_000:
            assert find_repeats(_sent(plan), RATE_HZ) is None


@pytest.mark.parametrize("packet_ms", [20, 40, 80, 250])
@pytest.mark.parametrize("tone_hz", [100, 440, 1000])
@pytest.mark.parametrize("lead", [{}, {"leading_silence_ms": 200}, {"leading_silence_ms": 60, "leading_click_ms": 5}])
def test_no_tone_of_a_metronome_repeats(packet_ms: int, tone_hz: float, lead: dict[str, Any]) -> None:
    plan = ReplyPlan(duration_ms=3000, packet_ms=packet_ms, tone_hz=tone_hz, **lead)
    assert find_repeats(_sent(plan), RATE_HZ) is None


def _sent(plan: ReplyPlan) -> list[Pcm]:
    return [piece.pcm for _, piece in timeline(plan, 0, text_only=False) if isinstance(piece, Audio)]


def test_ten_minutes_take_no_time() -> None:
    """15 000 messages each: a tone, then silence with a word before it. Each look would be over all so far."""
    for pcm in (np.tile(HZ_1000, 30), np.concatenate([silence(300), voice(600), silence(300_000)])):
        assert find_repeats(cut(pcm, 20), RATE_HZ) is None


# ---- the metronome that does it ------------------------------------------------------------------------------------


def test_the_metronome_repeats_as_its_behaviour_says() -> None:
    plan = ReplyPlan(delay_ms=0, duration_ms=240, packet_ms=80)
    plain = _sent(plan)
    for repeats, expected in (("growing", growing(plain)), ("again", [*plain, *plain])):
        changed = ReplyPlan(delay_ms=0, duration_ms=240, packet_ms=80, repeats=repeats)
        assert [pcm.tolist() for pcm in _sent(changed)] == [pcm.tolist() for pcm in expected]
        due = [t_ns / NS_PER_MS for t_ns, piece in timeline(changed, 0, text_only=False) if isinstance(piece, Audio)]
        assert due == [80 * number for number in range(len(expected))]


BEHAVIOUR = """\
version: 1
reply: {delay_ms: 100, duration_ms: 200, leading_silence_ms: 800, leading_noise_dbfs: -30, packet_ms: 250}
turns:
  - {}
  - {repeats: growing}
  - {repeats: again}
"""
GROWN = "repeats what was sent: 2500 ms of audio came, 1000 ms without the repeats"
TWICE = "repeats what was sent: 2000 ms of audio came, 1000 ms without the repeats"


def test_a_repeating_server_is_named_and_no_figure_of_length_is_given(tmp_path: Path) -> None:
    path = tmp_path / "repeats.yaml"
    path.write_text(BEHAVIOUR)

    async def make(clock: VirtualClock) -> Played:
        async with in_memory(Fronted(str(path), WriteLog()), clock) as connect:
            return await perform(connect, clock, [utterance(500, tail_ms=200)] * 3)

    played = run_virtual(make)
    assert isinstance(played, Played)
    assert [turn.outcome for turn in played.turns] == ["answered"] * 3
    assert [turn.flags for turn in played.turns] == [[], [GROWN], [TWICE]]
    assert played.ms(0, "real_time_factor") == 0.75 and played.ms(0, "reply_duration_ms") == 1000
    for turn in played.turns[1:]:
        assert {name for name, value in turn.measures.items() if value == Unavailable(REPEATED)} == set(SPOILT)
        assert turn.measures["first_packet_ms"] == Value(100.0)
    samples = [sum(len(p.pcm) for p in reply.packets) for reply in played.derived.conversation.replies]
    assert samples == [24_000, 60_000, 48_000], "nothing is repaired"
    assert definitions()["repeats"] == "2" and definitions()["real_time_factor"] == "2"


def test_two_beeps_are_as_they_were() -> None:
    async def peer(wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        await wire.send(created("r"))
        for pcm in (BEEP, GAP, BEEP):
            await wire.send(delta("r", pcm))
            await sleep_ms(wire, 100)
        await wire.send(done("r"))

    played = play_virtual(peer)
    assert played.turns[0].flags == []
    assert played.ms(0, "reply_duration_ms") == 1000 and played.ms(0, "real_time_factor") == 0.2


@pytest.mark.sockets
async def test_the_reader_of_a_run_learns_of_it(tmp_path: Path) -> None:
    (tmp_path / "repeats.yaml").write_text(BEHAVIOUR)
    (tmp_path / "s.yaml").write_text("version: 1\nname: s\nturns:\n" + "  - {audio: a.wav}\n" * 3)
    audio.write_flac(tmp_path / "a.wav", tone(200), RATE_HZ)
    async with serve(load_metronome(tmp_path / "repeats.yaml")) as server:
        ran = await run(
            "measure", server.url, *CALM, "--script", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "r")
        )
    assert ran.code == 0, ran.err
    assert "Remarks: 2 repeats what was sent." in ran.out
    assert f"unavailable: {REPEATED} (2)" in " ".join(ran.out.split())
    with (tmp_path / "r/turns.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["flags"] for row in rows] == ["", GROWN, TWICE]
    assert rows[0]["real_time_factor"] and [row["real_time_factor"] for row in rows[1:]] == ["", ""]
    summary = json.loads((tmp_path / "r/summary.json").read_text())
    assert summary["headline"]["measures"]["real_time_factor"]["unavailable"] == {REPEATED: 2}
