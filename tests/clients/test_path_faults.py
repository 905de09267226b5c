"""Real dialogues over a path of our own that delays, stalls, trickles and cuts: what the client reports is compared
with the path's own log.

Client, path and server share one event loop, so order decides and no time does: what left the path in one turn of the
loop is stamped by the client in the next, before any timer that was still to come.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import trustme

from clients.transports import Transport
from clients.transports.websocket import WebSocketTransport, open_websocket
from harness.dialogue.record import TurnToSpeak
from sessions.clock import NS_PER_MS, MonotonicClock
from sessions.errors import ConnectFailed, ConnectTimeout, TransportError
from sessions.events import Received
from sessions.runs import Limits
from sessions.secrets import Secrets
from tests.support.dialogues import Played, perform, utterance
from tests.support.fault_proxy import Cut, FaultProxy, How, Path, Stall, Trickle, fault_proxy
from tests.support.peers import Peer, Wire, audio, created, done, greet, on_a_socket, request, sleep_ms, tone

pytestmark = pytest.mark.sockets
CLOCK = MonotonicClock()
LENIENT = Limits(connect_s=20, reply_s=20, idle_s=10, lateness_ms=10_000)
"""For a busy machine: here only the path is judged, never the pace."""
IMPATIENT = Limits(connect_s=1.5, reply_s=20, idle_s=1.5, lateness_ms=10_000)
PACKETS = 6
MIDST_BYTES = 6_000
"""So many from the server lie in the midst of `answers`' packets, each of 2.7 kB: after the first, before the last."""


async def dial(url: str, timeout_s: float = 20, tls: ssl.SSLContext | None = None) -> WebSocketTransport:
    return await open_websocket(
        url, headers={}, clock=CLOCK, timeout_s=timeout_s, byte_cap=2**28, secrets=Secrets(), tls=tls
    )


async def answers(wire: Wire) -> None:
    """Six packets of 40 ms, 15 ms apart."""
    await greet(wire)
    for reply in (f"r{number}" for number in itertools.count()):
        await request(wire)
        await wire.send(created(reply))
        await sleep_ms(wire, 15)
        for _ in range(PACKETS):
            await wire.send(audio(reply, tone(40)))
            await sleep_ms(wire, 15)
        await wire.send(done(reply))


async def talk(url: str, turns: Sequence[TurnToSpeak], limits: Limits = LENIENT) -> Played:
    async def connect() -> Transport:
        return await dial(url, limits.connect_s)

    return await perform(connect, CLOCK, turns, limits=limits)


async def talk_over(
    up: Path, down: Path, *, peer: Peer = answers, limits: Limits = LENIENT, speech_ms: float = 200
) -> tuple[Played, FaultProxy]:
    """One turn over such a path."""
    async with (
        on_a_socket(peer, CLOCK) as target,
        fault_proxy(target, CLOCK, up=up, down=down, keep=True) as proxy,
    ):
        return await talk(proxy.url, [utterance(speech_ms, gap_ms=0)], limits), proxy


@dataclass(frozen=True, slots=True)
class Stamped:
    """A message as the client stamped it, and when its first and last byte left the path, and the next byte after it.

    next_ns: None where nothing came after it.
    """

    t_ns: int
    first_ns: int
    first_left_ns: int
    last_left_ns: int
    next_ns: int | None
    has_audio: bool


def stamped(played: Played, proxy: FaultProxy) -> list[Stamped]:
    """Each message of the dialogue."""
    stream, pieces = proxy.stream("down"), proxy.passed("down")
    begins = [piece.first_byte for piece in pieces]

    def left_ns(byte: int) -> int:
        return pieces[bisect.bisect_right(begins, byte) - 1].leave_ns

    messages, at = [], 0
    for event in (event for event in played.record.events if isinstance(event, Received)):
        payload = bytes(played.record.received[event.offset : event.offset + event.length])
        begin = stream.index(payload, at)
        at = begin + len(payload)
        head = begin - (2 if len(payload) < 126 else 4)
        later = next((piece.leave_ns for piece in pieces if piece.first_byte >= at), None)
        has_audio = b"output_audio.delta" in payload
        messages.append(Stamped(event.t_ns, event.first_ns, left_ns(head), left_ns(at - 1), later, has_audio))
    assert sum(message.has_audio for message in messages) == PACKETS
    return messages


