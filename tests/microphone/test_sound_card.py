"""The real device's code against a PortAudio of our own: rates that a device refuses, stamps that cannot be, gaps.

PulseAudio's plugin takes every rate and stamps well enough, so that nothing else here reaches these.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.microphone.device import Ears, Heard, Sounded
from harness.microphone.sound_card import SoundCard
from sessions.clock import NS_PER_MS
from sessions.errors import SetupError

NO_STATUS = SimpleNamespace(input_overflow=False, output_underflow=False)


class PortAudioError(Exception):
    """As sounddevice has it."""


@dataclass(slots=True)
class Stream:
    """One that was opened. The test calls back in its place."""

    options: dict[str, Any]
    callback: Callable[..., None]
    open: bool = True

    def start(self) -> None: ...

    def abort(self) -> None:
        self.options["finished_callback"]()

    def close(self) -> None:
        self.open = False


@dataclass(slots=True)
class Library:
    """The module sounddevice, with one device each way. rate_hz: the only one that they take."""

    rate_hz: int
    streams: dict[str, Stream] = field(default_factory=dict)
    refuses: str = ""
    PortAudioError: type[Exception] = PortAudioError

    def query_devices(self, device: int | str | None, kind: str) -> dict[str, Any]:
        if device not in (None, 0, "builtin"):
            raise ValueError(f"No {kind} device matching {device!r}")
        return {
            "index": 0,
            "name": "builtin",
            "default_samplerate": float(self.rate_hz),
            "max_input_channels": 1,
            "max_output_channels": 0 if self.refuses == "output" else 2,
        }

    def _check(self, samplerate: int, **options: Any) -> None:
        if samplerate != self.rate_hz:
            raise PortAudioError("Invalid sample rate")

    check_input_settings = check_output_settings = _check

    def _open(self, kind: str, options: dict[str, Any]) -> Stream:
        if self.refuses == "open":
            raise PortAudioError("Device unavailable")
        self.streams[kind] = Stream(options, options["callback"])
        return self.streams[kind]

    def InputStream(self, **options: Any) -> Stream:  # noqa: N802 — the library's own name
        return self._open("input", options)

    def OutputStream(self, **options: Any) -> Stream:  # noqa: N802
        return self._open("output", options)


class SetClock:
    """Stands where it is put."""

    def __init__(self) -> None:
        self.ns = 5_000_000_000

    def now_ns(self) -> int:
        return self.ns

    async def sleep_until_ns(self, due_ns: int) -> None:
        self.ns = max(self.ns, due_ns)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    made = Library(48_000)
    monkeypatch.setitem(sys.modules, "sounddevice", made)
    yield made


@dataclass(slots=True)
class Told:
    heard: list[Heard] = field(default_factory=list)
    sounded: list[Sounded] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def ears(self) -> Ears:
        return Ears(self.heard.append, self.sounded.append, self.failed.append)


def hear(library: Library, pcm: NDArray[np.int16], ago_s: float, *, lost: bool = False) -> None:
    status = SimpleNamespace(input_overflow=lost)
    stamps = SimpleNamespace(currentTime=100.0, inputBufferAdcTime=100.0 - ago_s)
    library.streams["input"].callback(pcm.reshape(-1, 1), len(pcm), stamps, status)


def sound(library: Library, samples: int, ahead_s: float = 0.05, *, late: bool = False) -> NDArray[np.int16]:
    out = np.full((samples, 1), 7, dtype=np.int16)
    stamps = SimpleNamespace(currentTime=100.0, outputBufferDacTime=100.0 + ahead_s)
    library.streams["output"].callback(out, samples, stamps, SimpleNamespace(output_underflow=late))
    return out[:, 0]


async def test_a_device_of_another_rate_is_heard_at_the_wires_with_every_sample_in_its_place(library: Library) -> None:
    clock, told = SetClock(), Told()
    card = SoundCard(24_000, clock, "", "builtin")
    assert (card.microphone.rate_hz, card.loudspeaker.rate_hz) == (48_000, 48_000)
    card.start(told.ears)
    wave = np.random.default_rng(5).standard_normal(48_000)
    wave = np.convolve(wave, np.hanning(16) / 8, mode="same") * 5000  # nothing above what 24 kHz can hold
    pcm = wave.astype(np.int16)
    start_ns = clock.ns
    for block in range(50):
        clock.ns = start_ns + (block + 1) * 20 * NS_PER_MS
        hear(library, pcm[block * 960 : (block + 1) * 960], 0.02)
    await asyncio.sleep(0)
    samples = 0
    for frame in told.heard:  # what the filter holds back comes later, and is stamped as what it is
        assert abs(frame.at_ns - start_ns - samples * 1_000_000_000 / 24_000) < 1000
        samples += len(frame.pcm)
    lane = np.concatenate([frame.pcm for frame in told.heard]).astype(np.float64)
    assert 23_000 < samples <= 24_000
    expected = wave[::2][: len(lane)]
    assert np.corrcoef(lane[1000:], expected[1000:])[0, 1] > 0.999
    card.stop()
    assert told.failed == [] and not any(stream.open for stream in library.streams.values())


async def test_stamps_that_cannot_be_are_not_believed(library: Library) -> None:
    library.rate_hz = 24_000
    clock, told = SetClock(), Told()
    card = SoundCard(24_000, clock)
    card.start(told.ears)
    frame = np.zeros(480, dtype=np.int16)
    for ago_s in (0.033, 0.0, -1.0, 100.0):
        hear(library, frame, ago_s, lost=ago_s < 0)
    await asyncio.sleep(0)
    assert [(clock.ns - one.at_ns) // NS_PER_MS for one in told.heard] == [33, 20, 20, 20]
    assert [one.lost for one in told.heard] == [False, False, True, False]
    assert all(one.handed_ns == clock.ns for one in told.heard)


async def test_what_is_played_says_when_it_is_heard(library: Library) -> None:
    clock, told = SetClock(), Told()
    card = SoundCard(24_000, clock)
    card.start(told.ears)
    assert not sound(library, 960).any()  # silence is no news
    card.play("a", np.full(24_00, 1000, dtype=np.int16))
    first = sound(library, 960, 0.05)
    sound(library, 960, late=True)
    card.drop()
    assert not sound(library, 960).any()
    await asyncio.sleep(0)
    assert abs(int(first[-1]) - 1000) < 20
    one, two, end = told.sounded
    assert one.at_ns - one.given_ns == 50 * NS_PER_MS
    assert [(piece.reply, piece.first_sample, piece.samples) for piece in one.pieces] == [("a", 0, 480)]
    assert two.late and two.pieces[0].first_sample == 480 and end.pieces == ()
    assert len(one.pcm) == 480


async def test_a_stream_that_stops_by_itself_is_told(library: Library) -> None:
    told = Told()
    card = SoundCard(24_000, SetClock())
    card.start(told.ears)
    library.streams["input"].options["finished_callback"]()
    await asyncio.sleep(0)
    assert told.failed == ["builtin has stopped"]
    card.stop()
    card.stop()


async def test_a_device_that_cannot_be_opened_is_one_line(library: Library) -> None:
    with pytest.raises(SetupError, match="--devices"):
        SoundCard(24_000, SetClock(), "headset")
    library.refuses = "open"
    with pytest.raises(SetupError, match="builtin cannot be opened: Device unavailable"):
        SoundCard(24_000, SetClock()).start(Told().ears)
    library.refuses = "output"
    with pytest.raises(SetupError, match="has no output"):
        SoundCard(24_000, SetClock())
