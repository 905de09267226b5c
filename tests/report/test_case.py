"""One turn in an archive: it holds what a vendor needs and nothing that is secret; the same turn, the same bytes."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import soundfile
from click.testing import CliRunner

from harness.case.masking import Masking
from harness.case.pack import pack_case
from harness.cli.case import case as case_command
from harness.export.formats import export_run
from harness.results.finish import finish_dialogues
from harness.runs.planning import Ask, make_plan, store_clips
from harness.runs.run import Access, Watcher, perform_run
from metrics.result import Value
from sessions.clock import TimerWheel
from sessions.errors import BadAudio, SetupError
from sessions.runs import Plan, RunFolder
from sessions.scripts import script_from_audio
from sessions.secrets import Secrets
from tests.report.test_check import recorded
from tests.support.peers import Peer, Wire, audio, created, done, greet, in_memory, request, sleep_ms, text, tone
from tests.support.run_samples import plan
from tests.support.virtual_time import VirtualClock, run_virtual

CANARY = "canary-0123456789abcdef"
SESSION_KEY = "told-by-the-server-4711"


def opened(path: Path) -> dict[str, bytes]:
    """The archive's files by their name, all in one folder that is named as the turn."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {name.partition("/")[0] for name in names} == {path.stem}
        return {name.partition("/")[2]: archive.read(name) for name in names}


