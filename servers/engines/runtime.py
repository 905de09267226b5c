"""What must be in the environment before the model runtimes are imported."""

from __future__ import annotations

import os

_SPINS = "3000"


def prepare() -> None:
    """Call before the first import of a runtime. What the user has set stays.

    GOMP_SPINCOUNT: whisper's and the chat model's threads wait for each other at every layer. By default they spin for
    long, so on cores that others use too they spin while the one they wait for cannot run. Without any spinning they
    are slow on idle cores. A short spin is near the better of both. The same 30 tokens on two cores (median of five):

        default, passive, 3000 spins      idle 1.18 s, 1.86 s, 1.23 s      one core taken 4.9 s, 2.5 s, 3.0 s

    HF_HUB_OFFLINE: faster-whisper would otherwise ask the hub for what a folder lacks, with retries.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
