"""Intervals of the dialogue's clock, and what of a reply could be heard when.

`SpokenReply` is one reply on the play-out clock (B = 0): its audible stretches by `gate/1`, joined where less than
200 ms of quiet lie between them. An underrun is quiet: nothing is heard in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from metrics.conversation import Reply
from metrics.gate import audible_runs
from metrics.playout import Playout, arrivals_of, nearest_ns, play
from sessions.clock import NS_PER_MS, NS_PER_S

QUIET_NS = 200 * NS_PER_MS
"""Quiet that ends a stretch of speech."""


@dataclass(frozen=True, slots=True)
class Span:
    """From start_ns up to, not including, end_ns."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns

    def holds(self, t_ns: int) -> bool:
        return self.start_ns <= t_ns < self.end_ns


@dataclass(frozen=True, slots=True)
class SpokenReply:
    """stretches: as if nothing had been dropped, in order; empty where nothing is audible · samples: the sample of the
    reply that each begins with · playout: None without audio.
    """

    stretches: tuple[Span, ...] = ()
    samples: tuple[int, ...] = ()
    playout: Playout | None = None

    def heard(self, cut_ns: int | None) -> tuple[Span, ...]:
        """The stretches up to `cut_ns`."""
        return cut(self.stretches, cut_ns)

    @property
    def end_ns(self) -> int | None:
        """The end of the last audible sample, None where nothing is audible."""
        return self.stretches[-1].end_ns if self.stretches else None


def spoken(replies: Sequence[Reply], rate_hz: int) -> SpokenReply:
    """Play the replies' packets, as one stream in order of arrival, and find what is audible."""
    packets = sorted((packet for reply in replies for packet in reply.packets), key=lambda packet: packet.t_ns)
    playout = play(arrivals_of(packets), rate_hz)
    if playout is None:
        return SpokenReply()
    runs = audible_runs(np.concatenate([packet.pcm for packet in packets]), rate_hz)
    pieces = [piece for run in runs for piece in _on_the_clock(run, playout)]
    stretches: list[Span] = []
    samples: list[int] = []
    for sample, span in pieces:
        if stretches and span.start_ns - stretches[-1].end_ns < QUIET_NS:
            stretches[-1] = Span(stretches[-1].start_ns, max(stretches[-1].end_ns, span.end_ns))
        else:
            stretches.append(span)
            samples.append(sample)
    return SpokenReply(tuple(stretches), tuple(samples), playout)


def _on_the_clock(run: tuple[int, int], playout: Playout) -> Iterable[tuple[int, Span]]:
    """One audible run as it is heard: one span, more where the audio ran out inside it."""
    for segment in playout.segments:
        first = max(run[0], segment.first_sample)
        end = min(run[1], segment.first_sample + segment.samples)
        if first < end:
            end_ns = playout.played_at(end - 1) * playout.rate_hz + NS_PER_S
            yield first, Span(nearest_ns(playout.played_at(first)), nearest_ns(end_ns / playout.rate_hz))


def cut(spans: Iterable[Span], at_ns: int | None) -> tuple[Span, ...]:
    """What of `spans` lies before `at_ns`."""
    if at_ns is None:
        return tuple(spans)
    return tuple(Span(span.start_ns, min(span.end_ns, at_ns)) for span in spans if span.start_ns < at_ns)


def joined(spans: Iterable[Span], quiet_ns: int = QUIET_NS) -> tuple[Span, ...]:
    """In order, those with less than `quiet_ns` between them made one."""
    made: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start_ns):
        if made and span.start_ns - made[-1].end_ns < quiet_ns:
            made[-1] = Span(made[-1].start_ns, max(made[-1].end_ns, span.end_ns))
        else:
            made.append(span)
    return tuple(made)


def common(spans: Iterable[Span], others: Sequence[Span]) -> tuple[Span, ...]:
    """When both are at once. Neither has parts that overlap each other."""
    both = (
        Span(max(span.start_ns, other.start_ns), min(span.end_ns, other.end_ns)) for span in spans for other in others
    )
    return tuple(span for span in both if span.length_ns > 0)


def common_ns(spans: Iterable[Span], others: Sequence[Span]) -> int:
    """How long both are at once. Neither has parts that overlap each other."""
    return sum(span.length_ns for span in common(spans, others))
