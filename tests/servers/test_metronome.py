"""The metronome: the truth is known. To the nanosecond on the virtual clock."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servers.models.behaviour import Behaviour, Call, ConnectionFile, FaultAt, Gap, ReplyPlan, load_behaviour, shipped
from servers.models.metronome import MetronomeServer, Sound, load_metronome, timeline
from servers.speech_model import Audio, Fault, RawAudio, Text, ToolCall
from sessions.errors import BadFile, SetupError
from tests.support.realtime_client import Json, MemoryClient, in_memory, sound, tone, types
from tests.support.virtual_time import VirtualClock, run_virtual

MS = 1_000_000
GATE = 32768 * 10 ** (-45 / 20)


def play(hold: Callable[[MemoryClient], Awaitable[None]], behaviour: Behaviour | None = None, **reply: Any) -> None:
    """Talk to a metronome in memory, on the virtual clock, with manual turns."""

    async def main(clock: VirtualClock) -> None:
        server = MetronomeServer(behaviour or Behaviour(reply=ReplyPlan(**reply)), clock)
        async with in_memory(server, clock) as client:
            await client.session(None)
            await hold(client)

    run_virtual(main)


def packets_ms(client: MemoryClient, since_ns: int) -> list[float]:
    """When the reply's packets were written, by the write log, after `since_ns`."""
    audio = [entry for entry in client.write_log.entries if entry.type == "response.output_audio.delta"]
    return [(entry.t_ns - since_ns) / MS for entry in audio if entry.t_ns > since_ns]


def due_ms(plan: ReplyPlan) -> list[float]:
    """Due times of the audio pieces from the end of the turn."""
    return [t / MS for t, piece in timeline(plan, 0, text_only=False) if isinstance(piece, Audio | RawAudio)]


# ---- instants ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"pace": "burst"}, [300, 300, 300, 300]),
        ({"pace": "realtime"}, [300, 380, 460, 540]),
        ({"pace": "interval", "interval_ms": 12.5}, [300, 312.5, 325, 337.5]),
        ({"pace": "realtime", "leading_silence_ms": 20}, [300, 380, 460, 540]),
        ({"pace": "realtime", "gaps": (Gap(2, 500),)}, [300, 380, 960, 1040]),
        ({"pace": "realtime", "gaps": (Gap(0, 100), Gap(3, 100))}, [400, 480, 560, 740]),
        ({"pace": "realtime", "gaps": (Gap(1, 150, catch_up=True),)}, [300, 530, 530, 540]),
        ({"pace": "burst", "gaps": (Gap(3, 1000),)}, [300, 300, 300, 1300]),
    ],
)
def test_packets_are_due_when_the_behaviour_says(reply: Json, expected: list[float]) -> None:
    plan = ReplyPlan(duration_ms=300 - reply.get("leading_silence_ms", 0), packet_ms=80, **reply)
    assert due_ms(plan) == expected

    async def hold(client: MemoryClient) -> None:
        since_ns = client.clock.now_ns()
        await client.turn()
        assert packets_ms(client, since_ns) == expected

    play(hold, Behaviour(reply=plan))


def test_the_log_tells_what_was_written_when_and_in_order() -> None:
    async def hold(client: MemoryClient) -> None:
        start_ns = client.clock.now_ns()
        await client.turn()
        entries = client.write_log.entries
        assert [entry.type for entry in entries] == [message["type"] for _, message in client.received]
        assert [entry.t_ns for entry in entries] == [t for t, _ in client.received]
        assert sum(entry.samples for entry in entries) == 24_000
        reply = next(m["response"]["id"] for _, m in client.received if m["type"] == "response.created")
        about = {entry.response_id for entry in entries if entry.type.startswith("response.")}
        assert about == {reply}
        assert entries[-1].t_ns - start_ns == (300 + 12 * 80) * MS

    play(hold, duration_ms=1000, packet_ms=80)


def test_words_go_where_they_are_put() -> None:
    async def hold(client: MemoryClient) -> None:
        since_ns = client.clock.now_ns()
        await client.turn()
        instants = {m["type"]: (t - since_ns) / MS for t, m in reversed(client.received)}
        assert instants["response.output_audio_transcript.delta"] == 450
        assert instants["response.output_audio.delta"] == 300

    play(hold, text_delay_ms=450)


def test_the_end_can_be_delayed() -> None:
    async def hold(client: MemoryClient) -> None:
        since_ns = client.clock.now_ns()
        await client.turn()
        assert client.clock.now_ns() - since_ns == (300 + 2000) * MS

    play(hold, pace="burst", end_delay_ms=2000)


