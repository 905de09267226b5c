"""WAV headers in a stream of raw PCM: no byte of one is a sample, and what each says against the session is named."""

from __future__ import annotations

import base64
import io
import itertools
import json
import struct
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from clients.events import Fault, PeerEvent, ReplyAudio, ReplyFormat
from clients.openai_realtime import OpenAIRealtimeInterpreter
from clients.wire.wav_headers import WavFormat, WavHeader, WavHeaders
from harness.results.derive import derive
from metrics.length import OTHER_FORMAT
from metrics.result import Unavailable
from servers.replay.recording import recording_of
from sessions.runs import Limits
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.peers import Wire, created, done, greet, raw_audio, request, sleep_ms, tone

TONE = tone(920)
CHUNKS = [TONE[first : first + 480] for first in range(0, len(TONE), 480)]
QUICK = Limits(connect_s=2, reply_s=60, idle_s=5)


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + bytes(len(body) & 1)


def wav(
    pcm: Any = (), *, rate_hz: int = 24_000, channels: int = 1, bits: int = 16, encoding: int = 1, **layout: Any
) -> bytes:
    """A WAV file. before, behind: chunks around its samples · sizes: what it says of them, None for the truth."""
    data = np.asarray(pcm, dtype="<i2").tobytes()
    block = channels * bits // 8
    form = chunk(b"fmt ", struct.pack("<HHIIHH", encoding, channels, rate_hz, rate_hz * block, block, bits))
    before: bytes = layout.get("before", b"")
    behind: bytes = layout.get("behind", b"")
    said: int | None = layout.get("sizes")
    riff = 4 + len(form + before) + 8 + len(data) + len(behind) if said is None else said
    head = b"RIFF" + struct.pack("<I", riff) + b"WAVE" + form + before
    return head + b"data" + struct.pack("<I", len(data) if said is None else said) + data + behind


LIST = chunk(b"LIST", b"INFOISFT\x0e\x00\x00\x00Lavf61.7.100\x00\x00")
ODD = chunk(b"note", b"odd")


def written_by_soundfile(subtype: str = "PCM_16", **how: Any) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, TONE, 24_000, format="WAV", subtype=subtype, **how)
    return file.getvalue()


def deltas(*pieces: bytes) -> list[dict[str, Any]]:
    return [raw_audio("r", base64.b64encode(piece).decode()) for piece in pieces]


def read(*pieces: bytes) -> tuple[np.ndarray[Any, np.dtype[np.int16]], list[PeerEvent]]:
    """The samples of a reply that came in these pieces, and what else the interpreter says up to its end."""
    interpreter = OpenAIRealtimeInterpreter()
    events: list[PeerEvent] = []
    for message in [*deltas(*pieces), done("r")]:
        events += interpreter.feed(json.dumps(message).encode())
    pcm = [event.pcm for event in events if isinstance(event, ReplyAudio)]
    return np.concatenate(pcm), [event for event in events if isinstance(event, Fault | ReplyFormat)]


def kinds(events: list[PeerEvent]) -> list[str]:
    return [event.kind for event in events if isinstance(event, Fault)]


# ---- where headers are ---------------------------------------------------------------------------------------------

STREAMS = {
    "once, true sizes": wav(TONE),
    "once, size of the first chunk": wav(CHUNKS[0]) + TONE[480:].tobytes(),
    "once, sizes not known": wav(TONE, sizes=0xFFFFFFFF),
    "once, sizes of 0": wav(TONE, sizes=0),
    "in every chunk": b"".join(wav(pcm) for pcm in CHUNKS),
    "in every chunk, sizes not known": b"".join(wav(pcm, sizes=0xFFFFFFFF) for pcm in CHUNKS),
    "other chunks before and behind": b"".join(wav(pcm, before=LIST + ODD, behind=ODD + LIST) for pcm in CHUNKS),
    "by a library, extensible": written_by_soundfile(),
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("sizes", [[10_000_000], [1004], [960], [1], [3, 1, 41], [20, 24, 960], [4, 4, 4, 36, 996]])
def test_no_byte_of_a_header_is_a_sample_however_the_stream_is_cut(stream: str, sizes: list[int]) -> None:
    data, pieces, at = STREAMS[stream], [], 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            break
        pieces.append(data[at : at + size])
        at += size
    pcm, said = read(*pieces)
    assert np.array_equal(pcm, TONE)
    headers = 46 if stream.startswith(("in every", "other")) else 1
    assert kinds(said) == ["wav header"] * headers
    assert isinstance(said[0], Fault) and "24000 Hz, 16 bit, mono" in said[0].detail


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=40), st.sampled_from(sorted(STREAMS)))
def test_any_cut_gives_the_same_samples(sizes: list[int], stream: str) -> None:
    data, headers, found, at = STREAMS[stream], WavHeaders(), b"", 0
    for size in [*sizes, len(data)]:
        found += b"".join(part for part in headers.feed(data[at : at + size]) if isinstance(part, bytes))
        at += size
    found += b"".join(part for part in headers.end() if isinstance(part, bytes))
    assert found == TONE.tobytes()


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_what_holds_no_header_passes_as_it_is(pieces: list[bytes]) -> None:
    headers = WavHeaders()
    parts = [part for piece in pieces for part in headers.feed(piece)] + headers.end()
    if not any(isinstance(part, WavHeader) for part in parts):
        assert b"".join(part for part in parts if isinstance(part, bytes)) == b"".join(pieces)


