"""Which arrival brought which byte of a stream."""

from __future__ import annotations

from collections import deque


class ByteClock:
    """Positions in an inbound byte stream and the instants at which they arrived."""

    def __init__(self) -> None:
        self.arrived_bytes = 0
        self._consumed = 0
        self._chunks: deque[tuple[int, int]] = deque()

    def arrived(self, size: int, t_ns: int) -> None:
        """`size` more bytes came at `t_ns`."""
        if size:
            self.arrived_bytes += size
            self._chunks.append((self.arrived_bytes, t_ns))

    def passed(self, size: int) -> None:
        """`size` bytes came and were taken at once. Only while all is consumed."""
        self.arrived_bytes += size
        self._consumed += size

    @property
    def all_consumed(self) -> bool:
        """Whether the stream stands at a boundary: everything that arrived was taken."""
        return self.arrived_bytes == self._consumed

    def consume(self, size: int) -> int:
        """Take the next `size` bytes (at least one, all of them arrived); when the first of them came."""
        chunks = self._chunks
        while chunks[0][0] <= self._consumed:
            chunks.popleft()
        first_ns = chunks[0][1]
        self._consumed += size
        return first_ns
