"""Speak the shipped scripts: the tool that made the audio in `sessions/library/`.

    python -m tools.speak_scripts                 speak every script that has a text, write FLAC and speech ends
    python -m tools.speak_scripts facts           only this one
    python -m tools.speak_scripts --check         speak again and compare, write nothing
    python -m tools.speak_scripts --listen        let Whisper base write down what it hears, print the word error rate

The voice is Kokoro's `am_michael`, male, unlike the assistant's, on hibari's phonemes (servers/engines/kokoro.py); what
is not English has its phonemes written here, by hand. Turns of kind noise come from tools/noises.py. Each sound is cut
to what is spoken and set to -23 dBFS, with a last speech sample that is known (harness/spoken/level.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
import numpy as np

from harness.spoken.level import Spoken, cut
from servers.engines.kokoro import RATE_HZ, KokoroEngine
from sessions import audio, scripts, yaml_schema
from sessions.errors import SetupError
from tools import noises

WORST_WORD_ERROR_RATE = 0.10
LONG_RATE_HZ: Final = 16_000
"""Of sounds longer than `LONG_S`: loading resamples them, and the repository stays small."""
LONG_S: Final = 30
# Kokoro's alphabet is IPA, but for English diphthongs.
PHONEMES: Final = MappingProxyType(
    {
        "¿Cuál es la capital de Portugal?": "kwˈal ˈes la kapitˈal ðe poɾtuɣˈal?",
        "Gracias. ¿Y cuántos días tiene una semana?": "ɡɾˈasjas. i kwˈantos ðˈias tjˈene ˈuna semˈana?",
    }
)
WRITTEN: Final = MappingProxyType(
    {
        "four one five, five five five, zero one three two": "415 555 0132",
        "one hundred and twenty three dollars and forty five cents": "$123.45",
        "seventeenth": "17th",
        "thirty": "30",
        "ten ": "10 ",
        "All right": "Alright",
    }
)
"""What is said → as Whisper writes it down."""


@dataclass(frozen=True, slots=True)
class Sound:
    """One audio file of a script. keys: of what names it in the YAML · text: what is said, "" for a noise."""

    keys: tuple[yaml_schema.Key, ...]
    audio: str
    text: str
    end_sample: int | None
    language: str


def sounds(file: scripts.ScriptFile) -> Iterator[Sound]:
    """Every audio file that the script names, in order. Raises `SetupError` where one has neither text nor recipe."""
    for index, turn in enumerate(file.turns):
        language = turn.language or file.language
        if turn.audio is not None:
            yield Sound(("turns", index), turn.audio, turn.text, turn.speech_end_sample, language)
        for number, part in enumerate(turn.parts):
            if part.audio is not None:
                keys = ("turns", index, "parts", number)
                yield Sound(keys, part.audio, part.text, part.speech_end_sample, language)


def make(sound: Sound, engine: KokoroEngine) -> Spoken:
    """Speak it, or make the noise that its file is named after."""
    if sound.text:
        phonemes = PHONEMES.get(sound.text)
        if phonemes is None and sound.language != "en":
            raise SetupError(f"no phonemes for {sound.text!r}", "Write them into tools/speak_scripts.py")
        return cut(engine.speak(sound.text) if phonemes is None else engine.say(phonemes), RATE_HZ)
    name = Path(sound.audio).stem.partition("-")[0]
    if name not in noises.NOISES:
        where = yaml_schema.field_name(sound.keys)
        raise SetupError(f"{where} has no text to speak", f"Write it, or name its file after {list(noises.NOISES)}")
    return cut(noises.make(name), RATE_HZ)


def as_shipped(said: Spoken) -> tuple[audio.Pcm, int, int]:
    """Samples, rate and last speech sample of the file that holds `said`."""
    if len(said.pcm) <= LONG_S * RATE_HZ:
        return said.pcm, RATE_HZ, said.end_sample
    end = audio.source_index_to_out(said.end_sample, RATE_HZ, LONG_RATE_HZ)
    return audio.resample(said.pcm, RATE_HZ, LONG_RATE_HZ), LONG_RATE_HZ, end


def annotate(document: yaml_schema.Document, text: str, ends: list[tuple[tuple[yaml_schema.Key, ...], int]]) -> str:
    """The YAML `text` with `speech_end_sample` set where the keys lead to; all else, comments too, stays as it is."""
    lines = text.splitlines(keepends=True)
    for keys, end_sample in reversed(ends):
        data = document.data
        for key in keys:
            data = data[key]
        known = "speech_end_sample" in data
        at = document.line((*keys, "speech_end_sample" if known else "audio")) - 1
        new = f"speech_end_sample: {end_sample}"
        if known:
            lines[at] = re.sub(r"speech_end_sample:\s*\d+", new, lines[at])
        else:
            indent = re.match(r"[\s-]*", lines[at])
            lines.insert(at + 1, " " * (indent.end() if indent else 0) + new + "\n")
    return "".join(lines)


def write_script(path: Path, made: list[tuple[Sound, Spoken]]) -> None:
    """The audio files of a script, then its annotations."""
    ends = []
    for sound, said in made:
        file = path.parent / sound.audio
        file.parent.mkdir(parents=True, exist_ok=True)
        pcm, rate_hz, end_sample = as_shipped(said)
        audio.write_flac(file, pcm, rate_hz)
        ends.append((sound.keys, end_sample))
    text = path.read_text(encoding="utf-8")
    path.write_text(annotate(yaml_schema.parse(path), text, ends), encoding="utf-8")


def differences(path: Path, made: list[tuple[Sound, Spoken]]) -> list[str]:
    """What the shipped script holds otherwise than was made now, one line each."""
    found = []
    for sound, said in made:
        pcm, _, end_sample = as_shipped(said)
        where = f"{path}: {yaml_schema.field_name(sound.keys)}"
        if not np.array_equal(audio.to_pcm16(audio.read(path.parent / sound.audio).samples), pcm):
            found.append(f"{where}.audio: other samples than the shipped file's")
        if sound.end_sample != end_sample:
            found.append(f"{where}.speech_end_sample: {end_sample} is what was spoken now")
    return found


def word_error_rate(path: Path, whisper: Any) -> tuple[float, list[str]]:
    """WER of Whisper's transcripts of a script against its texts, and the transcripts. 0 where nothing is said."""
    import jiwer

    said, heard = [], []
    for turn in scripts.load_script(path, rate_hz=16_000).turns:
        # Whisper was not made for what is no word: it writes a backchannel down as it likes.
        if turn.text and turn.kind not in ("backchannel", "noise", "silence"):
            segments, _ = whisper.transcribe(audio.to_float(turn.clip.pcm), language=turn.language, beam_size=1)
            heard.append(" ".join(segment.text.strip() for segment in segments))
            said.append(turn.text)
    return float(jiwer.wer([_plain(text) for text in said], [_plain(text) for text in heard])), heard


