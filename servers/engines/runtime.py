"""What must be in the environment before the model runtimes are imported."""

from __future__ import annotations

import os


def prepare() -> None:
    """Call before the first import of a runtime. What the user has set stays.

    OMP_WAIT_POLICY: whisper's and the chat model's threads wait for each other at every layer. By default they spin, so
    on cores that others use too they spin while the one they wait for cannot run: several times slower, and time taken
    from whoever paces audio. `PASSIVE` was no slower on idle cores.
    HF_HUB_OFFLINE: faster-whisper would otherwise ask the hub for what a folder lacks, with retries.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
