"""The script that people write: `websockets`, a sleep after each send, a clock around it.

It is written in good faith, as the short sketch that measures a realtime server: open a session with manual turns, send
20 ms frames and sleep 20 ms after each, commit, ask for a reply, take the first audio delta. The clock starts when the
last frame has been sent. There is one figure; such scripts do not look at the audio, so it is voice-to-voice as well.

    wall      `time.time()`, read when a parsed message turns out to be the first delta
    perf      `time.perf_counter()`, read right after `recv()`, before the message is parsed

    python plain_script.py VARIANT URL CLIPS STREAMS TURNS     prints what it found as JSON
"""

import asyncio
import base64
import json
import sys
import time  # noqa: TID251 - what people write reads a clock where it stands
import wave
from pathlib import Path
from typing import Any

import websockets

FRAME_BYTES = 960
DELTA = "response.output_audio.delta"
SESSION = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}


async def answer_wall(ws: Any, last_sent: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async for message in ws:
        event = json.loads(message)
        if event["type"] == DELTA and not found:
            found = {"reply": event["response_id"], "first_packet_ms": (time.time() - last_sent) * 1000}
        if event["type"] == "response.done":
            break
    return found


async def answer_perf(ws: Any, last_sent: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while True:
        message = await ws.recv()
        received = time.perf_counter()
        event = json.loads(message)
        if event["type"] == DELTA and not found:
            found = {"reply": event["response_id"], "first_packet_ms": (received - last_sent) * 1000}
        if event["type"] == "response.done":
            return found


async def converse(variant: str, url: str, clips: list[bytes], turns: int, wait_s: float) -> list[dict[str, Any]]:
    now, answer = (time.time, answer_wall) if variant == "wall" else (time.perf_counter, answer_perf)
    await asyncio.sleep(wait_s)
    found = []
    async with websockets.connect(url) as ws:
        await ws.send(json.dumps({"type": "session.update", "session": SESSION}))
        for turn in range(turns):
            pcm = clips[turn % len(clips)]
            last_sent = now()
            for at in range(0, len(pcm), FRAME_BYTES):
                audio = base64.b64encode(pcm[at : at + FRAME_BYTES]).decode()
                await ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
                last_sent = now()
                await asyncio.sleep(0.02)
            await ws.send(json.dumps({"type": "input_audio_buffer.commit"}))
            await ws.send(json.dumps({"type": "response.create"}))
            found.append({"turn": turn, **await answer(ws, last_sent)})
    return found


def read_clip(path: Path) -> bytes:
    with wave.open(str(path)) as clip:
        return bytes(clip.readframes(clip.getnframes()))


async def main(variant: str, url: str, clips: list[bytes], streams: int, turns: int) -> None:
    """One process holds all streams, as `asyncio.gather` makes it easy to; they begin 20 ms apart, like every arm's."""
    talks = [converse(variant, url, clips, turns, 0.02 * number) for number in range(streams)]
    json.dump([turn for talk in await asyncio.gather(*talks) for turn in talk], sys.stdout)


if __name__ == "__main__":
    variant, url, clips, streams, turns = sys.argv[1:]
    spoken = [read_clip(path) for path in sorted(Path(clips).glob("*.wav"))]
    asyncio.run(main(variant, url, spoken, int(streams), int(turns)))
