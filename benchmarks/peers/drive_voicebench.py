"""Drives PyPI `voicebench` by its public API, from the environment that it is installed in.

It has no concurrency of its own: its sessions, which are coroutines, are gathered in one event loop, and analysed only
when all of them are over, so that no analysis disturbs a session. That is the kindest way to hold many of them; a
process for each would need 50 interpreters. Sessions begin 20 ms apart.

    python drive_voicebench.py URL CLIPS STREAMS TURNS TAG     prints what it reported as JSON
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from voicebench.adapters import create_adapter
from voicebench.metrics import analyze
from voicebench.runner import run
from voicebench.scenario import parse_scenario


def scenario_of(clips: list[Path], turns: int) -> Any:
    spoken = [
        {
            "id": f"turn-{number}",
            "audio": {"file": str(clips[number % len(clips)])},
            "start": {"after": "agent_speech_end" if number else "session_start", "delay_ms": 0 if number else 100},
        }
        for number in range(turns)
    ]
    return parse_scenario(
        {
            "name": "metronome",
            "sample_rate": 24_000,
            "frame_ms": 20,
            "tail_ms": 1_000,
            "max_duration_ms": 2_000 + 3_000 * turns,
            "turns": spoken,
        }
    )


async def session(scenario: Any, url: str, wait_s: float) -> Any:
    await asyncio.sleep(wait_s)
    return await run(scenario, create_adapter("websocket", {"url": url}))


async def main(url: str, scenario: Any, streams: int, tag: str) -> None:
    names = [f"{tag}.{number}" for number in range(streams)]
    talks = [session(scenario, f"{url}?session={name}", 0.02 * number) for number, name in enumerate(names)]
    found = []
    for name, record in zip(names, await asyncio.gather(*talks), strict=True):
        for number, turn in enumerate(analyze(record).turns):
            found.append(
                {
                    "reply": f"{name}#{number}",
                    "turn": number,
                    "first_packet_ms": turn.ttfa_ms,
                    "voice_to_voice_ms": turn.response_latency_ms,
                }
            )
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    url, clips, streams, turns, tag = sys.argv[1:]
    scenario = scenario_of(sorted(Path(clips).glob("*.wav")), int(turns))
    asyncio.run(main(url, scenario, int(streams), tag))
