"""The metrics of a run that goes on, read by Prometheus' own parser."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path

import aiohttp
import numpy as np
import pytest
import soundfile
from prometheus_client.parser import text_string_to_metric_families

from harness.load.live import Live
from harness.load.prometheus import CONTENT_TYPE, address, exposition, listen, serving
from sessions.clock import MonotonicClock
from sessions.errors import SetupError
from sessions.runs import Load
from tests.support.commands import CALM, finish, start
from tests.support.commands import run as run_command
from tests.support.load_runs import Full, Workers, hold, make_run
from tests.support.peers import on_a_socket, tone

DOCUMENTED = (Path(__file__).resolve().parents[2] / "docs" / "load.md").read_text()


def parsed(text: str) -> dict[str, float]:
    """Sample, with its labels → value. Every family has its type and help."""
    families = list(text_string_to_metric_families(text))
    assert all(family.type in {"counter", "gauge", "histogram"} and family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    return {sample.name + "".join(f",{v}" for v in sample.labels.values()): sample.value for sample in samples}


def test_what_a_run_came_to(tmp_path: Path) -> None:
    live = Live(MonotonicClock())
    hold(make_run(tmp_path / "run", Load(sessions=6), 6), lambda: Full(4), live)
    text = exposition(live)
    found = parsed(text)
    assert found["duologue_sessions_active"] == found["duologue_dialogues_left"] == 0
    assert found["duologue_dialogues_ended_total"] == found["duologue_turns_total"] + 2 == 6
    assert found["duologue_turns_failed_total,closed"] == 2
    assert found["duologue_first_packet_seconds_bucket,0.2"] == 0
    assert found["duologue_first_packet_seconds_bucket,0.3"] == found["duologue_first_packet_seconds_count"] == 4
    assert found["duologue_first_packet_seconds_sum"] == pytest.approx(1.2)
    assert found["duologue_send_lateness_seconds_bucket,+Inf"] == 4
    assert found["duologue_send_lateness_max_seconds"] == 0
    for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE):
        assert f"`{name}`" in DOCUMENTED, f"{name} is not in docs/load.md"


def test_before_anything_began_there_is_nothing_unknown_in_it() -> None:
    found = parsed(exposition(Live(MonotonicClock())))
    assert "duologue_dialogues_left" not in found and "duologue_time_left_seconds" not in found
    assert found["duologue_turns_total"] == found["duologue_running_seconds"] == 0
    assert parsed(exposition(Live(MonotonicClock(), time_left_s=9.5)))["duologue_time_left_seconds"] == 9.5


def test_a_kind_with_quotes_is_a_label() -> None:
    live = Live(MonotonicClock())
    live.failed['a "b"\\\nc'] += 1
    assert parsed(exposition(live))['duologue_turns_failed_total,a "b"\\\nc'] == 1


@pytest.mark.sockets
async def test_it_is_served_and_ends() -> None:
    listening = listen("0")
    url = address(listening)
    assert url.startswith("http://127.0.0.1:") and url.endswith("/metrics")
    async with serving(listening, Live(MonotonicClock())), aiohttp.ClientSession() as web:
        async with web.get(url) as answer:
            assert answer.status == 200 and answer.headers["Content-Type"] == CONTENT_TYPE
            assert "duologue_sessions_active" in parsed(await answer.text())
        async with web.get(url.replace("/metrics", "/")) as answer:
            assert answer.status == 404
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0])), 1)


@pytest.mark.sockets
def test_a_port_in_use_is_said_so() -> None:
    with listen("127.0.0.1:0") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"--prometheus {port}: cannot listen there.*Choose another port"):
            listen(str(port))


@pytest.mark.parametrize("where", ["", "x", "127.0.0.1", "70000", "http://127.0.0.1:9", "1:2:3", "-1"])
def test_what_is_no_place_is_refused(where: str) -> None:
    with pytest.raises(SetupError, match="For example --prometheus 9464"):
        listen(where)


@pytest.mark.sockets
async def test_a_run_can_be_watched(tmp_path: Path) -> None:
    clip, out = tmp_path / "clip.wav", tmp_path / "run"
    soundfile.write(clip, np.concatenate([tone(200), np.zeros(100, dtype=np.int16)]), 24_000)
    async with on_a_socket(Workers(100), MonotonicClock()) as url:
        asked = ("measure", url, *CALM, "--audio", str(clip))
        process = await start(*asked, "--repeat", "3", "--prometheus", "0", "--out", str(out))
        assert process.stderr is not None
        said = (await process.stderr.readline()).decode()
        found = re.search(r"http://\S+/metrics", said)
        assert found, said
        seen: dict[str, float] = {}
        async with aiohttp.ClientSession() as web:
            while not seen.get("duologue_turns_total"):
                async with web.get(found[0]) as answer:
                    seen = parsed(await answer.text())
                await asyncio.sleep(0.05)
        ran = await finish(process)
        assert ran.code == 0, ran.err
        assert seen["duologue_first_packet_seconds_count"] == seen["duologue_turns_total"] >= 1
        assert seen["duologue_cpu_seconds_total"] > 0
        with listen("0") as taken:
            port = str(taken.getsockname()[1])
            refused = await run_command(*asked, "--prometheus", port, "--out", str(tmp_path / "second"))
    assert refused.code == 2 and f"--prometheus {port}: cannot listen there" in refused.err
    assert len(refused.err.splitlines()) == 1 and not (tmp_path / "second").exists()
