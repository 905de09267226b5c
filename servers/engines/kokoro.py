"""English text to speech with Kokoro-82M: 24 kHz, on hibari's phonemes, repeatable to the sample on one machine.

hibari's alphabet is Kokoro's own, so no phonemizer under the GPL is involved. One thread and a fixed seed make the
samples the same in every run on one machine; another processor may round the quantised network otherwise in the last
bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sessions.errors import SetupError

RATE_HZ: Final = 24_000
MOST_TOKENS: Final = 509
"""Rows of a voice file: one style per number of tokens."""
_LONG_TOKENS: Final = 400
_SEED: Final = 1
# Kokoro-82M's published alphabet: each run of symbols has consecutive ids from the number on. 0 is the pad.
_ALPHABET: Final = {
    1: ";:,.!?", 9: '—…"()“” \u0303ʣʥʦʨᵝ\uab67AI', 31: "O", 33: "Q", 35: "ST", 39: "W", 41: "Yᵊabcdef",
    50: "hijklmnopqrstuvwxyzɑɐɒæ", 75: "βɔɕç", 80: "ɖðʤə", 85: "ɚɛɜ", 90: "ɟ", 92: "ɡ", 99: "ɥ", 101: "ɨɪʝ",
    110: "ɯɰŋɳɲɴø", 118: "ɸθœ", 123: "ɹ", 125: "ɾɻ", 128: "ʁɽʂʃʈʧ", 135: "ʊʋ", 138: "ʌɣɤ", 142: "χʎ", 147: "ʒʔ",
    156: "ˈˌː", 162: "ʰ", 164: "ʲ", 169: "↓", 171: "→↗↘", 177: "ᵻ",
}  # fmt: skip
TOKEN_IDS: Final = {symbol: first + offset for first, run in _ALPHABET.items() for offset, symbol in enumerate(run)}


class KokoroEngine:
    """`model`: the ONNX file · `voice`: a voice's raw float32, (510, 1, 256)."""

    def __init__(self, model: Path, voice: Path) -> None:
        import hibari
        import onnxruntime

        onnxruntime.set_seed(_SEED)
        options = onnxruntime.SessionOptions()
        # More threads would add up sums in another order each time.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._styles = np.fromfile(voice, dtype="<f4").reshape(-1, 1, 256)
        self._phonemizer: Any = hibari.Hibari()

    def speak(self, text: str) -> NDArray[np.float32]:
        """float32 (samples,) at 24 kHz, as the network gives it. Raises `SetupError` where it cannot be said."""
        return np.concatenate([self.say(phonemes) for phonemes in grouped(self._phonemizer.phonemize(text))])

    def say(self, phonemes: str) -> NDArray[np.float32]:
        """Phonemes in Kokoro's alphabet, of any language → sound, as `speak`."""
        ids = token_ids(phonemes)
        feeds = {
            "tokens": np.array([[0, *ids, 0]], dtype=np.int64),
            "style": self._styles[len(ids)],
            "speed": np.ones(1, dtype=np.float32),
        }
        samples: NDArray[np.float32] = self._session.run(None, feeds)[0].reshape(-1).astype(np.float32)
        return samples


def grouped(sentences: Sequence[str]) -> list[str]:
    """Sentences joined as far as the network takes them in one piece; at least one group, which may be empty."""
    groups = [""]
    for sentence in sentences:
        joined = f"{groups[-1]} {sentence}".strip()
        if groups[-1] and len(joined) > _LONG_TOKENS:
            groups.append(sentence)
        else:
            groups[-1] = joined
    return groups


def token_ids(phonemes: str) -> list[int]:
    """Phoneme symbols → Kokoro's ids. Raises `SetupError` for a symbol that it does not know, or for too many."""
    strange = sorted(set(phonemes) - TOKEN_IDS.keys())
    if strange:
        raise SetupError(
            f"Kokoro knows no {', '.join(map(repr, strange))} (in {phonemes!r})", "Word the text otherwise"
        )
    if not 0 < len(phonemes) <= MOST_TOKENS:
        raise SetupError(
            f"{len(phonemes)} phonemes are too many or none at all", "Give English text, in sentences of usual length"
        )
    return [TOKEN_IDS[symbol] for symbol in phonemes]
