"""Drives the live probe of PyPI `voice-evals` by its public API, from the environment that it is installed in.

Its own reference protocol map is used, with 24 kHz in the place of 16; the caller speaks prepared clips. One session is
one coroutine: many are gathered in one event loop, for it has no concurrency of its own. They begin 20 ms apart.

    python drive_voice_evals.py URL CLIPS STREAMS TURNS TAG     prints what it reported as JSON
"""

import asyncio
import json
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from voice_evals.probe import (
    AudioFormat,
    CallerConfig,
    ProbeConfig,
    ScenarioScript,
    SessionRunner,
    TransportConfig,
    build_caller,
    build_transport,
)

RATE_HZ = 24_000


def protocol_map() -> dict[str, Any]:
    given = resources.files("voice_evals") / "resources" / "protocols" / "default-v1.json"
    changed: dict[str, Any] = json.loads(given.read_text(encoding="utf-8"))
    for part in (changed["audio"]["input"], changed["audio"]["output"], changed["handshake"]["send"]["audio"]):
        part["sample_rate"] = RATE_HZ
    return changed


def script_of(clips: list[Path], turns: int) -> dict[str, Any]:
    steps = []
    for number in range(turns):
        cue: dict[str, Any] = {"mode": "speak_now"}
        if number:
            cue = {"mode": "wait_agent_end", "response_to": f"step-{number - 1}", "timeout_ms": 10_000}
        text = clips[number % len(clips)].name
        steps.append({"id": f"step-{number}", "intent": "ask", "cue": cue, "utterance": {"text": text}})
    rule = {"source": "final_agent_text", "after_step": "step-0", "all_of": ["tick"], "value": "heard"}
    return {
        "schema_version": 2,
        "name": "metronome",
        "expected_outcome": "heard",
        "steps": steps,
        "outcome_rule": rule,
    }


async def session(script: dict[str, Any], url: str, place: Path, wait_s: float) -> Any:
    await asyncio.sleep(wait_s)
    config = ProbeConfig(
        input_format=AudioFormat(sample_rate=RATE_HZ),
        output_format=AudioFormat(sample_rate=RATE_HZ),
        transport=TransportConfig(endpoint=url, protocol_map_path=str(place.parent / "map.json")),
        caller=CallerConfig(kind="fixture", fixture_manifest=str(place.parent / "manifest.json")),
    )
    runner = SessionRunner(caller=build_caller(config), transport=build_transport(config), config=config)
    return await runner.run(ScenarioScript.from_dict(script), output_dir=place)


async def main(url: str, paths: list[Path], streams: int, turns: int, tag: str) -> None:
    script = script_of(paths, turns)
    names = [f"{tag}.{number}" for number in range(streams)]
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        (place / "map.json").write_text(json.dumps(protocol_map()))
        prepared = [{"text": path.name, "file": str(path)} for path in paths]
        (place / "manifest.json").write_text(json.dumps({"clips": prepared}))
        talks = [
            session(script, f"{url}?session={name}", place / name, 0.02 * number) for number, name in enumerate(names)
        ]
        for name, record in zip(names, await asyncio.gather(*talks), strict=True):
            for number, turn in enumerate(record.turns):
                # Replies come one by one: the k-th turn's is the k-th.
                value = None if turn.e2e_ns is None else turn.e2e_ns / 1e6
                found.append({"reply": f"{name}#{number}", "turn": number, "first_packet_ms": value})
            for error in record.errors:
                sys.stderr.write(f"{name}: {error}\n")
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    url, clips, streams, turns, tag = sys.argv[1:]
    spoken = [path.resolve() for path in sorted(Path(clips).glob("*.wav"))]
    asyncio.run(main(url, spoken, int(streams), int(turns), tag))
