"""The sounds of one question: short ones read, long ones mapped, and let go of again while a model listens to them.

A mapped file takes the memory of every page that was looked at. A model that goes through an hour window by window
never looks back, so what it has seen is dropped from time to time; whoever does look back reads it again.
"""

from __future__ import annotations

import mmap
import threading
from pathlib import Path
from types import TracebackType

import numpy as np

from harness.score.engine.messages import Item
from metrics.scoring import FloatPcm

_MAPPED_FROM_BYTES = 8 << 20
_EVERY_S = 0.25


class Sounds:
    """Use as a context, `array` outside or inside of it; what was mapped is let go of while the context lasts."""

    def __init__(self) -> None:
        self._mapped: list[mmap.mmap] = []
        self._ended = threading.Event()
        self._letting_go = threading.Thread(target=self._let_go, name="let-go", daemon=True)

    def array(self, item: Item) -> FloatPcm:
        """float32 (item.samples,) that nobody may write into. Raises `OSError`, `ValueError` where the file is cut."""
        size_bytes = 4 * item.samples
        if size_bytes < _MAPPED_FROM_BYTES:
            samples = np.fromfile(item.place, np.float32, count=item.samples)
        else:
            with Path(item.place).open("rb") as file:
                mapping = mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_READ)
            self._mapped.append(mapping)
            samples = np.frombuffer(mapping, np.float32)
        samples.flags.writeable = False
        return samples

    def __enter__(self) -> Sounds:
        if self._mapped and hasattr(mmap, "MADV_DONTNEED"):
            self._letting_go.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._letting_go.ident is not None:
            self._letting_go.join()

    def _let_go(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for mapping in self._mapped:
                mapping.madvise(mmap.MADV_DONTNEED)
