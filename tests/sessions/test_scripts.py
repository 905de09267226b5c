"""Session scripts: the format, its mistakes to the line, the shipped dialogues, the commands, the tool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.cli.scripts import scripts as scripts_command
from sessions import audio, scripts
from sessions.errors import BadAudio, BadFile, SetupError
from sessions.speech_end import ANNOTATION, ENERGY_1, RANGE_DB, block_edges, block_powers, energy_1

THREE = ("facts", "small-talk", "trip-planning")
SHIPPED = (
    "backchannel",
    "barge-in",
    "cold-and-warm",
    "facts",
    "five-rounds",
    "language-switch",
    "long-reply",
    "long-utterance",
    "mid-sentence-pauses",
    "noise",
    "overlap",
    "read-back",
    "silence",
    "small-talk",
    "trip-planning",
)

GOOD = """\
version: 1
name: two-turns
description: Two beeps
language: en-GB
agent: Beep back.
turns:
  - audio: sound/one.wav
    text: Beep.
    speech_end_sample: 4000
    start:
      after: reply
      gap_ms: 500
  - audio: sound/two.flac
"""


def beep(rate_hz: int, speech_samples: int, samples: int) -> NDArray[np.float32]:
    wave = np.zeros(samples, dtype=np.float32)
    wave[:speech_samples] = 0.3 * np.cos(2 * np.pi * 1000 * np.arange(speech_samples) / rate_hz)
    return wave


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A script's folder: one.wav (8 kHz, 0.5 s of sound in 1 s), two.flac (24 kHz, likewise), and what is unusable."""
    (tmp_path / "sound").mkdir()
    soundfile.write(tmp_path / "sound" / "one.wav", beep(8000, 4000, 8000), 8000)
    soundfile.write(tmp_path / "sound" / "two.flac", beep(24_000, 12_000, 24_000), 24_000)
    soundfile.write(tmp_path / "sound" / "silent.wav", np.zeros(8000), 8000)
    (tmp_path / "sound" / "empty.wav").write_bytes(b"")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "script.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_script_is_read_with_its_audio(folder: Path) -> None:
    path = write(folder, GOOD)
    script = scripts.load_script(path)
    assert (script.name, script.description, script.language) == ("two-turns", "Two beeps", "en-GB")
    assert (script.instructions, script.path) == ("Beep back.", path)
    assert len(script.sha256) == 64
    one, two = script.turns
    assert (one.text, one.start) == ("Beep.", scripts.Start("reply", 500))
    assert (one.clip.rate_hz, len(one.clip.pcm)) == (24_000, 24_000)
    # Sample 4000 at 8 kHz ends at 4001/8000 s, which is where sample 12002 ends at 24 kHz.
    assert (one.speech_end.index_samples, one.speech_end.rate_hz, one.speech_end.method) == (12_002, 24_000, ANNOTATION)
    assert one.sha256 == audio.sha256(one.clip)
    assert (two.text, two.start, two.audio_path) == ("", scripts.Start("reply", 300), folder / "sound" / "two.flac")
    assert (two.speech_end.index_samples, two.speech_end.method) == (11_999, ENERGY_1)


def test_the_rate_of_the_clips_can_be_chosen(folder: Path) -> None:
    one, two = scripts.load_script(write(folder, GOOD), rate_hz=16_000).turns
    assert (len(one.clip.pcm), one.speech_end.index_samples) == (16_000, 8001)
    assert (len(two.clip.pcm), two.speech_end.index_samples) == (16_000, 7999)


def test_a_speech_end_past_the_rounded_length_gets_its_sample(folder: Path) -> None:
    """44.1 kHz to 24 kHz: 44 102 samples become round(24 001.09), their last one ends at ⌈24 001.09⌉."""
    soundfile.write(folder / "sound" / "one.wav", beep(44_100, 44_102, 44_102), 44_100)
    text = GOOD.replace("speech_end_sample: 4000", "speech_end_sample: 44101")
    turn = scripts.load_script(write(folder, text)).turns[0]
    assert turn.speech_end.index_samples == 24_001
    assert len(turn.clip.pcm) == 24_002
    assert turn.clip.notes[-1] == "1 sample of silence added"