@pytest.mark.parametrize("first", [b"R", b"RI", b"RIF", b"RIFF", b"RIFF\0\0\0\0WAV"])
def test_samples_that_look_like_the_beginning_of_a_header_are_samples(first: bytes) -> None:
    for pieces in ([first, b"\1\2\3"], [first], [first, b"", wav(CHUNKS[0])]):
        pcm, said = read(*pieces)
        joined = b"".join(piece for piece in pieces if piece[:8] != wav()[:8] and len(piece) < 100)
        whole = np.frombuffer(joined[: len(joined) & ~1], dtype="<i2")
        assert np.array_equal(pcm[: len(whole)], whole)
        assert ("wav header" in kinds(said)) == (len(pieces) == 3)


def test_a_header_behind_half_a_sample_does_not_shift_what_follows() -> None:
    pcm, said = read(wav(CHUNKS[0]) + b"\x07", wav(CHUNKS[1]))
    assert np.array_equal(pcm, TONE[:960])
    assert kinds(said) == ["wav header", "half sample", "wav header"]


@pytest.mark.parametrize(
    ("stream", "samples"),
    [
        (wav()[:20], 0),
        (b"RIFF\0\0\0\0WAVE\0\1\2\3\4\5\6\7" + TONE.tobytes(), 4 + len(TONE)),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0" + TONE.tobytes(), len(TONE)),
        (b"RIFF\0\0\0\0WAVELIST\xff\xff\xff\x7f" + TONE.tobytes(), 4 + len(TONE)),
        (b"RIFF\0\0\0\0WAVE" + chunk(b"fmt ", b"\1\0") + b"data\0\0\0\0" + TONE.tobytes(), len(TONE)),
    ],
)
def test_a_damaged_header_is_named_and_swallows_no_sound(stream: bytes, samples: int) -> None:
    pcm, said = read(stream)
    assert len(pcm) == samples
    assert kinds(said) == ["wav header"] and isinstance(said[0], Fault) and "damaged" in said[0].detail


@given(st.binary(max_size=60), st.binary(max_size=300), st.integers(1, 50))
def test_nothing_behind_an_opening_raises(head: bytes, rest: bytes, size: int) -> None:
    data, headers = b"RIFF\1\2\3\4WAVE" + head + rest, WavHeaders()
    for at in range(0, len(data), size):
        headers.feed(data[at : at + size])
    headers.end()


# ---- what they say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "kind", "says"),
    [
        (wav(rate_hz=16_000), "wav rate", "the WAV header says 16000 Hz, the session 24000 Hz"),
        (wav(bits=8), "wav sample format", "the WAV header says 8 bit, the session 16 bit"),
        (wav(bits=32, encoding=3), "wav sample format", "the WAV header says 32 bit float, the session 16 bit"),
        (wav(bits=8, encoding=7), "wav sample format", "8 bit µ-law"),
        (wav(channels=2), "wav channels", "the WAV header says 2 channels, the session mono"),
        (written_by_soundfile("PCM_24")[:80], "wav sample format", "24 bit"),
    ],
)
def test_each_contradiction_has_its_own_name(header: bytes, kind: str, says: str) -> None:
    pcm, said = read(header[: header.index(b"data") + 8] + TONE.tobytes())
    assert np.array_equal(pcm, TONE), "the samples stay as they came"
    assert kinds(said) == ["wav header", kind]
    assert says in next(event.detail for event in said if isinstance(event, Fault) and event.kind == kind)
    assert sum(isinstance(event, ReplyFormat) for event in said) == 1


def test_a_format_is_told_in_words() -> None:
    assert str(WavFormat(1, 1, 24_000, 16)) == "24000 Hz, 16 bit, mono"
    assert str(WavFormat(3, 6, 8_000, 32)) == "8000 Hz, 32 bit float, 6 channels"
    assert str(WavFormat(85, 2, 44_100, 0)) == "44100 Hz, 0 bit of encoding 85, stereo"


# ---- from end to end -----------------------------------------------------------------------------------------------