def test_ten_minutes_drift_by_nothing() -> None:
    plan = ReplyPlan(duration_ms=600_000, packet_ms=7)
    assert due_ms(plan) == [300 + 7 * n for n in range(-(-600_000 // 7))]


def test_turns_follow_the_behaviour() -> None:
    turns = tuple(ReplyPlan(delay_ms=delay) for delay in (100, 200))
    delays = {
        name: [Behaviour(turns=turns, after_turns=name).plan(index).delay_ms for index in range(5)]
        for name in ("repeat_last", "cycle", "reply")
    }
    assert delays == {
        "repeat_last": [100, 200, 200, 200, 200],
        "cycle": [100, 200, 100, 200, 100],
        "reply": [100, 200, 300, 300, 300],
    }


# ---- sound ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level_dbfs", [-20.0, -44.0, 0.0])
def test_the_tone_is_above_the_gate_from_its_first_sample(level_dbfs: float) -> None:
    plan = ReplyPlan(leading_silence_ms=80, duration_ms=100, level_dbfs=level_dbfs)
    pcm = Sound(plan).pcm(0, 180 * 24)
    assert not pcm[: 80 * 24].any()
    assert pcm[80 * 24] >= GATE
    blocks = pcm[80 * 24 :].reshape(-1, 120).astype(float)
    assert (blocks.std(axis=1) >= GATE).all() or level_dbfs < -41


def test_any_stretch_of_the_sound_is_the_same_as_the_whole() -> None:
    whole_sound = Sound(ReplyPlan(leading_silence_ms=30, leading_noise_dbfs=-50, duration_ms=50, fade_in_ms=20))
    whole = whole_sound.pcm(0, whole_sound.samples)
    assert len(whole) == 80 * 24
    for start, end in [(0, 1), (719, 721), (100, 1919), (720, 1920), (1919, 1920), (5, 5)]:
        assert np.array_equal(whole_sound.pcm(start, end), whole[start:end])
        assert whole_sound.data(2 * start + 1, 2 * end) == whole.tobytes()[2 * start + 1 : 2 * end]


def test_what_may_sound_before_the_tone() -> None:
    def lead(**fields: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        return Sound(ReplyPlan(**fields)).pcm(0, fields["leading_silence_ms"] * 24) / 32768

    noise = lead(leading_silence_ms=600, leading_noise_dbfs=-50.5)
    assert abs(20 * np.log10(noise.std()) + 50.5) < 0.2
    assert np.allclose(lead(leading_silence_ms=300, leading_offset=0.01), 0.01, atol=1e-4)
    click = lead(leading_silence_ms=403, leading_click_ms=3)
    assert np.abs(click[: 3 * 24]).max() > 0.4
    assert not click[3 * 24 :].any()


@pytest.mark.parametrize("text_only", [True, False])
def test_text_only_replies_have_no_sound(text_only: bool) -> None:
    kinds = {type(piece) for _, piece in timeline(ReplyPlan(), 0, text_only=text_only)}
    assert kinds == ({Text} if text_only else {Text, Audio})


def test_packets_cut_at_any_byte() -> None:
    async def hold(client: MemoryClient) -> None:
        events = await client.turn()
        sizes = [len(base64.b64decode(e["delta"])) for e in events if e["type"] == "response.output_audio.delta"]
        assert sizes[:6] == [4063, 1697, 1, 3, 4063, 1697]
        assert np.array_equal(sound(events), Sound(ReplyPlan(duration_ms=1000)).pcm(0, 24_000))
        assert sum(entry.samples for entry in client.write_log.entries) == 24_000

    play(hold, packet_bytes=(4063, 1697, 1, 3), duration_ms=1000)


def test_one_message_may_hold_twenty_megabytes() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.event("response.done")
        assert max(map(len, client.raw)) > 20_000_000

    play(hold, load_behaviour("flood"))


# ---- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before_ms", [0, 400])
@pytest.mark.parametrize(
    ("fault", "status", "details"),
    [
        (
            FaultAt("error", code="rate_limit_exceeded", message="slow down"),
            "failed",
            {"error": {"type": "server_error", "code": "rate_limit_exceeded", "message": "slow down"}},
        ),
        (FaultAt("incomplete"), "incomplete", {"reason": "max_output_tokens"}),
        (FaultAt("incomplete", code="content_filter"), "incomplete", {"reason": "content_filter"}),
        (FaultAt("cancelled"), "cancelled", {"reason": "turn_detected"}),
        (FaultAt("cancelled", code="client_cancelled"), "cancelled", {"reason": "client_cancelled"}),
    ],
)
def test_endings_that_are_no_success(fault: FaultAt, status: str, details: Json, before_ms: int) -> None:
    async def hold(client: MemoryClient) -> None:
        for _ in range(2):
            events = await client.turn()
            response = events[-1]["response"]
            assert response["status"] == status
            assert response["status_details"] == {"type": status, **details}
            assert len(sound(events)) == before_ms * 24

    play(hold, duration_ms=before_ms, text="", faults=(fault,))


def test_a_fault_in_the_middle_ends_the_reply_there() -> None:
    async def hold(client: MemoryClient) -> None:
        events = await client.turn()
        assert len(sound(events)) == 3 * 80 * 24
        assert events[-1]["response"]["status"] == "incomplete"

    play(hold, faults=(FaultAt("incomplete", at_packet=3),))


def test_close_and_reset() -> None:
    async def close(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.ended()
        assert client.closed == (1001, "going away")
        assert not client.aborted
        assert len(sound(client.unread())) == 24_000

    async def reset(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.ended()
        assert client.aborted

    play(close, load_behaviour("closes"))
    play(reset, load_behaviour("resets"))


def test_silence_leaves_the_reply_open_until_it_is_cancelled() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.clock.sleep_until_ns(client.clock.now_ns() + 3_600_000 * MS)
        assert "response.done" not in types(client.unread())
        await client.send("response.cancel")
        assert (await client.event("response.done"))["response"]["status"] == "cancelled"

    play(hold, load_behaviour("unfinished"))


def test_audio_after_the_end() -> None:
    async def hold(client: MemoryClient) -> None:
        since_ns = client.clock.now_ns()
        events = await client.turn()
        assert events[-1]["response"]["status"] == "completed"
        assert len(sound(events)) == 900 * 24
        await client.clock.sleep_until_ns(client.clock.now_ns() + 1000 * MS)
        late = client.unread()
        assert types(late) == ["response.output_audio.delta"] * 3
        assert {e["response_id"] for e in late} == {events[-1]["response"]["id"]}
        assert packets_ms(client, since_ns) == [300] * 10 + [600] * 2
        assert (await client.turn())[-1]["response"]["status"] == "completed"

    play(hold, load_behaviour("late-audio"))


def test_garbage_is_sent_as_it_stands() -> None:
    async def hold(client: MemoryClient) -> None:
        deltas = []
        for number in range(7):
            events = await client.turn()
            deltas += [e["delta"] for e in events if e["type"] == "response.output_audio.delta"][2:3]
            assert events[-1]["response"]["status"] == "completed", number
        assert "this is {not JSON" in client.raw
        assert "[1, 2, 3]" in client.raw
        assert deltas[2:] == ["AAA*AAAA", "AAAAAA", "AAAA\nAAAA", "AA-_", ""]

    play(hold, load_behaviour("garbage"))


def test_endings_without_sound() -> None:
    async def hold(client: MemoryClient) -> None:
        outputs = [(await client.turn())[-1]["response"]["output"] for _ in range(4)]
        assert outputs[0] == []
        assert [item["type"] for item in outputs[1]] == ["function_call"]
        assert outputs[2][0]["content"] == [{"type": "output_text", "text": "This is written and not spoken."}]
        assert outputs[3][0]["content"][0]["type"] == "output_audio"

    play(hold, load_behaviour("soundless"))


def test_a_blocked_loop_is_the_models_own_doing() -> None:
    # On a virtual clock nothing is waited for; on a real one the whole process stands still.
    plan = ReplyPlan(faults=(FaultAt("block_loop", at_packet=2, value=25_000),), tool_call=Call("f"))
    pieces = [piece for _, piece in timeline(plan, 0, text_only=False)]
    kinds = [type(piece).__name__ for piece in pieces[:6]]
    assert kinds == ["Text", "ToolCall", "Audio", "Audio", "_Block", "Audio"]
    assert isinstance(pieces[1], ToolCall)
    assert not any(isinstance(piece, Fault) for piece in pieces)


def test_faults_of_the_connection() -> None:
    async def greeting(clock: VirtualClock) -> None:
        connection = ConnectionFile(greeting_delay_ms=700, first_messages=('{"type":"Welcome"}', "\x00garbage"))
        server = MetronomeServer(Behaviour(connection=connection), clock)
        since_ns = clock.now_ns()
        async with in_memory(server, clock) as client:
            assert client.raw[:2] == ['{"type":"Welcome"}', "\x00garbage"]
            assert client.received[0][0] - since_ns == 700 * MS

    async def mute(clock: VirtualClock) -> None:
        async with in_memory(load_metronome("never-greets", clock=clock), clock, greeted=False) as client:
            await client.send("session.update", session={"type": "realtime"})
            await clock.sleep_until_ns(clock.now_ns() + 60_000 * MS)
            assert client.raw == []

    async def refusing(clock: VirtualClock) -> None:
        async with in_memory(load_metronome("refuses-session", clock=clock), clock) as client:
            await client.send("session.update", event_id="s", session={"type": "realtime"})
            error = (await client.event("error"))["error"]
            assert (error["code"], error["event_id"]) == ("invalid_value", "s")
            assert "not yours" in error["message"]

    async def pinging(clock: VirtualClock) -> None:
        connection = ConnectionFile(ping_interval_ms=1000)
        async with in_memory(MetronomeServer(Behaviour(connection=connection), clock), clock) as client:
            since_ns = clock.now_ns()
            await clock.sleep_until_ns(since_ns + 5500 * MS)
            assert client.raw.count('{"type":"ping"}') == 5
            pings = [entry.t_ns - since_ns for entry in client.write_log.entries if entry.type == "ping"]
            assert pings == [1000 * MS * n for n in range(1, 6)]

    for main in (greeting, mute, refusing, pinging):
        run_virtual(main)


# ---- files ---------------------------------------------------------------------------------------------------------


def test_shipped_behaviours_are_whole() -> None:
    names = shipped()
    assert "steady" in names
    for name in names:
        behaviour = load_behaviour(name)
        assert behaviour.name == name
        assert behaviour.description.endswith("."), name


def test_entries_change_only_what_they_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("version: 1\nreply: {delay_ms: 50, text: Hm.}\nturns:\n  - {delay_ms: 70.5}\n  - {text: ''}\n")
    behaviour = load_behaviour(file)
    assert [(plan.delay_ms, plan.text) for plan in behaviour.turns] == [(70.5, "Hm."), (50, "")]
    assert behaviour.name == "mine"


@pytest.mark.parametrize(
    ("text", "line", "field", "word"),
    [
        ("reply: {}\n", 1, "version", "missing"),
        ("version: 2\n", 1, "version", "Known versions: 1"),
        ("version: 1\nreply:\n  delay: 3\n", 3, "reply.delay", "delay_ms"),
        ("version: 1\nreply:\n\n  delay_ms: -3\n", 4, "reply.delay_ms", ">= 0"),
        ("version: 1\nturns:\n  - {}\n  - pace: fast\n", 4, "turns[1].pace", "burst, realtime, interval"),
        ("version: 1\nreply:\n  faults:\n    - {kind: explode}\n", 4, "reply.faults[0].kind", "late_audio"),
        ("version: 1\nreply:\n  faults:\n    - {kind: block_loop}\n", 4, "reply.faults[0]", "MILLISECONDS"),
        ("version: 1\nreply:\n  interval_ms: 3\n", 3, "reply.interval_ms", "pace: interval"),
        ("version: 1\nreply:\n  leading_click_ms: 3\n", 3, "reply.leading_click_ms", "leading_silence_ms"),
        ("version: 1\nconnection:\n  refuse_status: 200\n", 3, "connection.refuse_status", "400"),
        ("version: 1\nreply: [\n", 3, "", "YAML"),
        ("version: 1\nversion: 1\n", 2, "version", "twice"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str, line: int, field: str, word: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(BadFile) as caught:
        load_behaviour(file)
    assert (caught.value.line, caught.value.field) == (line, field)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_several_mistakes_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("version: 1\nreply: {delay_ms: -1, pace: no, gap: 1}\n")
    with pytest.raises(BadFile, match="2 more in this file"):
        load_behaviour(file)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(SetupError, match="Did you mean 'steady'"):
        load_metronome("stedy")
    with pytest.raises(BadFile, match="cannot be read"):
        load_metronome("missing.yaml")


def test_a_ping_is_json_by_default() -> None:
    assert json.loads(ConnectionFile().ping_message) == {"type": "ping"}


def test_the_example_of_the_manual_is_a_behaviour(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    file = tmp_path / "example.yaml"
    file.write_text(manual.partition("```yaml\n")[2].partition("```")[0])
    behaviour = load_behaviour(file)
    assert [len(plan.faults) for plan in behaviour.turns] == [0, 1]
    for field in [*(one.name for one in dataclasses.fields(ReplyPlan)), *ConnectionFile.__struct_fields__]:
        assert f"`{field}`" in manual, f"docs/serve.md does not explain {field}"
