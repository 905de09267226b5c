"""The sound devices of this machine, through PortAudio (the package sounddevice).

PortAudio calls back in threads of its own. There nothing is done but to copy, to stamp and to hand over: the event loop
does the rest. Input and output are streams of their own: not every driver has one for both, and they may be two
devices.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import soxr

from harness.microphone.device import Ears, Heard, Pcm, Piece, Sounded
from harness.microphone.queue import PlayQueue
from sessions.audio import to_float, to_pcm16
from sessions.clock import NS_PER_S, Clock, samples_to_ns
from sessions.errors import MissingExtra, SetupError

BLOCK_MS: Final = 20
_LONGEST_NS: Final = 2 * NS_PER_S
"""A device that says that a sample waited longer than this does not know its own time."""


def sound_library() -> Any:
    """The module sounddevice. Raises `SetupError` with the command that installs what is missing."""
    try:
        with _hushed():
            import sounddevice
    except ImportError as error:
        raise MissingExtra("sounddevice", "mic") from error
    except OSError as error:
        raise SetupError(
            f"the microphone needs PortAudio, which is not installed ({error})",
            "On Debian: apt-get install libportaudio2; elsewhere the package portaudio, or pip install 'duologue[mic]'",
        ) from error
    _hush_alsa()
    return sounddevice


def device_table() -> str:
    """All sound devices, as people read them. Raises `SetupError` where there are none."""
    library = sound_library()
    if not len(library.query_devices()):
        raise _no_device("sound device")
    return str(library.query_devices())


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """The system's sound libraries write of every device that is not there to standard error; nobody can use it."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _say_nothing(file: bytes, line: int, function: bytes, error: int, form: bytes) -> None:
    """What ALSA has to tell, PortAudio tells too, by a status or an error."""


_ALSA_HANDLER: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p
)(_say_nothing)  # more arguments follow, which nobody reads


@functools.cache
def _hush_alsa() -> None:
    """ALSA writes of each gap to standard error too, amid the level meter."""
    with contextlib.suppress(OSError, AttributeError):  # no ALSA on this system
        ctypes.CDLL("libasound.so.2").snd_lib_error_set_handler(_ALSA_HANDLER)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two. index: PortAudio's · rate_hz: the one that the device is run at."""

    index: int
    name: str
    rate_hz: int


