"""English text to speech with hibari: 24 kHz, one female voice, repeatable to the sample."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from servers.speech_model import Pcm

RATE_HZ: Final = 24_000
VOICE: Final = "heart"
_FILE: Final = "hibari.onnx"
_SEED: Final = 20
_BLOCK_SAMPLES: Final = RATE_HZ // 200
_QUIET: Final = 10.0 ** (-55.0 / 20.0)
_LEAD_SAMPLES: Final = RATE_HZ * 20 // 1000
_PAUSE_SAMPLES: Final = {"sentence": RATE_HZ * 240 // 1000, "clause": RATE_HZ * 100 // 1000}
_SENTENCE_MARKS: Final = frozenset(".!?…")
_CLOSERS: Final = "\"'”’)"


class HibariEngine:
    """`folder` holds `hibari.onnx`. Calls from several threads are safe and taken one after another."""

    def __init__(self, folder: Path) -> None:
        from hibari import Hibari

        # The file is given: by name alone other voices would be downloaded.
        self._tts: Any = Hibari(voice=VOICE, model=str(folder / _FILE), threads=1)
        self._lock = threading.Lock()

    def warm_up(self) -> None:
        """Load the dictionaries and run the graph once."""
        self.speak("Hello, warm up.")

    def speak(self, text: str) -> Pcm:
        """`text` as int16 (samples,) mono at 24 kHz; empty where nothing can be said (an emoji, a foreign script).

        The voice puts 0.3 s of silence before and 0.4 s after whatever it says. A reply spoken clause by clause would
        start late and stumble, so both are cut to what a speaker leaves: 20 ms before, 100 or 240 ms after.
        """
        with self._lock:
            wave: NDArray[np.float32] = self._tts(text, seed=_SEED)
        return _as_pcm(_trimmed(wave, _pause_samples(text)))


def _pause_samples(text: str) -> int:
    last = text.rstrip().rstrip(_CLOSERS)[-1:]
    return _PAUSE_SAMPLES["sentence" if last in _SENTENCE_MARKS else "clause"]


def _trimmed(wave: NDArray[np.float32], pause_samples: int) -> NDArray[np.float32]:
    """`wave` with the quiet before its first and after its last loud block cut; empty if no block is loud."""
    blocks = wave[: len(wave) // _BLOCK_SAMPLES * _BLOCK_SAMPLES].reshape(-1, _BLOCK_SAMPLES)
    loud = np.flatnonzero(blocks.std(axis=1) >= _QUIET)
    if not len(loud):
        return wave[:0]
    start = max(0, int(loud[0]) * _BLOCK_SAMPLES - _LEAD_SAMPLES)
    end = (int(loud[-1]) + 1) * _BLOCK_SAMPLES + pause_samples
    return wave[start:end]


def _as_pcm(wave: NDArray[np.float32]) -> Pcm:
    pcm: Pcm = np.clip(np.rint(wave * 32768.0), -32768, 32767).astype(np.int16)
    return pcm