def test_core_yaml_types_only(folder: Path) -> None:
    """`no` is Norwegian and a date is text: YAML 1.1 would read a boolean and a date."""
    text = GOOD.replace("en-GB", "no").replace("Two beeps", "2026-01-02").replace("Beep.", "12:30")
    script = scripts.load_script(write(folder, text))
    assert (script.language, script.description, script.turns[0].text) == ("no", "2026-01-02", "12:30")


# What is wrong: (what to replace in GOOD, by what, line, field, part of the problem, part of the mend)
MISTAKES: dict[str, tuple[str, str, int, str, str, str]] = {
    "syntax": ("description: Two", "description: [Two", 4, "", "not YAML", ""),
    "a tab": ("  - audio: sound/two", "\t- audio: sound/two", 13, "", "not YAML", ""),
    "two documents": ("turns:\n", "---\nturns:\n", 6, "", "not YAML", ""),
    "a tag": ("name: two-turns", "name: !python/object:os.system x", 2, "", "not YAML", ""),
    "typo": ("description:", "descripton:", 3, "descripton", "no such field", "Did you mean 'description'?"),
    "typo below": ("gap_ms: 500", "gap: 500", 12, "turns[0].start.gap", "no such field", "Did you mean 'gap_ms'?"),
    "foreign field": ("agent:", "zzz:", 5, "zzz", "no such field", "Known: version, name, turns"),
    "twice": ("agent: Beep", "name: Beep", 5, "name", "given twice (first in line 2)", "Keep one"),
    "twice below": ("    text: Beep.", "    audio: b.wav", 8, "turns[0].audio", "given twice (first in line 7)", ""),
    "no name": ("name: two-turns\n", "", 1, "name", "missing", "such as small-talk"),
    "no audio": ("  - audio: sound/two.flac", "  - text: hello", 13, "turns[1].audio", "missing", "path of an audio"),
    "no version": ("version: 1\n", "", 1, "version", "missing", "Known versions: 1"),
    "later version": ("version: 1", "version: 2", 1, "version", "version 2 of the format", "Known versions: 1"),
    "worded version": ("version: 1", "version: one", 1, "version", "a whole number", "Known versions: 1"),
    "bad name": ("two-turns", "Two Turns", 2, "name", "form", "small-talk"),
    "bad language": ("en-GB", "English!", 4, "language", "form", "pt-BR"),
    "number for text": ("Beep back.", "5", 5, "agent", "should be text, but is a whole number", ""),
    "list for text": ("text: Beep.", "text: [Beep]", 8, "turns[0].text", "should be text, but is a list", ""),
    "negative gap": ("gap_ms: 500", "gap_ms: -1", 12, "turns[0].start.gap_ms", ">= 0", "Whole milliseconds"),
    "hour's gap": ("gap_ms: 500", "gap_ms: 3600000", 12, "turns[0].start.gap_ms", "<= 600000", "Whole milliseconds"),
    "broken gap": ("gap_ms: 500", "gap_ms: 0.5", 12, "turns[0].start.gap_ms", "whole number", "Whole milliseconds"),
    "unknown start": ("after: reply", "after: lunch", 11, "turns[0].start.after", "'lunch' is not", "Known: reply"),
    "start no map": ("start:\n      after: reply\n      gap_ms: 500", "start: 3", 10, "turns[0].start", "fields", ""),
    "turn no map": ("audio: sound/two.flac", "sound/two.flac", 13, "turns[1]", "a set of fields, but is text", ""),
    "negative end": ("sample: 4000", "sample: -1", 9, "turns[0].speech_end_sample", ">= 0", "index of the last"),
    "end too late": ("sample: 4000", "sample: 8000", 9, "turns[0].speech_end_sample", "which has 8000 at 8000 Hz", ""),
    "absolute path": ("sound/two.flac", "/sound/two.flac", 13, "turns[1].audio", "not a path from the script", ""),
    "drive": ("sound/two.flac", "C:/two.flac", 13, "turns[1].audio", "not a path from the script", ""),
    "escaping": ("sound/two.flac", "sound/../../two.flac", 13, "turns[1].audio", "outside the script's folder", "Copy"),
    "missing": ("two.flac", "three.flac", 13, "turns[1].audio", "no such file", "Check the path"),
    "empty audio": ("two.flac", "empty.wav", 13, "turns[1].audio", "empty (0 bytes)", ""),
    "silent audio": ("two.flac", "silent.wav", 13, "turns[1].audio", "no speech in", "annotate speech_end_sample"),
    "a folder": ("sound/two.flac", "sound", 13, "turns[1].audio", "it is a folder", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_each_mistake_has_its_line_and_field(folder: Path, kind: str) -> None:
    old, new, line, field, problem, mend = MISTAKES[kind]
    assert GOOD.count(old) == 1
    path = write(folder, GOOD.replace(old, new))
    with pytest.raises(BadFile) as caught:
        scripts.load_script(path)
    error = caught.value
    assert (error.path, error.line, error.field) == (str(path), line, field)
    assert problem in error.problem
    assert mend in error.mend
    assert "\n" not in str(error)
    assert str(error).startswith(f"{path}:{line}: {field}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "the file is empty"),
        ("- a\n- list\n", "a set of fields, but is a list"),
        ("just words", "a set of fields, but is text"),
        ("version: 1\nname: x\nturns: []\n", "length >= 1"),
        ("version: 1\nname: x\nturns:\n", "a list, but is nothing"),
        ("version: 1\nname: x\nturns: &all [*all]\n", "a set of fields, but is a list"),
        ("? [a, b]\n: 1\n", "a field's name must be a word"),
        ("1: x\n", "a field's name must be a word"),
        ("version: !!int x\n", "cannot be read"),
        ("[" * 5000, "cannot be read"),
    ],
)
def test_files_of_another_shape(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(BadFile, match=re.escape(problem)):
        scripts.load_script(write(folder, text))


def test_text_that_is_not_utf_8_has_a_line(folder: Path) -> None:
    path = folder / "script.yaml"
    path.write_bytes(GOOD.encode().replace(b"Two beeps", b"Z\xfcrich"))
    with pytest.raises(BadFile, match=r"script\.yaml:3: this is not UTF-8 text"):
        scripts.load_script(path)


def test_a_link_that_leads_out_of_the_folder_is_an_escape(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "x.wav"
    soundfile.write(outside, beep(8000, 4000, 8000), 8000)
    (folder / "sound" / "link.wav").symlink_to(outside)
    with pytest.raises(BadFile, match="outside the script's folder"):
        scripts.load_script(write(folder, GOOD.replace("two.flac", "link.wav")))


def test_all_mistakes_are_found_at_once_in_line_order(folder: Path) -> None:
    text = GOOD.replace("two-turns", "Two Turns").replace("agent:", "agnet:").replace("gap_ms: 500", "gap_ms: x")
    text = text.replace("audio: sound/one.wav", "sound: one.wav").replace("two.flac", "none.flac")
    script, mistakes = scripts.examine(write(folder, text))
    assert script is None
    assert [(mistake.line, mistake.field) for mistake in mistakes] == [
        (2, "name"),
        (5, "agnet"),
        (7, "turns[0].sound"),
        (7, "turns[0].audio"),
        (12, "turns[0].start.gap_ms"),
        (13, "turns[1].audio"),
    ]
    with pytest.raises(BadFile, match="5 more: duologue scripts check"):
        scripts.load_script(folder / "script.yaml")


@given(
    st.fixed_dictionaries(
        {
            "version": st.just(1),
            "name": st.from_regex(r"[a-z0-9][a-z0-9._-]{0,9}", fullmatch=True),
            "turns": st.lists(
                st.fixed_dictionaries(
                    {"audio": st.from_regex(r"[ -~]{1,9}", fullmatch=True)},
                    optional={
                        "text": st.text(max_size=20),
                        "speech_end_sample": st.none() | st.integers(0, 10**9),
                        "start": st.fixed_dictionaries({}, optional={"gap_ms": st.integers(0, 600_000)}),
                    },
                ),
                min_size=1,
                max_size=3,
            ),
        },
        optional={"agent": st.text(max_size=30), "description": st.text(max_size=30)},
    )
)
def test_what_fits_the_schema_comes_back_from_yaml_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, data: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=False), encoding="utf-8")
    assert scripts.read_script_file(path) == msgspec.convert(data, scripts.ScriptFile)


@given(st.text(alphabet=st.sampled_from("ab:- \n[]{}&*!'\"#|>,?%@`\t1"), max_size=60))
def test_any_text_is_a_script_or_a_bad_file(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFile):
        scripts.read_script_file(path)


def test_unknown_names_list_the_known_ones_and_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        SetupError, match=r"unknown script 'small_talk'\. Did you mean 'small-talk'\? Known: backchannel, barge-in"
    ):
        scripts.load_script("small_talk")
    with pytest.raises(SetupError, match=r"there is no such file\. Shipped scripts: backchannel"):
        scripts.load_script(tmp_path / "mine.yaml")
    with pytest.raises(SetupError, match="it is a folder"):
        scripts.load_script(tmp_path)


