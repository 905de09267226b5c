"""The play-out model: when each sample of a reply would be heard behind a jitter buffer of B.

The first packet that holds samples starts at its arrival + B; each later one follows the one before without a gap. One
that arrives later than the end of the one before by more than half a sample is an underrun of that length: it starts
at its arrival, which is the new base, and nothing is buffered again. Within half a sample the base stays, so positions
are always exact (base + samples·10⁹/rate), never a sum of roundings. Packets without samples are not there.

Instants and lengths are in nanoseconds, as exact fractions where a sample does not fall on a whole one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from metrics.conversation import Packet
from sessions.clock import NS_PER_S

PLAYOUT = "playout/1"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One packet as play-out sees it: samples > 0 that were complete at t_ns."""

    t_ns: int
    samples: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Samples that are heard without a gap. base_ns: when `first_sample` (index in the reply) starts."""

    base_ns: int
    first_sample: int
    samples: int


@dataclass(frozen=True, slots=True)
class Underrun:
    """Silence because nothing had come. at_ns: where it begins; it ends at the arrival that ended it."""

    at_ns: Fraction
    length_ns: Fraction


@dataclass(frozen=True, slots=True)
class Playout:
    """One reply behind one buffer. segments: at least one, in order."""

    rate_hz: int
    buffer_ns: int
    segments: tuple[Segment, ...]
    underruns: tuple[Underrun, ...]

    @property
    def samples(self) -> int:
        last = self.segments[-1]
        return last.first_sample + last.samples

    @property
    def underrun_ns(self) -> Fraction:
        """Total length of the underruns."""
        return sum((underrun.length_ns for underrun in self.underruns), Fraction(0))

    @property
    def end_ns(self) -> Fraction:
        """When the last sample has been heard."""
        last = self.segments[-1]
        return last.base_ns + duration_ns(last.samples, self.rate_hz)

    def played_at(self, index: int) -> Fraction:
        """When sample `index` of the reply starts to be heard. Raises `IndexError` outside the reply."""
        for segment in self.segments:
            if 0 <= index - segment.first_sample < segment.samples:
                return segment.base_ns + duration_ns(index - segment.first_sample, self.rate_hz)
        raise IndexError(f"sample {index} is not in a reply of {self.samples} samples")

    def heard_ns(self, t_ns: int) -> Fraction:
        """How much of the reply was heard up to `t_ns`; underruns are silence and do not count."""
        heard = Fraction(0)
        for segment in self.segments:
            heard += max(Fraction(0), min(Fraction(t_ns - segment.base_ns), duration_ns(segment.samples, self.rate_hz)))
        return heard

    def heard_samples(self, t_ns: int) -> int:
        """How many whole samples were heard up to `t_ns`; never more than had arrived."""
        heard = 0
        for segment in self.segments:
            heard += max(0, min((t_ns - segment.base_ns) * self.rate_hz // NS_PER_S, segment.samples))
        return heard


def duration_ns(samples: int, rate_hz: int) -> Fraction:
    """The exact duration of `samples` at `rate_hz`."""
    return Fraction(samples * NS_PER_S, rate_hz)


def nearest_ns(instant: Fraction) -> int:
    """An exact instant as a whole nanosecond, half up."""
    return (instant.numerator * 2 + instant.denominator) // (2 * instant.denominator)


def arrivals_of(packets: Iterable[Packet]) -> tuple[Arrival, ...]:
    """The packets that hold at least one sample: headers and half samples are no audio."""
    return tuple(Arrival(packet.t_ns, len(packet.pcm)) for packet in packets if len(packet.pcm))


def play(arrivals: Iterable[Arrival], rate_hz: int, buffer_ns: int = 0) -> Playout | None:
    """Play `arrivals`, in order of arrival, behind a buffer of `buffer_ns`. None where there is no audio."""
    segments: list[Segment] = []
    underruns: list[Underrun] = []
    base_ns = first_sample = samples = 0
    begun = False
    for arrival in arrivals:
        if not arrival.samples:
            continue
        if not begun:
            begun, base_ns = True, arrival.t_ns + buffer_ns
        else:
            # In units of 1/rate ns, so that everything is an integer.
            late = (arrival.t_ns - base_ns) * rate_hz - samples * NS_PER_S
            if 2 * late > NS_PER_S:
                length_ns = Fraction(late, rate_hz)
                underruns.append(Underrun(arrival.t_ns - length_ns, length_ns))
                segments.append(Segment(base_ns, first_sample, samples))
                base_ns, first_sample, samples = arrival.t_ns, first_sample + samples, 0
        samples += arrival.samples
    if not begun:
        return None
    segments.append(Segment(base_ns, first_sample, samples))
    return Playout(rate_hz, buffer_ns, tuple(segments), tuple(underruns))


def gapless_prebuffer_ns(arrivals: Iterable[Arrival], rate_hz: int) -> Fraction:
    """The smallest B with which no packet comes after the end of the one before. Raises `ValueError` without audio.

    0 where B = 0 has no underrun. The half sample that an underrun may be short of forgives the clock's grain; it is
    not lent to the buffer, so a B that is smaller by more than half a sample has an underrun.
    """
    known = _with_samples(arrivals)
    unbuffered = play(known, rate_hz)
    if unbuffered is None or not unbuffered.underruns:
        return Fraction(0)
    latest = samples = 0
    for arrival in known:
        latest = max(latest, (arrival.t_ns - known[0].t_ns) * rate_hz - samples * NS_PER_S)
        samples += arrival.samples
    return Fraction(latest, rate_hz)


def real_time_factor(arrivals: Iterable[Arrival], rate_hz: int) -> Fraction:
    """(last − first audio arrival) / audio duration. Raises `ValueError` without audio."""
    known = _with_samples(arrivals)
    span_ns = known[-1].t_ns - known[0].t_ns
    return span_ns / duration_ns(sum(arrival.samples for arrival in known), rate_hz)


def _with_samples(arrivals: Iterable[Arrival]) -> list[Arrival]:
    known = [arrival for arrival in arrivals if arrival.samples]
    if not known:
        raise ValueError("there is no audio to play")
    return known