def _plain(text: str) -> str:
    for said, written in WRITTEN.items():
        text = text.replace(said, written)
    return re.sub(r"[^\w' ]", "", text.replace("-", " ")).lower()


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.argument("names", nargs=-1)
@click.option("--check", is_flag=True, help="Speak again and compare with the shipped audio; write nothing.")
@click.option("--listen", is_flag=True, help="Transcribe the shipped audio with Whisper base; speak nothing.")
def main(names: tuple[str, ...], check: bool, listen: bool) -> None:
    """Speak, check or listen to the scripts NAMES (default: all shipped ones)."""
    paths = [scripts.find_script(name) for name in names] or list(scripts.library().values())
    try:
        wrong = _listen(paths) if listen else _speak(paths, write=not check)
    except SetupError as error:
        raise click.ClickException(str(error)) from error
    if wrong:
        raise click.ClickException("\n".join(wrong))


def load_engine() -> KokoroEngine:
    """Kokoro with the scripts' voice. Raises `MissingWeights`."""
    from sessions import weights

    model = weights.folder("kokoro-v1.0-int8") / "kokoro-v1.0.int8.onnx"
    return KokoroEngine(model, weights.folder("kokoro-voices") / "am_michael.bin")


def _speak(paths: list[Path], *, write: bool) -> list[str]:
    engine = load_engine()
    wrong: list[str] = []
    for path in paths:
        made = [(sound, make(sound, engine)) for sound in sounds(scripts.read_script_file(path))]
        if write:
            write_script(path, made)
            made = [
                (sound, said) for sound, (_, said) in zip(sounds(scripts.read_script_file(path)), made, strict=True)
            ]
        wrong += differences(path, made)
        lengths = ", ".join(f"{len(said.pcm) / RATE_HZ:.2f} s" for _, said in made)
        click.echo(f"{path.stem}: {lengths}")
    return wrong


def _listen(paths: list[Path]) -> list[str]:
    from faster_whisper import WhisperModel

    from sessions import weights

    whisper = WhisperModel(str(weights.folder("whisper-base")), device="cpu", compute_type="int8", cpu_threads=1)
    wrong = []
    for path in paths:
        rate, heard = word_error_rate(path, whisper)
        click.echo(f"{path.stem}: word error rate {100 * rate:.1f} %\n  " + "\n  ".join(heard))
        if rate > WORST_WORD_ERROR_RATE:
            wrong.append(f"{path}: word error rate {100 * rate:.1f} % is above {100 * WORST_WORD_ERROR_RATE:.0f} %")
    return wrong


if __name__ == "__main__":
    main()