def test_audio_files_make_a_script_of_one_turn_each(folder: Path) -> None:
    files = [folder / "sound" / "one.wav", folder / "sound" / "two.flac"]
    script = scripts.script_from_audio(files)
    assert (script.name, script.path, script.instructions) == ("one-and-1-more", None, "")
    assert [turn.audio_path for turn in script.turns] == files
    assert [turn.speech_end.method for turn in script.turns] == [ENERGY_1, ENERGY_1]
    assert [turn.speech_end.index_samples for turn in script.turns] == [11_999, 11_999]
    assert script.sha256 == scripts.script_from_audio([str(file) for file in files]).sha256
    assert script.sha256 != scripts.script_from_audio(files[:1]).sha256
    with pytest.raises(BadAudio, match=r"no speech in .*silent\.wav: cannot tell where it ends"):
        scripts.script_from_audio([folder / "sound" / "silent.wav"])
    with pytest.raises(SetupError, match="no audio file"):
        scripts.script_from_audio([])


def test_what_a_user_wants_on_day_one_is_shipped() -> None:
    assert tuple(scripts.library()) == SHIPPED


@pytest.mark.parametrize("name", THREE)
def test_the_dialogues_of_the_demo_are_short(name: str) -> None:
    turns = scripts.load_script(name).turns
    assert len(turns) == 3
    assert all(1.5 <= turn.speech_end.offset_ns / 1e9 <= 4 for turn in turns)
    assert all(turn.kind == "speech" and turn.start.after == "reply" for turn in turns)


