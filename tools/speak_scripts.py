"""Speak the shipped scripts: the tool that made the audio in `sessions/library/`.

    python -m tools.speak_scripts                 speak every script that has a text, write FLAC and speech ends
    python -m tools.speak_scripts facts           only this one
    python -m tools.speak_scripts --check         speak again and compare, write nothing
    python -m tools.speak_scripts --listen        let Whisper base write down what it hears, print the word error rate

The voice is Kokoro's `am_michael`, male, unlike the assistant's. Phonemes come from hibari, whose alphabet is Kokoro's,
so no phonemizer under the GPL is involved. One thread and a fixed seed make the samples the same in every run on one
machine; other processors may round the quantised network otherwise in the last bit.

Each utterance is cut to what is spoken, set to -23 dBFS (RMS over its blocks within 35 dB of the loudest), and ends
200 ms after its last speech sample. That sample is, in the last block that `speech_end/energy-1` counts as speech, the
last one whose own magnitude is within 35 dB of the loudest block's level.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from sessions import audio, scripts, yaml_schema
from sessions.audio import FloatPcm, Pcm
from sessions.errors import SetupError
from sessions.speech_end import RANGE_DB, block_edges, block_powers, energy_1

RATE_HZ = 24_000
LEVEL_DBFS = -23.0
LEAD_SAMPLES = RATE_HZ * 40 // 1000
TAIL_SAMPLES = RATE_HZ * 200 // 1000
FADE_SAMPLES = RATE_HZ * 5 // 1000
SEED = 1
WORST_WORD_ERROR_RATE = 0.10

# Kokoro-82M's published alphabet: each run of symbols has consecutive ids from the number on. 0 is the pad.
_ALPHABET = {
    1: ";:,.!?", 9: '—…"()“” \u0303ʣʥʦʨᵝ\uab67AI', 31: "O", 33: "Q", 35: "ST", 39: "W", 41: "Yᵊabcdef",
    50: "hijklmnopqrstuvwxyzɑɐɒæ", 75: "βɔɕç", 80: "ɖðʤə", 85: "ɚɛɜ", 90: "ɟ", 92: "ɡ", 99: "ɥ", 101: "ɨɪʝ",
    110: "ɯɰŋɳɲɴø", 118: "ɸθœ", 123: "ɹ", 125: "ɾɻ", 128: "ʁɽʂʃʈʧ", 135: "ʊʋ", 138: "ʌɣɤ", 142: "χʎ", 147: "ʒʔ",
    156: "ˈˌː", 162: "ʰ", 164: "ʲ", 169: "↓", 171: "→↗↘", 177: "ᵻ",
}  # fmt: skip
TOKEN_IDS = {symbol: first + offset for first, run in _ALPHABET.items() for offset, symbol in enumerate(run)}
# Rows of a voice file: one style per number of tokens.
MOST_TOKENS = 509


@dataclass(frozen=True, slots=True)
class Spoken:
    """pcm: int16 (samples,) at 24 kHz · end_sample: index of the last speech sample."""

    pcm: Pcm
    end_sample: int


class Speaker:
    """Text → speech: hibari's phonemes, Kokoro's voice."""

    def __init__(self, model: Path, voice: Path) -> None:
        import hibari
        import onnxruntime

        onnxruntime.set_seed(SEED)
        options = onnxruntime.SessionOptions()
        # More threads would add up sums in another order each time.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._styles = np.fromfile(voice, dtype="<f4").reshape(-1, 1, 256)
        self._phonemizer = hibari.Hibari()

    def say(self, text: str) -> FloatPcm:
        """float32 (samples,) at 24 kHz, as the network gives it."""
        ids = token_ids(" ".join(self._phonemizer.phonemize(text)))
        feeds = {
            "tokens": np.array([[0, *ids, 0]], dtype=np.int64),
            "style": self._styles[len(ids)],
            "speed": np.ones(1, dtype=np.float32),
        }
        samples: FloatPcm = self._session.run(None, feeds)[0].reshape(-1).astype(np.float32)
        return samples


def token_ids(phonemes: str) -> list[int]:
    """Phoneme symbols → Kokoro's ids. Raises `SetupError` for a symbol that it does not know, or for too many."""
    strange = sorted(set(phonemes) - TOKEN_IDS.keys())
    if strange:
        raise SetupError(
            f"Kokoro knows no {', '.join(map(repr, strange))} (in {phonemes!r})", "Word the text otherwise"
        )
    if not 1 <= len(phonemes) <= MOST_TOKENS:
        raise SetupError(f"{len(phonemes)} phonemes are too many or none at all", "Write one or two sentences per turn")
    return [TOKEN_IDS[symbol] for symbol in phonemes]