def check_stamps(messages: Sequence[Stamped]) -> None:
    """No stamp is before its bytes left the path, and each is before what left the path after it."""
    for message in messages:
        assert message.first_left_ns <= message.first_ns <= message.t_ns
        assert message.last_left_ns <= message.t_ns
        assert message.next_ns is None or message.t_ns < message.next_ns


def check_reply(played: Played) -> None:
    (turn,) = played.turns
    assert turn.outcome == "answered", turn.detail
    (reply,) = played.derived.conversation.replies
    assert np.array_equal(np.concatenate([packet.pcm for packet in reply.packets]), np.tile(tone(40), PACKETS))


# ---- the path is slow ----------------------------------------------------------------------------------------------


async def test_a_delay_is_in_the_latency_to_the_paths_own_log_and_not_in_the_lateness() -> None:
    """20 ms up, 60 ms down: what is reported lies between the path's leave of that packet and of the next one."""
    played, proxy = await talk_over(Path(delay_ms=20), Path(delay_ms=60))
    check_reply(played)
    messages = stamped(played, proxy)
    check_stamps(messages)
    instants = played.turns[0].instants_ns
    first = next(message for message in messages if message.has_audio)
    assert instants["first_packet"] == first.t_ns
    assert played.ms(0, "first_packet_ms") == (first.t_ns - instants["speech_end"]) / NS_PER_MS
    for delay_ms, passed in ((20, proxy.passed("up")), (60, proxy.passed("down"))):
        assert all(piece.leave_ns - piece.arrival_ns >= delay_ms * NS_PER_MS for piece in passed)
    asked_ns = min(p.leave_ns for p in proxy.passed("up") if p.arrival_ns >= instants["turn_committed"])
    assert first.t_ns - instants["turn_committed"] >= 80 * NS_PER_MS
    assert first.t_ns > asked_ns + 60 * NS_PER_MS
    frames = played.derived.conversation.turns[0].frames
    assert played.ms(0, "send_lateness_max_ms") == max(f.sent_ns - f.due_ns for f in frames) / NS_PER_MS


async def test_a_stall_is_a_gap_of_its_own_length_and_no_stamp_moves() -> None:
    """Nothing leaves for 200 ms in the midst of the reply; then all that waited comes at once."""
    played, proxy = await talk_over(Path(), Path(stall=Stall(MIDST_BYTES, 200)))
    check_reply(played)
    messages = stamped(played, proxy)
    check_stamps(messages)
    sound = [message.t_ns for message in messages if message.has_audio]
    gaps = [after - before for before, after in itertools.pairwise(sound)]
    assert max(gaps) >= 200 * NS_PER_MS
    assert played.ms(0, "gap_max_ms") == pytest.approx(max(gaps) / NS_PER_MS)
    assert played.ms(0, "underruns_b0") >= 1


async def test_one_byte_at_a_time_each_message_is_stamped_by_its_last_byte() -> None:
    """Both ways; the server hears the user whole, the client the reply."""
    played, proxy = await talk_over(Path(trickle=Trickle(7)), Path(trickle=Trickle(1)))
    check_reply(played)
    messages = stamped(played, proxy)
    check_stamps(messages)
    assert max(piece.bytes for piece in proxy.passed("down")) == 1
    long = [message for message in messages if message.has_audio]
    assert all(message.first_ns < message.t_ns for message in long), "first and last byte came apart"
    assert all(before.t_ns < after.first_ns for before, after in itertools.pairwise(messages))


# ---- the path breaks while the connection is made ------------------------------------------------------------------

ANY: list[How] = ["fin", "reset", "half close", "black hole"]
BREAKS: dict[How, type[TransportError]] = {
    "fin": ConnectFailed,
    "reset": ConnectFailed,
    "half close": ConnectFailed,
    "black hole": ConnectTimeout,
}


def tls_pair() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the server, and for a client that trusts it."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


async def idle(wire: Wire) -> None:
    await wire.receive()