@pytest.mark.parametrize("name", SHIPPED)
def test_each_shipped_dialogue_is_ready_to_be_spoken(name: str) -> None:
    script = scripts.load_script(name)
    assert script.name == name
    assert script.instructions
    assert script.description
    for turn in script.turns:
        assert turn.speech_end.method == ANNOTATION
        if turn.silence:
            continue
        assert turn.text or turn.kind == "noise"
        found = energy_1(turn.clip.pcm, turn.clip.rate_hz, name=name)
        assert abs(found.index_samples - turn.speech_end.index_samples) <= turn.clip.rate_hz * 30 // 1000
        # A server that finds the end itself hears the clip's own samples after it.
        assert len(turn.clip.pcm) - 1 - turn.speech_end.index_samples == pytest.approx(4800, abs=1)
        assert np.abs(turn.clip.pcm.astype(np.int32)).max() < 32_767
        assert turn.clip.notes == () or "16000" in turn.clip.notes[0]
        # The first audible sample comes with the first block of speech, 40 ms in.
        assert 900 <= turn.onset_sample <= 2400


def test_the_shipped_scripts_cover_every_kind_of_turn() -> None:
    turns = {name: scripts.load_script(name).turns for name in SHIPPED}
    kinds = {turn.kind for script in turns.values() for turn in script}
    assert kinds == {"speech", "interruption", "overlap", "backchannel", "noise", "silence"}
    pauses = [round(samples * 1000 / 24_000) for turn in turns["mid-sentence-pauses"] for _, samples in turn.pauses]
    assert pauses == [300, 500, 700, 1000, 1500, 2000]
    assert 55 <= turns["long-utterance"][0].clip.duration_s <= 65
    assert [turn.language for turn in turns["language-switch"]] == ["en", "es", "es", "en"]
    assert len({turn.sha256 for turn in turns["cold-and-warm"]}) == 1
    assert len(turns["five-rounds"]) == 5