def talk(*pieces: bytes, every_ms: float = 20) -> Played:
    """One turn, answered by a reply whose audio comes in `pieces`."""

    async def peer(wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        await wire.send(created("r"))
        for message in deltas(*pieces):
            await wire.send(message)
            await sleep_ms(wire, every_ms)
        await wire.send(done("r"))

    return play_virtual(peer, limits=QUICK)


def test_a_whole_file_in_every_packet_is_its_samples_and_one_remark_with_a_count() -> None:
    played = talk(*(wav(pcm) for pcm in CHUNKS))
    (reply,) = played.derived.conversation.replies
    assert np.array_equal(np.concatenate([packet.pcm for packet in reply.packets]), TONE)
    assert played.ms(0, "reply_duration_ms") == 920.0 and played.ms(0, "underruns_b0") == 0
    said = "wav header: a WAV header in the audio (24000 Hz, 16 bit, mono), though the session's is raw PCM"
    assert played.turns[0].flags == [f"protocol fault: {said} (46 times)"]
    assert played.turns[0].outcome == "answered"


def test_a_header_alone_is_no_first_packet() -> None:
    header, rest = wav(CHUNKS[0])[:44], CHUNKS[0].tobytes()
    played = talk(header[:7], header[7:30], header[30:], rest)
    assert played.ms(0, "first_packet_ms") == 60.0 and played.ms(0, "reply_duration_ms") == 20.0


def test_another_rate_changes_no_sample_and_puts_the_length_in_doubt() -> None:
    played = talk(wav(CHUNKS[0], rate_hz=16_000), *(pcm.tobytes() for pcm in CHUNKS[1:]))
    (reply,) = played.derived.conversation.replies
    assert np.array_equal(np.concatenate([packet.pcm for packet in reply.packets]), TONE)
    turn = played.turns[0]
    assert "protocol fault: wav rate: the WAV header says 16000 Hz, the session 24000 Hz" in turn.flags
    assert turn.flags[-1] == (
        "length in doubt: 920 ms as the session has it, 1380 ms by the WAV header (16000 Hz, 16 bit, mono)"
    )
    for name in ("reply_duration_ms", "real_time_factor", "underruns_b0", "gapless_prebuffer_ms"):
        assert turn.measures[name] == Unavailable(OTHER_FORMAT)
    assert played.ms(0, "first_packet_ms") == 0.0 and played.ms(0, "voice_to_voice_ms") == 0.0


HOSTILE = [
    [wav(pcm) for pcm in CHUNKS],
    [*(pcm.tobytes() for pcm in CHUNKS[:3]), *(wav(pcm) for pcm in CHUNKS[3:])],
    [CHUNKS[0].tobytes(), wav(CHUNKS[1])[:2], wav(CHUNKS[1])[2:13], wav(CHUNKS[1])[13:], CHUNKS[2].tobytes()],
    [CHUNKS[0].tobytes(), wav(CHUNKS[1])[:3], wav(CHUNKS[1])[3:], *(wav(pcm) for pcm in CHUNKS[2:6])],
    [TONE[:481].tobytes()[:-1], b"R", wav(CHUNKS[1])[1:], CHUNKS[2].tobytes()],
]


@pytest.mark.parametrize("pieces", HOSTILE)
@pytest.mark.parametrize("every_ms", [0, 20])
def test_the_live_client_counts_what_the_record_tells(
    pieces: list[bytes], every_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers in later packets too, which the short way for audio would count by their length."""
    from harness.dialogue import tracker

    heard: list[int] = []
    original = tracker.LiveReply.hear

    def hear(self: tracker.LiveReply, samples: int, t_ns: int, rate_hz: int) -> None:
        heard.append(samples)
        original(self, samples, t_ns, rate_hz)

    monkeypatch.setattr(tracker.LiveReply, "hear", hear)
    played = talk(*pieces, every_ms=every_ms)
    (reply,) = played.derived.conversation.replies
    assert sum(heard) == sum(len(packet.pcm) for packet in reply.packets)
    again = derive(played.record.log(), bytes(played.record.received))
    assert [p.pcm.tolist() for p in again.conversation.replies[0].packets] == [p.pcm.tolist() for p in reply.packets]


def test_a_replay_gives_the_headers_again() -> None:
    played = talk(*(wav(pcm) for pcm in CHUNKS))
    sound = utterance().pcm
    recording = recording_of(
        "d", played.record.log(), bytes(played.record.received), {0: sound}, OpenAIRealtimeInterpreter()
    )
    interpreter = OpenAIRealtimeInterpreter()
    events = [event for answer in recording.answers if answer.data for event in interpreter.feed(answer.data)]
    assert sum(len(event.pcm) for event in events if isinstance(event, ReplyAudio)) == len(TONE)