def messages(files: dict[str, bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files["messages.jsonl"].decode().splitlines()]


def held(place: Path, peer: Peer, turns: int = 2, **asked: Any) -> RunFolder:
    """A run of one dialogue with a scripted server, on the virtual clock."""
    place.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(turns):
        path = place / f"said-{number}.wav"
        soundfile.write(path, tone(400 + 7 * number), 24_000)
        paths.append(str(path))
    script = script_from_audio(paths)
    run = RunFolder.create(place / "run", make_plan(Ask("ws://memory", [script], **asked), Secrets(), {}))
    store_clips(run, [script])

    async def make(clock: VirtualClock) -> None:
        async with in_memory(peer, clock) as connect:
            access = Access("ws://memory/v1/realtime", {}, "", Secrets())
            await perform_run(run, access, TimerWheel(clock), Watcher(), connect=connect)

    run_virtual(make)
    return run


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_a_case_holds_one_turn_whole(tmp_path: Path, turn_detection: str) -> None:
    run = recorded(tmp_path, turn_detection)
    files = opened(pack_case(run, "d0001/2"))
    assert list(files) == [
        "README.txt",
        "case.json",
        "messages.jsonl",
        "plan.json",
        "events.jsonl",
        "turn.flac",
        "reply.flac",
    ]
    (one,) = finish_dialogues(run)
    seen = json.loads(files["case.json"])["seen"]
    headline = one.turns[1].measures["voice_to_voice_ms"]
    assert isinstance(headline, Value)
    assert seen["measures"]["voice_to_voice_ms"] == pytest.approx(headline.value)
    assert sum(seen["voice_to_voice_parts_ms"].values()) == pytest.approx(headline.value)
    assert seen["instants_ms"]["first_audible"]["from_speech_end"] == pytest.approx(headline.value, abs=0.001)
    assert (seen["class"], seen["outcome"]) == ("completed", "answered")
    asked = msgspec.json.decode(files["plan.json"], type=Plan)
    assert len(asked.scripts) == 1 and len(asked.scripts[0].turns) == 2
    assert "voice-to-voice" in files["README.txt"].decode() and "answers within 120 s" in files["README.txt"].decode()


def test_the_cut_audio_is_that_of_the_instants(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    files = opened(pack_case(run, "d0001:2"))
    lanes, rate_hz = soundfile.read(io.BytesIO(files["turn.flac"]), dtype="int16", always_2d=True)
    whole, _ = soundfile.read(run.dialogue("d0001") / "recording.flac", dtype="int16", always_2d=True)
    (one,) = finish_dialogues(run)
    end_ns = one.turns[1].instants_ns["speech_end"]
    assert one.ready_ns is not None
    shown_ms = json.loads(files["case.json"])["seen"]["instants_ms"]["speech_end"]["in_turn_flac"]
    first = round(((end_ns - one.ready_ns) / 1e6 - shown_ms) * rate_hz / 1000)
    assert shown_ms > 2_000 and first >= 0, "with two seconds before the user begins"
    assert (lanes == whole[first : first + len(lanes)]).all()
    assert first + len(lanes) == len(whole), "the last turn is kept to the end"
    reply, _ = soundfile.read(run.dialogue("d0001") / "reply-2.flac", dtype="int16")
    inside, _ = soundfile.read(io.BytesIO(files["reply.flac"]), dtype="int16")
    assert (reply == inside).all()


def test_messages_are_readable_and_in_order(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    lines = messages(opened(pack_case(run, "d0001/2")))
    assert [line["t_ms"] for line in lines] == sorted(line["t_ms"] for line in lines)
    kinds = [line["message"]["type"] for line in lines if line["direction"] == "in"]
    assert kinds[:2] == ["session.created", "session.updated"], "the set-up came before"
    assert lines[0]["t_ms"] < 0
    assert "response.done" in kinds
    audio_lines = [line for line in lines if line.get("message", {}).get("type") == "response.output_audio.delta"]
    assert audio_lines and all(line["message"]["delta"].endswith("characters of base64)") for line in audio_lines)
    sent = [line for line in lines if line["direction"] == "out"]
    assert [line["what"] for line in sent if line["t_ms"] > 0][-2:] == ["commit", "request"]
    frames = [line for line in sent if line["what"] == "audio"]
    assert frames[-1]["samples"] == run.plan.scripts[0].turns[1].last_sample + 1 and frames[-1]["messages"] > 10
    assert any(line.get("note") == "turn 2 begins (speech)" for line in lines)


async def tells_secrets(wire: Wire) -> None:
    """A server that echoes the key that it was given, and makes others."""
    await wire.send({"type": "session.created", "session": {"client_secret": {"value": SESSION_KEY, "expires_at": 7}}})
    await wire.receive()
    await wire.send({"type": "session.updated", "session": {"echo": CANARY}})
    await request(wire)
    await wire.send(created("r"))
    await wire.send(text("r", f"your key is {CANARY}, see https://u:{CANARY}@files.example/a?sig={CANARY}&model=m"))
    await wire.send(audio("r", tone(100)))
    await wire.send(done("r", "failed", status_details={"error": {"code": "x", "message": f"Bearer {CANARY}"}}))
    await wire.receive()


def test_no_secret_is_in_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record was made without knowing the key, as an import would; the case masks it all the same."""
    run = held(tmp_path, tells_secrets, turns=1, api_key_env="CANARY_KEY")
    assert CANARY.encode() in (run.dialogue("d0001") / "received.bin").read_bytes()
    monkeypatch.setenv("CANARY_KEY", CANARY)
    files = opened(pack_case(run, "d0001/1"))
    for name, data in files.items():
        assert CANARY.encode() not in data and SESSION_KEY.encode() not in data, name
    (session,) = [
        line["message"] for line in messages(files) if line.get("message", {}).get("type") == "session.created"
    ]
    assert session["session"]["client_secret"] == {"value": "***", "expires_at": 7}
    assert "https://files.example/a?sig=***&model=m" in files["messages.jsonl"].decode()


@pytest.mark.parametrize(
    "shown",
    [
        "Authorization: Bearer abcdefgh12345678",
        "key sk-proj-abcdefgh1234",
        "ek_abcdefgh1234",
        "wss://user:passw0rd@host/v1?token=abcdefgh1234",
        "eyJhbGciOiJI.eyJzdWIiOiIx.abcdefgh1234",
        "see http://[not-an-address abcdefgh",
    ],
)
def test_what_looks_like_a_secret_is_masked(shown: str) -> None:
    masked = Masking(plan()).text(shown)
    assert "***" in masked and "abcdefgh1234" not in masked and "passw0rd" not in masked


@pytest.mark.parametrize(
    "shown",
    ["a basic understanding of tasks", "ws://host:80/v1/realtime?model=gpt-x", "sk-1", "risk-free-offer"],
)
def test_what_is_no_secret_stays(shown: str) -> None:
    assert Masking(plan()).text(shown) == shown


def test_names_of_fields_tell_secrets_and_counts_stay() -> None:
    told = {"usage": {"total_tokens": 12, "input_token_details": {"text_tokens": 3}}, "max_output_tokens": "inf"}
    assert Masking(plan()).message(told) == told
    secret = {"access_token": "x", "headers": [{"Authorization": "y"}], "apiKey": "z", "password": None}
    assert Masking(plan()).message(secret) == {
        "access_token": "***",
        "headers": [{"Authorization": "***"}],
        "apiKey": "***",
        "password": None,
    }


async def leaves_after_the_first(wire: Wire) -> None:
    await greet(wire)
    await request(wire)
    await wire.send(created("r"))
    await wire.send(audio("r", tone(300)))
    await wire.send(done("r"))
    await sleep_ms(wire, 1_500)
    await wire.close(1011, "out of order")


def test_a_turn_in_which_the_server_left_can_be_packed(tmp_path: Path) -> None:
    run = held(tmp_path, leaves_after_the_first, turns=3)
    files = opened(pack_case(run, "d0001/2"))
    assert json.loads(files["case.json"])["seen"]["outcome"] == "closed"
    assert any("closed by peer" in line.get("note", "") and "1011" in line["note"] for line in messages(files))
    assert "turn.flac" in files and "reply.flac" not in files


def test_a_turn_that_never_began_has_messages_and_no_audio(tmp_path: Path) -> None:
    run = held(tmp_path, leaves_after_the_first, turns=3)
    files = opened(pack_case(run, "d0001/3"))
    assert "turn.flac" not in files and "reply.flac" not in files
    assert "the turn never began" in files["README.txt"].decode()
    assert any("closed by peer" in line.get("note", "") for line in messages(files))


def test_a_turn_that_was_never_attempted_is_told(tmp_path: Path) -> None:
    run = held(tmp_path, leaves_after_the_first, turns=3)
    log = run.dialogue("d0001") / "events.jsonl"
    kept = [line for line in log.read_bytes().splitlines(True) if b'"gave_up"' not in line or b'"turn":2' not in line]
    log.write_bytes(b"".join(kept))
    with pytest.raises(SetupError, match=r"turn 3 of dialogue d0001 was never attempted.* Its last turn is d0001/2"):
        pack_case(run, "d0001/3")


def test_the_same_turn_gives_the_same_bytes_where_it_is_asked(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    out = tmp_path / "deep" / "d0001-turn-1.zip"
    ran = CliRunner().invoke(case_command, [str(run.path), "d0001/1", "--out", str(out)])
    assert ran.exit_code == 0 and ran.output == f"{out}\n"
    assert pack_case(run, "d0001:1").read_bytes() == out.read_bytes()
    assert (run.path / "cases" / "d0001-turn-1.zip").exists()


def test_a_broken_recording_is_told_with_the_mend(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    finish_dialogues(run)
    (run.dialogue("d0001") / "recording.flac").write_bytes(b"no flac")
    told = r"recording.flac: [^.]+\. Make it again: duologue rescore"
    with pytest.raises(BadAudio, match=told):
        pack_case(run, "d0001/1")
    with pytest.raises(BadAudio, match=told):
        export_run(run, "elan")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("d0001", "'d0001' is not the name of a turn. Name dialogue and turn, turns from 1: d0003/2"),
        ("d0001/x", "'d0001/x' is not the name of a turn"),
        ("d0001/0", "dialogue d0001 has no turn 0. Its script"),
        ("d0001/3", "dialogue d0001 has no turn 3. Its script 'said-0-and-1-more' has turns 1 to 2"),
        ("d0009/1", "has no finished dialogue 'd0009'. It has d0001"),
        ("../../etc/1", "'../../etc/1' is not the name of a turn"),
    ],
)
def test_bad_names_are_told_in_a_line(tmp_path: Path, name: str, told: str) -> None:
    run = recorded(tmp_path)
    with pytest.raises(SetupError) as raised:
        pack_case(run, name)
    assert told in str(raised.value) and "\n" not in str(raised.value)