def cut(samples: FloatPcm) -> Spoken:
    """Trim to 40 ms before and 200 ms after the speech, and set the level."""
    edges = block_edges(len(samples), RATE_HZ)
    powers = block_powers(samples, edges)
    threshold = powers.max() * 10 ** (-RANGE_DB / 10)
    spoken = np.flatnonzero(powers >= threshold)
    block_end = energy_1(samples, RATE_HZ, name="the synthesised text").index_samples
    last_block = np.square(samples[edges[spoken[-1]] : block_end + 1], dtype=np.float64)
    end = int(edges[spoken[-1]] + np.flatnonzero(last_block >= threshold)[-1])
    start = max(0, int(edges[spoken[0]]) - LEAD_SAMPLES)
    wanted = np.zeros(end + 1 + TAIL_SAMPLES - start, dtype=np.float64)
    kept = samples[start : start + len(wanted)]
    wanted[: len(kept)] = kept
    wanted *= 10 ** (LEVEL_DBFS / 20) / np.sqrt(powers[spoken].mean())
    ramp = np.linspace(0.0, 1.0, FADE_SAMPLES)
    wanted[:FADE_SAMPLES] *= ramp
    wanted[-FADE_SAMPLES:] *= ramp[::-1]
    return Spoken(audio.to_pcm16(wanted), end - start)


def annotate(document: yaml_schema.Document, text: str, end_samples: list[int]) -> str:
    """The YAML `text` with each turn's `speech_end_sample` set; all else, comments too, stays as it is."""
    lines = text.splitlines(keepends=True)
    for index in reversed(range(len(end_samples))):
        known = "speech_end_sample" in document.data["turns"][index]
        at = document.line(("turns", index, "speech_end_sample" if known else "audio")) - 1
        new = f"speech_end_sample: {end_samples[index]}"
        if known:
            lines[at] = re.sub(r"speech_end_sample:\s*\d+", new, lines[at])
        else:
            indent = re.match(r"[\s-]*", lines[at])
            lines.insert(at + 1, " " * (indent.end() if indent else 0) + new + "\n")
    return "".join(lines)


def speak_script(path: Path, speaker: Speaker) -> list[Spoken]:
    """All turns of a script, in order. Each must have a text."""
    turns = scripts.read_script_file(path).turns
    silent = [index for index, turn in enumerate(turns) if not turn.text]
    if silent:
        raise SetupError(f"{path}: turns[{silent[0]}] has no text to speak", "Write what the user says there")
    return [cut(speaker.say(turn.text)) for turn in turns]


def write_script(path: Path, spoken: list[Spoken]) -> None:
    """The audio files of a script, then its annotations."""
    for turn, said in zip(scripts.read_script_file(path).turns, spoken, strict=True):
        file = path.parent / (turn.audio or "")
        file.parent.mkdir(parents=True, exist_ok=True)
        audio.write_flac(file, said.pcm, RATE_HZ)
    text = path.read_text(encoding="utf-8")
    annotated = annotate(yaml_schema.parse(path), text, [said.end_sample for said in spoken])
    path.write_text(annotated, encoding="utf-8")


def differences(path: Path, spoken: list[Spoken]) -> list[str]:
    """What the shipped script holds otherwise than `spoken`, one line each."""
    found = []
    for index, (turn, said) in enumerate(zip(scripts.load_script(path).turns, spoken, strict=True)):
        if not np.array_equal(turn.clip.pcm, said.pcm):
            found.append(f"{path}: turns[{index}].audio: other samples than the shipped file's")
        if turn.speech_end.index_samples != said.end_sample:
            found.append(f"{path}: turns[{index}].speech_end_sample: {said.end_sample} is what was spoken now")
    return found


def word_error_rate(path: Path, whisper: Any) -> tuple[float, list[str]]:
    """WER of Whisper's transcripts of a script against its texts, and the transcripts."""
    import jiwer

    turns = scripts.load_script(path, rate_hz=16_000).turns
    heard = []
    for turn in turns:
        segments, _ = whisper.transcribe(audio.to_float(turn.clip.pcm), language="en", beam_size=1)
        heard.append(" ".join(segment.text.strip() for segment in segments))
    plain = [[re.sub(r"[^a-z0-9' ]", "", text.lower()) for text in texts] for texts in ([t.text for t in turns], heard)]
    return float(jiwer.wer(plain[0], plain[1])), heard


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


def _speak(paths: list[Path], *, write: bool) -> list[str]:
    from sessions import weights

    model = weights.folder("kokoro-v1.0-int8") / "kokoro-v1.0.int8.onnx"
    speaker = Speaker(model, weights.folder("kokoro-voices") / "am_michael.bin")
    wrong: list[str] = []
    for path in paths:
        spoken = speak_script(path, speaker)
        if write:
            write_script(path, spoken)
        wrong += differences(path, spoken)
        lengths = ", ".join(f"{len(said.pcm) / RATE_HZ:.2f} s" for said in spoken)
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