@pytest.mark.parametrize("place", range(6))
def test_a_pause_is_quiet_from_the_last_speech_sample_to_the_next(place: int) -> None:
    """In the pause only decay and lead-in sound: 35 dB below the loudest block of the utterance."""
    turn = scripts.load_script("mid-sentence-pauses").turns[place]
    ((first, samples),) = turn.pauses
    levels = block_powers(turn.clip.pcm, block_edges(len(turn.clip.pcm), 24_000))
    threshold = levels.max() * 10 ** (-RANGE_DB / 10)
    within = levels[-(-first // 120) : (first + samples) // 120]
    assert (within < threshold).all()
    # Each piece has a loudest block of its own, so its edges may lie a little lower.
    assert levels[(first - 1) // 120] >= threshold / 2
    assert levels[(first + samples) // 120 : (first + samples) // 120 + 2].max() >= threshold / 2


def test_the_shipped_audio_is_small() -> None:
    folder = next(iter(scripts.library().values())).parent
    assert sum(file.stat().st_size for file in folder.rglob("*.flac")) < 6_000_000


def test_the_shipped_json_schema_is_current() -> None:
    file = next(iter(scripts.library().values())).with_name("script.schema.json")
    assert json.loads(file.read_text(encoding="utf-8")) == scripts.json_schema(), (
        "run: duologue scripts schema > sessions/library/script.schema.json"
    )


DUPLEX = """\
version: 1
name: duplex
turns:
  - audio: sound/one.wav
    speech_end_sample: 4000
    keywords: [one, two]
  - audio: sound/two.flac
    kind: backchannel
    start: {after: onset, gap_ms: 800, timeout_s: 12}
    watch_ms: 1500
  - parts:
      - audio: sound/one.wav
        speech_end_sample: 3999
      - pause_ms: 700
      - audio: sound/two.flac
    kind: interruption
    start: {after: onset, gap_ms: 2500}
    language: es
  - silence_ms: 5000
    start: {after: speech, gap_ms: 0}
  - audio: sound/two.flac
    kind: noise
    start: {at_ms: 60000}
  - audio: sound/two.flac
    start: {at_ms: 70000}
"""


def test_a_script_in_full_duplex_is_read(folder: Path) -> None:
    script = scripts.load_script(write(folder, DUPLEX))
    speech, backchannel, interruption, silence, noise, late = script.turns
    assert [turn.kind for turn in script.turns] == [
        "speech", "backchannel", "interruption", "silence", "noise", "speech",
    ]  # fmt: skip
    assert [turn.expects_reply for turn in script.turns] == [True, False, True, False, False, True]
    assert (speech.keywords, speech.language, interruption.language) == (("one", "two"), "en", "es")
    assert (backchannel.start, backchannel.watch_ms) == (scripts.Start("onset", 800, None, 12.0), 1500)
    assert (noise.start, late.start) == (scripts.Start("at", 0, 60_000), scripts.Start("at", 0, 70_000))
    # 0.5 s of tone, 0.7 s of pause, 0.5 s of tone, and the tail of the last file.
    assert interruption.pauses == ((12_000, 16_800),)
    assert (interruption.speech_end.index_samples, len(interruption.clip.pcm)) == (40_799, 52_800)
    assert np.abs(interruption.clip.pcm[12_240:28_560]).max() <= 32
    assert (silence.silence, silence.clip.duration_s, silence.audio_path) == (True, 5.0, None)
    assert (silence.speech_end.index_samples, silence.speech_end.offset_ns) == (-1, 0)
    assert not silence.clip.pcm.any()
    assert (speech.onset_sample, interruption.onset_sample) == (0, 0)


def test_parts_sound_at_once_where_there_is_no_pause_and_add_up_where_there_are_two(folder: Path) -> None:
    text = "version: 1\nname: x\nturns:\n  - parts:\n"
    one, pause = "      - audio: sound/two.flac\n", "      - pause_ms: 250\n"
    none = scripts.load_script(write(folder, text + one + one)).turns[0]
    assert (none.pauses, none.speech_end.index_samples) == ((), 23_999)
    two = scripts.load_script(write(folder, text + one + pause + pause + one)).turns[0]
    assert (two.pauses, two.speech_end.index_samples) == (((12_000, 12_000),), 35_999)


# What is wrong: (what to replace in DUPLEX, by what, line, field, part of the problem, part of the mend)
DUPLEX_MISTAKES: dict[str, tuple[str, str, int, str, str, str]] = {
    "two sounds": ("    watch_ms: 1500", "    say: Hello", 10, "turns[1].say", "given beside audio", "one of audio"),
    "no sound": ("  - silence_ms: 5000\n    start", "  - start", 19, "turns[3].audio", "missing", "one of audio, say"),
    "kind": ("kind: noise", "kind: cough", 22, "turns[4].kind", "'cough' is not", "Known: speech, interruption"),
    "after": ("{after: speech", "{after: lunch", 20, "turns[3].start.after", "'lunch'", "Known: reply, onset, speech"),
    "at and after": ("{at_ms: 60000}", "{at_ms: 60000, after: reply}",
        23, "turns[4].start.after", "beside at_ms", "alone"),
    "at and gap": ("{at_ms: 60000}", "{at_ms: 60000, gap_ms: 1}", 23, "turns[4].start.gap_ms", "beside at_ms", "alone"),
    "at too early": ("{at_ms: 70000}", "{at_ms: 60000}",
        25, "turns[5].start.at_ms", "never fire: 60000 ms is not", "order"),
    "onset first": ("    keywords: [one, two]", "    start: {after: onset}",
        6, "turns[0].start.after", "nothing was said", ""),
    "speech first": ("    keywords: [one, two]", "    start: {after: speech}",
        6, "turns[0].start.after", "never fire", ""),
    "onset of nothing": ("    keywords: [one, two]", "    kind: noise",
        9, "turns[1].start.after", "no turn before it", ""),
    "late interruption": ("start: {after: onset, gap_ms: 2500}", "start: {after: reply}",
        17, "turns[2].start.after", "over nothing", "onset"),
    "plain interruption": ("    start: {after: onset, gap_ms: 2500}\n", "",
        16, "turns[2].kind", "talks over nothing", "after: onset"),
    "silent kind": ("kind: noise", "kind: silence", 22, "turns[4].kind", "without its length", "silence_ms"),
    "spoken silence": ("5000\n", "5000\n    kind: speech\n", 20, "turns[3].kind", "silence_ms is no speech", "Leave"),
    "watch": ("    language: es", "    watch_ms: 1", 18, "turns[2].watch_ms", "waits for its reply", "backchannel"),
    "voice": ("    language: es", "    voice: michael", 18, "turns[2].voice", "nothing here is to be spoken", "say"),
    "part's voice": ("speech_end_sample: 3999", "voice: x", 13, "turns[2].parts[0].voice", "nothing here", "say"),
    "end of parts": ("    language: es", "    speech_end_sample: 1",
        18, "turns[2].speech_end_sample", "of a file", "audio"),
    "pause first": ("      - audio: sound/one.wav\n        speech_end_sample: 3999\n", "",
        12, "turns[2].parts[0].pause_ms", "edge", ""),
    "two in a part": ("pause_ms: 700", "pause_ms: 700\n        say: x",
        14, "turns[2].parts[1].pause_ms", "given beside say", "A part"),
    "empty part": ("      - pause_ms: 700", "      - text: x",
        14, "turns[2].parts[1].audio", "missing", "A part has one of"),
    "long pause": ("pause_ms: 700", "pause_ms: 70000", 14, "turns[2].parts[1].pause_ms", "<= 60000", "1 to 60000"),
    "part's file": ("      - audio: sound/two.flac", "      - audio: x.flac",
        15, "turns[2].parts[2].audio", "no such file", ""),
    "part's end": ("3999", "9999", 13, "turns[2].parts[0].speech_end_sample", "sample 9999 is not in", ""),
    "part's field": ("pause_ms: 700", "pause: 700", 14, "turns[2].parts[1].pause", "no such field", "'pause_ms'"),
    "keyword": ("[one, two]", "[one, 2]", 6, "turns[0].keywords[1]", "should be text", "A list of words"),
    "no timeout": ("timeout_s: 12", "timeout_s: 0", 9, "turns[1].start.timeout_s", "> 0", "more than 0"),
    "worded timeout": ("timeout_s: 12", "timeout_s: x", 9, "turns[1].start.timeout_s", "a number", "more than 0"),
    "endless silence": ("silence_ms: 5000", "silence_ms: 0", 19, "turns[3].silence_ms", ">= 1", "1 to 600000"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DUPLEX_MISTAKES)
def test_each_mistake_of_a_duplex_script_has_its_line_and_field(folder: Path, kind: str) -> None:
    old, new, line, field, problem, mend = DUPLEX_MISTAKES[kind]
    assert DUPLEX.count(old) == 1
    path = write(folder, DUPLEX.replace(old, new))
    file, mistakes = scripts.check_script(path)
    assert file is None
    found = next(mistake for mistake in mistakes if (mistake.line, mistake.field) == (line, field))
    assert problem in found.problem
    assert mend in found.mend
    if kind not in ("onset of nothing", "part's field"):  # one mistake there makes two
        assert len(mistakes) == 1


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ("{after: onset, gap_ms: 500}", "{after: onset, gap_ms: 1400}", "gap_ms"),
        ("{at_ms: 20000}", "{at_ms: 20900}", "at_ms"),
    ],
)
def test_the_user_says_one_thing_at_a_time(folder: Path, first: str, second: str, field: str) -> None:
    """two.flac lasts one second: what comes 900 ms after its start would talk over it."""
    text = (
        "version: 1\nname: x\nturns:\n  - audio: sound/one.wav\n    speech_end_sample: 4000\n"
        f"  - audio: sound/two.flac\n    kind: backchannel\n    start: {first}\n"
        f"  - audio: sound/two.flac\n    kind: backchannel\n    start: {second}\n"
    )
    with pytest.raises(BadFile) as caught:
        scripts.load_script(write(folder, text))
    assert (caught.value.line, caught.value.field) == (11, f"turns[2].start.{field}")
    assert "this one would start" in caught.value.problem
    later = second.replace("1400", "1500").replace("20900", "21000")
    assert len(scripts.load_script(write(folder, text.replace(second, later))).turns) == 3


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(scripts_command, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_list_and_show() -> None:
    code, output = run("list")
    assert code == 0
    assert [line.split()[0] for line in output.splitlines()] == list(SHIPPED)
    code, output = run("list", "--json")
    assert {row["name"]: row["turns"] for row in json.loads(output)}["five-rounds"] == 5
    code, output = run("show", "facts")
    assert code == 0
    assert "What is the capital city of France?" in output
    assert "starts 300 ms after the session is ready" in output
    code, output = run("show", "facts", "--json")
    shown = json.loads(output)
    assert shown["turns"][0]["speech_end_method"] == "annotation"
    assert shown["turns"][0]["start"] == {"after": "reply", "gap_ms": 300, "at_ms": None, "timeout_s": 30.0}


def test_check_names_line_and_field_and_exits_with_2(folder: Path) -> None:
    path = write(folder, GOOD)
    assert run("check", path) == (0, f"{path}: good (2 turns)\n")
    write(folder, GOOD.replace("gap_ms", "gap").replace("two.flac", "three.flac"))
    code, output = run("check", path)
    assert code == 2
    lines = output.splitlines()
    assert lines[0].startswith(f"{path}:12: turns[0].start.gap: there is no such field")
    assert lines[1].startswith(f"{path}:13: turns[1].audio: cannot use")
    code, output = run("check", "--json", path, scripts.library()["facts"])
    assert code == 2
    bad, good = json.loads(output)
    assert (bad["ok"], good["ok"], good["mistakes"]) == (False, True, [])
    assert (bad["mistakes"][0]["line"], bad["mistakes"][0]["field"]) == (12, "turns[0].start.gap")


def test_check_of_a_missing_file_is_a_mistake_of_it(tmp_path: Path) -> None:
    code, output = run("check", tmp_path / "none.yaml")
    assert code == 2
    assert "none.yaml: cannot be read: No such file or directory" in output


@pytest.mark.parametrize("command", ["list", "show", "check", "schema"])
def test_help_teaches_with_an_example(command: str) -> None:
    code, output = run(command, "--help")
    assert code == 0
    assert f"duologue scripts {command}" in output
    assert len(output.splitlines()) < 24


def test_schema_prints_the_shipped_one() -> None:
    code, output = run("schema")
    assert code == 0
    assert json.loads(output) == scripts.json_schema()