class SoundCard:
    """Two streams of PortAudio at the rate of the conversation, or at their own where they refuse that."""

    def __init__(self, rate_hz: int, clock: Clock, microphone: str = "", loudspeaker: str = "") -> None:
        """microphone, loudspeaker: number or part of the name, "" for the system's own. Raises `SetupError`."""
        self.rate_hz = rate_hz
        self._clock = clock
        self._library = sound_library()
        with _hushed():
            self.microphone = self._side("input", microphone)
            self.loudspeaker = self._side("output", loudspeaker)
        self._queue = PlayQueue()
        self._streams: list[Any] = []
        self._to_lane = _resampler(self.microphone.rate_hz, rate_hz)
        self._to_device = _resampler(rate_hz, self.loudspeaker.rate_hz)
        self._playing = ""
        self._held_ns = 0
        """How much of the microphone's sound its resampler holds back."""
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- who they are ----------------------------------------------------------------------------------------

    def _side(self, kind: str, wanted: str) -> Side:
        library = self._library
        try:
            found = library.query_devices(int(wanted) if wanted.isdecimal() else wanted or None, kind)
        except (ValueError, library.PortAudioError) as error:
            if not wanted:
                raise _no_device("microphone" if kind == "input" else "loudspeaker") from error
            raise SetupError(
                f"--{kind}-device {wanted}: {error}", "List what there is: duologue talk --devices"
            ) from error
        if not found[f"max_{kind}_channels"]:
            raise SetupError(
                f"--{kind}-device {wanted}: {found['name']} has no {kind}",
                "List what there is: duologue talk --devices",
            )
        return Side(found["index"], found["name"], self._rate(kind, found))

    def _rate(self, kind: str, found: dict[str, Any]) -> int:
        check = getattr(self._library, f"check_{kind}_settings")
        try:
            check(device=found["index"], channels=1, dtype="int16", samplerate=self.rate_hz)
        except self._library.PortAudioError:
            return int(found["default_samplerate"])
        return self.rate_hz

    # ---- to and fro ------------------------------------------------------------------------------------------

    def start(self, ears: Ears) -> None:
        with _hushed():
            self._start(ears)

    def _start(self, ears: Ears) -> None:
        self._loop = asyncio.get_running_loop()
        library, options = self._library, {"channels": 1, "dtype": "int16"}
        try:
            for make, side, callback in (
                (library.OutputStream, self.loudspeaker, self._on_output(ears)),
                (library.InputStream, self.microphone, self._on_input(ears)),
            ):
                stream = make(
                    device=side.index,
                    samplerate=side.rate_hz,
                    blocksize=side.rate_hz * BLOCK_MS // 1000,
                    callback=callback,
                    finished_callback=lambda name=side.name: self._tell(ears.failed, f"{name} has stopped"),
                    **options,
                )
                self._streams.append(stream)
                stream.start()
        except library.PortAudioError as error:
            self.stop()
            raise SetupError(
                f"{side.name} cannot be opened: {error}", "Choose another one: duologue talk --devices lists them"
            ) from error

    def play(self, reply: str, pcm: Pcm) -> None:
        if self._to_device is not None:
            if reply != self._playing:
                self._to_device.clear()
                self._playing = reply
            pcm = to_pcm16(self._to_device.resample_chunk(to_float(pcm)))
        self._queue.put(reply, pcm)

    def drop(self) -> None:
        self._queue.drop()

    def stop(self) -> None:
        self._loop = None
        streams, self._streams = self._streams, []
        for stream in streams:
            with contextlib.suppress(self._library.PortAudioError):  # it is gone already
                stream.abort()
                stream.close()

    # ---- in PortAudio's threads ------------------------------------------------------------------------------

    def _on_input(self, ears: Ears) -> Callable[..., None]:
        rate_hz, now_ns = self.microphone.rate_hz, self._clock.now_ns

        def callback(data: Any, samples: int, stamps: Any, status: Any) -> None:
            handed_ns = now_ns()
            ago_ns = _ago_ns(stamps.currentTime - stamps.inputBufferAdcTime)
            at_ns = handed_ns - (samples_to_ns(samples, rate_hz) if ago_ns is None else ago_ns)
            self._tell(self._hear, ears, Heard(data[:, 0].copy(), at_ns, handed_ns, bool(status.input_overflow)))

        return callback

    def _on_output(self, ears: Ears) -> Callable[..., None]:
        now_ns = self._clock.now_ns
        was_sounding = False

        def callback(data: Any, samples: int, stamps: Any, status: Any) -> None:
            nonlocal was_sounding
            given_ns = now_ns()
            pieces = self._queue.take(data[:, 0])
            if pieces or was_sounding:
                ahead_ns = _ago_ns(stamps.outputBufferDacTime - stamps.currentTime) or 0
                late = bool(status.output_underflow) and was_sounding
                sounded = Sounded(data[:, 0].copy(), given_ns + ahead_ns, given_ns, pieces, late)
                self._tell(self._sound, ears, sounded)
            was_sounding = bool(pieces)

        return callback

    def _tell(self, told: Callable[..., None], *what: object) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(told, *what)

    # ---- in the event loop -----------------------------------------------------------------------------------

    def _hear(self, ears: Ears, heard: Heard) -> None:
        if self._loop is None:
            return
        if self._to_lane is not None:
            pcm = to_pcm16(self._to_lane.resample_chunk(to_float(heard.pcm)))
            # What the filter holds back comes with a later frame; positions on the lane stay exact.
            took_ns = samples_to_ns(len(heard.pcm), self.microphone.rate_hz)
            heard, held_ns = Heard(pcm, heard.at_ns - self._held_ns, heard.handed_ns, heard.lost), self._held_ns
            self._held_ns = held_ns + took_ns - samples_to_ns(len(pcm), self.rate_hz)
        ears.heard(heard)

    def _sound(self, ears: Ears, sounded: Sounded) -> None:
        if self._loop is None:
            return
        device_hz, rate_hz = self.loudspeaker.rate_hz, self.rate_hz
        if device_hz != rate_hz:

            def ours(samples: int) -> int:
                return samples * rate_hz // device_hz

            pieces = tuple(
                Piece(one.reply, ours(one.first_sample), ours(one.offset), ours(one.samples)) for one in sounded.pieces
            )
            pcm = to_pcm16(np.asarray(soxr.resample(to_float(sounded.pcm), device_hz, rate_hz), dtype=np.float32))
            sounded = Sounded(pcm, sounded.at_ns, sounded.given_ns, pieces, sounded.late)
        ears.sounded(sounded)


def _resampler(from_hz: int, to_hz: int) -> Any:
    return None if from_hz == to_hz else soxr.ResampleStream(from_hz, to_hz, 1, dtype="float32", quality="HQ")


def _ago_ns(difference_s: float) -> int | None:
    """A span between two of the device's own stamps; None where it cannot be one."""
    ago_ns = round(difference_s * NS_PER_S)
    return ago_ns if 0 < ago_ns < _LONGEST_NS else None


def _no_device(what: str) -> SetupError:
    return SetupError(
        f"there is no {what} on this machine",
        "Plug one in, or start the sound server; `duologue talk --devices` lists what there is",
    )
