"""Drives the evaluation client of PyPI `speech-to-speech`, from the environment that it is installed in.

It asks one question per connection, 16 kHz, one after another, and leaves the end of the turn to the server;
here one such sequence is a stream, and many are gathered in one event loop. They begin 20 ms apart. Silence after the
question and the wait for late events are shortened: they come after the figure and only cost time.

    python drive_speech_to_speech.py URL CLIPS STREAMS TURNS TAG     prints what it reported as JSON
"""

import asyncio
import json
import sys
import wave
from pathlib import Path
from typing import Any

from speech_to_speech.evals.big_bench_audio.dataset import EvalItem
from speech_to_speech.evals.big_bench_audio.runner import RunnerConfig, run_item


def read_clip(path: Path) -> bytes:
    with wave.open(str(path)) as clip:
        return bytes(clip.readframes(clip.getnframes()))


async def stream(url: str, clips: list[bytes], turns: int, name: str, wait_s: float) -> list[dict[str, Any]]:
    await asyncio.sleep(wait_s)
    found = []
    for turn in range(turns):
        config = RunnerConfig(url=f"{url}?session={name}&turn={turn}", trailing_silence_ms=300, grace_s=0.1)
        item = EvalItem(turn, "formal_fallacies", "valid", "clip")
        result = await run_item(config, item, clips[turn % len(clips)])
        value = None if result.ttfb_s is None else result.ttfb_s * 1000
        found.append({"reply": f"{name}#{turn}", "turn": turn, "first_packet_ms": value})
    return found


async def main(url: str, clips: list[bytes], streams: int, turns: int, tag: str) -> None:
    talks = [stream(url, clips, turns, f"{tag}.{number}", 0.02 * number) for number in range(streams)]
    json.dump([turn for talk in await asyncio.gather(*talks) for turn in talk], sys.stdout)


if __name__ == "__main__":
    url, clips, streams, turns, tag = sys.argv[1:]
    spoken = [read_clip(path) for path in sorted(Path(clips).glob("*.wav"))]
    asyncio.run(main(url, spoken, int(streams), int(turns), tag))
