"""What is known of a run while it goes on, fed by its dialogues: for the line on the screen and for scrapers.

It decides nothing and enters no result: those are computed afterwards from the records. Feeding it costs microseconds.
"""

from __future__ import annotations

import bisect
from collections import Counter, deque
from collections.abc import Callable, Sequence

from harness.dialogue.record import Record
from harness.dialogue.tracker import Tracker
from harness.runs.planning import Slot
from harness.runs.run import Watcher
from sessions.clock import NS_PER_MS, NS_PER_S, Clock, process_cpu_ns

LAST_TURNS = 500
"""The turns that "now" means."""
FIRST_PACKET_S = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
LATENESS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Histogram:
    """Seconds, counted up to each of `bounds`; the last count is of what lies above them all."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum_s = 0.0

    def observe(self, value_s: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value_s)] += 1
        self.sum_s += value_s


class Live(Watcher):
    """All dialogues of one run together. Latencies here are of first packets: what can be heard is found afterwards."""

    def __init__(
        self,
        clock: Clock,
        *,
        done: int = 0,
        time_left_s: float | None = None,
        cpu_ns: Callable[[], int] = process_cpu_ns,
    ) -> None:
        """done: dialogues of the plan that an earlier start performed · time_left_s: of a run that lasts for a
        time · cpu_ns: CPU time of what keeps time."""
        self._clock = clock
        self._time_left_s = time_left_s
        self._used_ns = cpu_ns
        self._began_ns: int | None = None
        self._cpu_ns = 0
        self.already_done = done
        self.total: int | None = None
        """Dialogues of the plan; None until the first begins, and where the time decides."""
        self.active = 0
        self.ended = 0
        self.turns = 0
        self.failed: Counter[str] = Counter()
        """Turns, by outcome."""
        self.first_packet_ms: deque[float] = deque(maxlen=LAST_TURNS)
        self.first_packet = Histogram(FIRST_PACKET_S)
        self.lateness_ms: deque[float] = deque(maxlen=LAST_TURNS)
        self.lateness = Histogram(LATENESS_S)
        self.late_max_ns = 0

    def dialogue_begins(self, slot: Slot, total: int | None) -> None:
        if self._began_ns is None:
            self._began_ns, self._cpu_ns = self._clock.now_ns(), self._used_ns()
        self.total = total
        self.active += 1

    def turn_over(self, slot: Slot, turn: int, tracker: Tracker) -> None:
        self.turns += 1
        self.late_max_ns = max(self.late_max_ns, tracker.late_max_ns)
        self.lateness_ms.append(tracker.late_max_ns / NS_PER_MS)
        self.lateness.observe(tracker.late_max_ns / NS_PER_S)
        instants = [r.first_audio_ns for r in tracker.of_turn(turn) if r.first_audio_ns is not None]
        if instants:
            latency_ns = min(instants) - tracker.turns[-1].speech_end_ns
            self.first_packet_ms.append(latency_ns / NS_PER_MS)
            self.first_packet.observe(latency_ns / NS_PER_S)

    def dialogue_over(self, slot: Slot, record: Record) -> None:
        self.active -= 1
        self.ended += 1
        self.failed.update(record.gave_up)

    @property
    def begun(self) -> bool:
        return self._began_ns is not None

    def past_s(self) -> float:
        """Since the first dialogue of this start began."""
        return 0.0 if self._began_ns is None else (self._clock.now_ns() - self._began_ns) / NS_PER_S

    def cpu_s(self) -> float:
        """CPU time since then, of the processes that keep time."""
        return 0.0 if self._began_ns is None else (self._used_ns() - self._cpu_ns) / NS_PER_S

    def left_s(self) -> float | None:
        """Until the run begins no more dialogues, or has ended all of its plan at the pace up to now. None: unknown."""
        if self._time_left_s is not None:
            return max(0.0, self._time_left_s - self.past_s())
        if not self.ended or self.total is None:
            return None
        return self.past_s() / self.ended * max(0, self.total - self.already_done - self.ended)
