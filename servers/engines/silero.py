"""Silero VAD as a stream: one frame in, one probability out, state carried from frame to frame.

The graph is the one that faster-whisper ships (v6). It wants the 64 samples before each frame as well; without them it
runs and finds no speech at all, so the detector keeps them itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from servers.speech_model import Pcm, VoiceDetector

RATE_HZ: Final = 16_000
FRAME_SAMPLES: Final = 512
_CONTEXT_SAMPLES: Final = 64
_STATE_SHAPE: Final = (1, 1, 128)
_FULL_SCALE: Final = np.float32(32768.0)
_FILE: Final = "silero_vad_v6.onnx"


class SileroModel:
    """The shared graph. `folder` holds `silero_vad_v6.onnx`; `detector()` makes one detector per connection."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        # A frame costs 0.1 ms: waking a second thread would cost more than it saves.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            str(folder / _FILE), options, providers=["CPUExecutionProvider"]
        )

    def detector(self) -> VoiceDetector:
        return SileroDetector(self._session)


class SileroDetector:
    """A `VoiceDetector` at 16 kHz with frames of 512 samples (32 ms)."""

    def __init__(self, session: Any) -> None:
        self.frame_samples = FRAME_SAMPLES
        self.rate_hz = RATE_HZ
        self._session = session
        self._window: NDArray[np.float32]
        self._hidden: NDArray[np.float32]
        self._cell: NDArray[np.float32]
        self.reset()

    def probability(self, frame: Pcm) -> float:
        """How likely `frame` (int16, exactly 512 samples at 16 kHz) is speech, 0 to 1."""
        if len(frame) != FRAME_SAMPLES:
            raise ValueError(f"a frame has {len(frame)} samples, not {FRAME_SAMPLES}")
        self._window[:_CONTEXT_SAMPLES] = self._window[-_CONTEXT_SAMPLES:]
        self._window[_CONTEXT_SAMPLES:] = frame / _FULL_SCALE
        feed = {"input": self._window[np.newaxis], "h": self._hidden, "c": self._cell}
        probability, self._hidden, self._cell = self._session.run(None, feed)
        return float(probability[0])

    def reset(self) -> None:
        self._window = np.zeros(_CONTEXT_SAMPLES + FRAME_SAMPLES, np.float32)
        self._hidden = np.zeros(_STATE_SHAPE, np.float32)
        self._cell = np.zeros(_STATE_SHAPE, np.float32)
