"""Perturbations of the user lane: what each does, that none delays, that a seed tells all."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.cli.measure import measure
from harness.cli.perturb_option import perturb_scripts
from harness.report.html.plan_section import command_line
from harness.report.summary import summarise_run
from harness.report.table import condition_lines
from harness.runs.planning import Ask, make_plan
from sessions import audio
from sessions.audio import Clip
from sessions.errors import SetupError
from sessions.perturb import parse, perturbed, ulaw
from sessions.perturb.effects import DIRECT_TO_REVERBERANT_DB, KINDS
from sessions.perturb.script import Effect, perturbed_clip
from sessions.scripts import Script, load_script
from sessions.secrets import Secrets
from sessions.speech_end import SpeechEnd, block_edges, block_powers
from tests.support.run_samples import FLOOR, plan

ALL = "noise@10dB,reverb,mulaw8k,loss2%,clip"


@cache
def facts() -> Script:
    return load_script("facts")


def active(clip: Clip) -> NDArray[np.bool_]:
    """(samples,) where a clip has speech: 5 ms blocks within 35 dB of the loudest."""
    edges = block_edges(len(clip.pcm), clip.rate_hz)
    powers = block_powers(clip.pcm, edges)
    return np.repeat(powers >= powers.max() * 10**-3.5, np.diff(edges))


def peak_lag(a: NDArray[np.int16], b: NDArray[np.int16], *, whiten: bool = False) -> int:
    """Where a lies in b: the lag of the largest cross-correlation, in samples; whiten: of the response from a to b."""
    size = 2 * len(a)
    spectrum = np.fft.rfft(a.astype(float), size)
    product = np.fft.rfft(b.astype(float), size) * np.conj(spectrum)
    if whiten:
        power = np.square(np.abs(spectrum))
        product /= power + 1e-3 * power.mean()
    lag = int(np.argmax(np.fft.irfft(product, size)))
    return lag if lag < len(a) else lag - size


@cache
def hiss() -> Script:
    """A turn of white noise in syllables: the sharpest correlation that a clip can have."""
    rng = np.random.default_rng(3)
    envelope = np.maximum(0, np.sin(2 * np.pi * 3 * np.arange(36_000) / 24_000))
    pcm = np.pad(audio.to_pcm16(0.1 * rng.standard_normal(36_000) * envelope), (960, 4800))
    turn = replace(facts().turns[0], clip=Clip(pcm, 24_000), speech_end=SpeechEnd(36_959, 24_000, "annotation"))
    return replace(facts(), turns=(turn,))


EFFECTS = {
    "noise": st.floats(0, 40),
    "reverb": st.floats(0.1, 2),
    "mulaw8k": st.just(0.0),
    "loss": st.floats(0, 20),
    "clip": st.floats(0, 20),
}


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(sorted(EFFECTS)).flatmap(lambda kind: st.tuples(st.just(kind), EFFECTS[kind])),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 2**31),
)
def test_no_effect_moves_the_sound_or_its_length(wanted: list[tuple[str, float]], seed: int) -> None:
    effects = tuple(Effect(kind, amount) for kind, amount in wanted)
    before, after = hiss().turns[0], perturbed(hiss(), effects, seed).turns[0]
    assert len(after.clip.pcm) == len(before.clip.pcm)
    assert peak_lag(before.clip.pcm, after.clip.pcm) == 0
    assert after.speech_end == before.speech_end
    assert (after.onset_sample, after.pauses) == (before.onset_sample, before.pauses)
    assert after.sha256 == audio.sha256(after.clip)


@pytest.mark.parametrize("words", ["noise@10dB", "reverb", "reverb@1s", "mulaw8k", "loss5%", "clip", ALL])
@pytest.mark.parametrize("turn", range(3))
def test_speech_is_not_delayed(words: str, turn: int) -> None:
    """Of speech itself the correlation is as broad as its vowels; the response from clean to perturbed is sharp."""
    before = facts().turns[turn].clip.pcm
    after = perturbed(facts(), parse(words), 1).turns[turn].clip.pcm
    assert peak_lag(before, after, whiten=True) == 0


@pytest.mark.parametrize("snr_db", [-5.0, 0.0, 10.0, 20.0])
def test_noise_has_its_level_below_active_speech(snr_db: float) -> None:
    clip = facts().turns[0].clip
    noisy = perturbed_clip(clip, (Effect("noise", snr_db),), (1, 0))
    here = active(clip)
    speech, noise = (np.square(x[here].astype(float)).mean() for x in (clip.pcm, noisy.pcm - clip.pcm.astype(float)))
    assert 10 * np.log10(speech / noise) == pytest.approx(snr_db, abs=0.02)
    # It sounds before and after the speech too, as a room does.
    assert np.square(noisy.pcm[-2400:].astype(float)).mean() > noise / 4


def test_a_room_begins_with_the_direct_sound_and_keeps_the_level() -> None:
    pcm = np.zeros(24_000, dtype=np.int16)
    pcm[2400:2520] = 8000
    clip = Clip(pcm, 24_000)
    wet = perturbed_clip(clip, (Effect("reverb", 0.4),), (1, 0)).pcm.astype(float)
    assert not wet[:2400].any()
    direct = wet[2400:2472]
    assert np.allclose(direct, direct[0], atol=1), "within 3 ms nothing but the direct sound"
    one = np.zeros(48_000, dtype=np.int16)
    one[100] = 20_000
    heard = perturbed_clip(Clip(one, 24_000), (Effect("reverb", 0.4),), (1, 0)).pcm.astype(float)
    tail = np.square(heard[101:]).sum()
    assert 10 * np.log10(np.square(heard[100]) / tail) == pytest.approx(DIRECT_TO_REVERBERANT_DB, abs=0.1)
    early, late = (np.square(heard[100 + first : 100 + first + 2400]).mean() for first in (100, 4900))
    assert 10 * np.log10(early / late) == pytest.approx(30, abs=2), "60 dB in 0.4 s"


def test_mu_law_is_that_of_g_711() -> None:
    assert ulaw.encode(np.array([0, 32767, -32768, -1], dtype=np.int16)).tolist() == [0xFF, 0x80, 0x00, 0x7F]
    assert ulaw.decode(np.array([0xFF, 0x80, 0x00, 0x7F], dtype=np.uint8)).tolist() == [0, 32124, -32124, 0]
    codes = np.arange(256, dtype=np.uint8)
    values = ulaw.decode(codes)
    # All codes but one of the two zeros come back, and every sample gets one of the two values around it.
    assert (ulaw.encode(values) == codes).sum() == 255
    samples = np.arange(-32_124, 32_125, dtype=np.int16)
    found = ulaw.decode(ulaw.encode(samples)).astype(int)
    steps = np.unique(values.astype(int))
    widest = np.diff(steps)[
        np.searchsorted(steps, np.minimum(samples, found), side="right").clip(1, len(steps) - 1) - 1
    ]
    assert (np.abs(found - samples) <= widest).all()
    assert np.abs(found - samples).max() <= 512


def test_a_telephone_takes_what_lies_above_4_khz() -> None:
    t = np.arange(24_000) / 24_000
    both = (8000 * (np.sin(2 * np.pi * 1000 * t) + np.sin(2 * np.pi * 6000 * t))).astype(np.int16)
    heard = perturbed_clip(Clip(both, 24_000), (Effect("mulaw8k", 0),), (1, 0)).pcm.astype(float)
    spectrum = np.abs(np.fft.rfft(heard))
    assert 20 * np.log10(spectrum[1000] / spectrum[6000]) > 60
    assert spectrum[1000] / 12_000 == pytest.approx(8000, rel=0.02)


def test_lost_packets_are_whole_and_as_many_as_chance_has_it() -> None:
    pcm = np.full(24_000 * 60, 1000, dtype=np.int16)
    heard = perturbed_clip(Clip(pcm, 24_000), (Effect("loss", 2.0),), (5, 0)).pcm.reshape(-1, 480)
    assert set(heard.sum(axis=1).tolist()) == {0, 480_000}
    assert 30 <= (heard == 0).all(axis=1).sum() <= 90  # 60 expected


def test_clipping_cuts_the_peak_off() -> None:
    clip = facts().turns[0].clip
    heard = perturbed_clip(clip, (Effect("clip", 6.0),), (1, 0)).pcm.astype(float)
    peak = np.abs(clip.pcm.astype(float)).max()
    expected = np.clip(clip.pcm * (32768 / peak * 10**0.3), -32768, 32767)
    assert np.abs(heard - expected).max() <= 1
    assert (np.abs(heard) >= 32767).sum() > 10


def test_a_seed_tells_all() -> None:
    script = facts()
    one, same, other = (perturbed(script, parse(ALL), seed) for seed in (1, 1, 2))
    assert [turn.sha256 for turn in one.turns] == [turn.sha256 for turn in same.turns]
    assert not {turn.sha256 for turn in one.turns} & {turn.sha256 for turn in other.turns}
    assert len({script.sha256, one.sha256, other.sha256}) == 3
    assert (one.perturb, one.perturb_seed) == ("noise@10dB,reverb@0.4s,mulaw8k,loss2%,clip@6dB", 1)
    assert one.turns[0].clip.notes == (f"perturbed: {one.perturb}",)
    assert parse(one.perturb) == parse(ALL)
    assert perturbed(script, (), 1) is script


def test_a_silence_stays_silent_and_noise_is_new_in_each_turn() -> None:
    script = perturbed(load_script("silence"), parse("noise@0dB"), 1)
    assert not script.turns[1].clip.pcm.any()
    again = perturbed(load_script("cold-and-warm"), parse("noise@0dB"), 1)
    assert len({turn.sha256 for turn in again.turns}) == len(again.turns)


def test_a_clip_that_is_lost_whole_goes_on_as_silence() -> None:
    clip = Clip(np.full(480, 1000, dtype=np.int16), 24_000)
    effects = (Effect("loss", 90.0), *parse("noise,reverb,mulaw8k,clip"))
    lost = [perturbed_clip(clip, effects, (seed, 0)) for seed in range(20)]
    assert any(not one.pcm.any() for one in lost)
    assert all(len(one.pcm) == 480 for one in lost)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nois@10dB", "there is no such effect. Did you mean 'noise'? Known: noise, reverb, mulaw8k, loss, clip"),
        ("", "there is no such effect"),
        ("noise,,clip", "there is no such effect"),
        ("noise@10s", "noise takes an amount in dB, or none"),
        ("mulaw8k@3dB", "mulaw8k takes no amount"),
        ("loss2", "loss takes an amount in %, or none"),
        ("loss100%", "the amount must be 0 to 90 %"),
        ("noise@1.2.3dB", "1.2.3 is not a number"),
        ("reverb@0s", "the amount must be 0.05 to 5 s"),
    ],
)
def test_words_that_name_no_effect_are_one_line(words: str, message: str) -> None:
    with pytest.raises(SetupError) as caught:
        parse(words)
    assert message in str(caught.value)
    assert "For example: noise@10dB,reverb,mulaw8k,loss2%,clip" in str(caught.value)


def test_the_plan_names_what_was_done_and_says_how_to_do_it_again() -> None:
    asked = perturb_scripts([facts()], "noise@10dB,loss2%", 3)
    plan = make_plan(Ask("ws://127.0.0.1:1", asked), Secrets(), {})
    [script] = plan.scripts
    assert (script.perturb, script.perturb_seed) == ("noise@10dB,loss2%", 3)
    assert [turn.audio for turn in script.turns] == [turn.sha256 for turn in asked[0].turns]
    assert [turn.last_sample for turn in script.turns] == [turn.speech_end.index_samples for turn in facts().turns]
    assert "--script facts --perturb noise@10dB,loss2% --perturb-seed 3" in " ".join(
        command_line(plan).replace("\\", "").split()
    )
    assert perturb_scripts([facts()], "", 3) == [facts()]
    plain = make_plan(Ask("ws://127.0.0.1:1", [facts()]), Secrets(), {})
    assert (plain.scripts[0].perturb, plain.scripts[0].sha256) == ("", facts().sha256)
    assert "--perturb" not in command_line(plain)


def test_the_command_names_an_effect_that_is_not_known(tmp_path: Path) -> None:
    arguments = ["ws://127.0.0.1:9", "--script", "facts", "--perturb", "fog", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(measure, arguments, obj=Secrets())
    assert isinstance(result.exception, SetupError)
    assert "there is no such effect" in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_every_kind_is_told_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text(encoding="utf-8")
    assert all(f"`{kind}" in text for kind in KINDS)


def test_the_table_says_that_the_sound_was_perturbed() -> None:
    plain = plan()
    script = msgspec.structs.replace(plain.scripts[0], perturb="noise@10dB", perturb_seed=3)
    told = [
        list(condition_lines(summarise_run(one, [], FLOOR)))
        for one in (plain, msgspec.structs.replace(plain, scripts=[script]))
    ]
    assert "The user's sounds were perturbed: noise@10dB (seed 3)." in told[1]
    assert not any("perturbed" in line for line in told[0])
