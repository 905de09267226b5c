"""One reply's audio as bytes that come in pieces: its samples, and what is wrong with it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clients.events import Fault, Pcm
from clients.wire.pcm import PcmJoiner
from clients.wire.wav_headers import Part, WavFormat, WavHeader, WavHeaders

_NOTHING: Pcm = np.zeros(0, dtype=np.int16)


@dataclass(frozen=True, slots=True)
class Piece:
    """What one message brought.

    pcm: int16 (samples,), the samples that became whole with it, whatever a header says of them · faults: what is wrong
    · formats: what headers in it say where that is not what the session said.
    """

    pcm: Pcm
    faults: tuple[Fault, ...] = ()
    formats: tuple[WavFormat, ...] = ()


class ReplyPcm:
    """The audio of one reply of a session whose audio is raw PCM: 16 bit, mono, at `rate_hz`.

    No byte of a WAV header is a sample. What a header says against the session is a fault; the samples stay as they
    came, for nobody can know which of the two is right.
    """

    def __init__(self, rate_hz: int) -> None:
        self.item = ""
        """The peer's name of what the last piece belongs to."""
        self.is_plain = True
        """Its samples can be counted from the length of what comes next."""
        self._rate_hz = rate_hz
        self._headers = WavHeaders()
        self._joiner = PcmJoiner()

    def feed(self, data: bytes) -> Piece:
        """The next bytes, cut anywhere."""
        parts = self._headers.feed(data)
        if len(parts) == 1 and isinstance(parts[0], bytes):  # nearly always
            piece = Piece(self._joiner.feed(parts[0]))
        else:
            piece = self._take(parts)
        self.is_plain = self._headers.is_plain and not self._joiner.half_sample
        return piece

    def end(self) -> Piece:
        """What was held back, once the reply is over."""
        piece = self._take(self._headers.end())
        if not self._joiner.half_sample:
            return piece
        half = Fault("half sample", "the reply's audio ends on half a sample")
        return Piece(piece.pcm, (*piece.faults, half), piece.formats)

    def _take(self, parts: list[Part]) -> Piece:
        pieces, faults, formats = [_NOTHING], [], []
        for part in parts:
            if isinstance(part, bytes):
                pieces.append(self._joiner.feed(part))
                continue
            if self._joiner.half_sample:
                faults.append(Fault("half sample", "the audio before a WAV header ends on half a sample"))
                self._joiner = PcmJoiner()
            faults += _contradictions(part, self._rate_hz)
            if part.format is not None and not _fits(part.format, self._rate_hz):
                formats.append(part.format)
        return Piece(np.concatenate(pieces), tuple(faults), tuple(formats))


def _fits(said: WavFormat, rate_hz: int) -> bool:
    return said == WavFormat(1, 1, rate_hz, 16)


def _contradictions(header: WavHeader, rate_hz: int) -> list[Fault]:
    """All that one header says against a session of raw PCM, each under its own name."""
    said = header.format
    if said is None:
        return [Fault("wav header", "a WAV header in the audio, damaged or cut off, though the session's is raw PCM")]
    found = [Fault("wav header", f"a WAV header in the audio ({said}), though the session's is raw PCM")]
    if said.rate_hz != rate_hz:
        found.append(Fault("wav rate", f"the WAV header says {said.rate_hz} Hz, the session {rate_hz} Hz"))
    if (said.encoding, said.bits) != (1, 16):
        found.append(Fault("wav sample format", f"the WAV header says {said.sample}, the session 16 bit"))
    if said.channels != 1:
        found.append(Fault("wav channels", f"the WAV header says {said.channels} channels, the session mono"))
    return found