@pytest.mark.parametrize(
    ("at", "secure"),
    [
        (Cut("fin", after_bytes=0), False),
        (Cut("fin", after_bytes=0), True),
        (Cut("fin", after_bytes=100), True),
        (Cut("fin", after_bytes=25), False),
        (Cut("fin", after_text=b"HTTP/1.1 101"), False),
    ],
    ids=["accepted", "accepted, TLS", "in TLS", "in the 101", "the 101 alone"],
)
async def test_a_connection_cut_while_it_is_made_is_one_clear_line(at: Cut, secure: bool) -> None:
    server, client = tls_pair()

    async def broken(how: How, target: str) -> None:
        down = Path(cut=Cut(how, at.after_bytes, at.after_text))
        limit_s = 0.5 if how == "black hole" else 20
        async with fault_proxy(target, CLOCK, down=down) as proxy:
            if at.after_text is not None:  # the upgrade stood: the end comes to whoever reads
                transport = await dial(proxy.url)
                with pytest.raises(TimeoutError if how == "black hole" else TransportError):
                    await asyncio.wait_for(transport.receive(), limit_s)
                transport.abort()
                return
            with pytest.raises(BREAKS[how]) as failed:
                await dial(proxy.url, limit_s, client if secure else None)
        assert "\n" not in str(failed.value) and proxy.url in str(failed.value) and failed.value.mend

    async with on_a_socket(idle, CLOCK, ssl=server if secure else None) as target:
        await asyncio.gather(*(broken(how, target) for how in ANY))


async def test_a_host_that_never_answers_the_first_packet_times_out() -> None:
    """A full backlog: the kernel drops what comes, as a firewall does."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        with pytest.raises(ConnectTimeout, match=r"within 0\.3 s"):
            await dial(f"ws://127.0.0.1:{full.getsockname()[1]}/v1/realtime", 0.3)


# ---- the path breaks in a dialogue ---------------------------------------------------------------------------------

STAGES: dict[str, tuple[Cut, str]] = {
    "session created": (Cut("fin", after_text=b"session.created"), "time-out"),
    "session updated": (Cut("fin", after_text=b"session.updated"), "time-out"),
    "reply created": (Cut("fin", after_text=b"response.created"), "time-out"),
    "mid-audio": (Cut("fin", after_text=b"output_audio.delta"), "no end event"),
}
"""Where the path is cut, and the outcome of a turn where it just falls silent."""
ENDS: dict[How, str] = {"fin": "closed", "half close": "closed", "reset": "reset"}


async def test_a_dialogue_cut_at_each_stage_in_each_manner_is_named_so_and_the_next_one_is_whole() -> None:
    """All at once, each over a path of its own that breaks its first connection and carries the second."""

    async def broken(stage: str, how: How, target: str) -> None:
        at, silent = STAGES[stage]
        limits = IMPATIENT if how == "black hole" else LENIENT
        down = Path(cut=Cut(how, at.after_bytes, at.after_text))
        async with fault_proxy(target, CLOCK, down=down, faulty={0}) as proxy:
            played = await talk(proxy.url, [utterance(100, gap_ms=0), utterance(100)], limits)
            after = await talk(proxy.url, [utterance(100, gap_ms=0)])
        outcome = ENDS.get(how, silent)
        assert [(turn.turn_class, turn.outcome) for turn in played.turns] == [("failed", outcome)] * 2, (stage, how)
        assert after.turns[0].outcome == "answered"

    async with on_a_socket(answers, CLOCK) as target:
        await asyncio.gather(*(broken(stage, how, target) for stage in STAGES for how in ANY))


@pytest.mark.parametrize(("how", "outcome"), ENDS.items())
async def test_a_message_cut_in_its_midst_is_no_message(how: How, outcome: str) -> None:
    """The audio before it is kept; half of a packet is none."""
    played, _ = await talk_over(Path(), Path(cut=Cut(how, MIDST_BYTES)), speech_ms=60)
    assert (played.turns[0].turn_class, played.turns[0].outcome) == ("failed", outcome)
    (reply,) = played.derived.conversation.replies
    heard = np.concatenate([packet.pcm for packet in reply.packets])
    assert len(heard) % len(tone(40)) == 0 and 0 < len(heard) < PACKETS * len(tone(40))
    assert "first_packet" in played.turns[0].instants_ns


async def test_what_the_path_does_not_take_waits_visibly_in_our_own_buffer() -> None:
    """The other end keeps the connection and reads no more: no write waits for it, and `buffered_bytes` tells."""
    up = Path(cut=Cut("black hole", after_bytes=1_000))
    async with on_a_socket(idle, CLOCK) as target, fault_proxy(target, CLOCK, up=up) as proxy:
        transport = await dial(proxy.url)
        for _ in range(1_000):  # kernels take some megabytes
            await transport.send("x" * 60_000)
            if transport.buffered_bytes:
                break
            await asyncio.sleep(0)
        assert transport.buffered_bytes
        before = transport.buffered_bytes
        await transport.send("x" * 60_000)
        assert transport.buffered_bytes > before
        transport.abort()
