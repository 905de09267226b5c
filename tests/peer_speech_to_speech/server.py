"""Serves the realtime router of `speech-to-speech` over a pipeline without models. Runs in an environment of its own.

The router, its service, turn tracker, transcription notifier and output processor are the package's, as it wires them
itself. Only the parts that would load models are ours: energy stands for the voice detector and the recogniser, given
answers for the language model, tones for the synthesiser. Prints the port; stops when stdin closes.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import sys
from collections.abc import Iterator
from queue import Queue
from threading import Event, Thread
from typing import Any

import numpy as np
import uvicorn
from speech_to_speech.api.openai_realtime.pipeline_unit import PipelineUnit
from speech_to_speech.api.openai_realtime.service import RealtimeService
from speech_to_speech.api.openai_realtime.websocket_router import create_app
from speech_to_speech.baseHandler import BaseHandler
from speech_to_speech.LLM.lm_output_processor import LMOutputProcessor
from speech_to_speech.pipeline.cancel_scope import CancelScope
from speech_to_speech.pipeline.events import SpeechStartedEvent, SpeechStoppedEvent
from speech_to_speech.pipeline.messages import (
    AUDIO_RESPONSE_DONE,
    EndOfResponse,
    GenerateResponseRequest,
    LLMResponseChunk,
    Transcription,
    TTSInput,
)
from speech_to_speech.pipeline.speculative_turns import SpeculativeTurnTracker
from speech_to_speech.STT.transcription_notifier import TranscriptionNotifier
from speech_to_speech.utils.thread_manager import ThreadManager

RATE_HZ = 16_000
"""Of the pipeline; the router resamples to what the client declares."""
LOUD = 300.0
"""Standard deviation of a block, in int16 steps, from which on it counts as speech."""
BEGIN_BLOCKS = 3
END_BLOCKS = 10
"""So many loud (quiet) blocks of 32 ms in a row begin (end) an utterance."""
REOPEN_GRACE_MS = 100
"""How long the tracker holds a reply in case the user goes on; the package's own default is 800."""
BLOCK_SAMPLES = 512
TONE_HZ = 440.0


class EnergyListener(BaseHandler):  # type: ignore[misc]  # the package is not in the environment that is checked
    """Voice detector and recogniser: finds utterances by energy, and "understands" their strongest frequency."""

    def setup(self, turns: SpeculativeTurnTracker, text_output_queue: Queue[Any], should_listen: Event) -> None:
        self._turns = turns
        self._events = text_output_queue
        self._should_listen = should_listen
        self.on_session_end()

    def on_session_end(self) -> None:
        self._blocks: list[np.ndarray[Any, Any]] = []
        self._heard_samples = 0
        self._loud_blocks = self._quiet_blocks = 0
        self._speaking = False
        self._turns.reset()
        self._should_listen.set()

    def process(self, item: tuple[bytes, Any]) -> Iterator[Transcription]:
        """item: 512 samples, int16, and the session's configuration."""
        block = np.frombuffer(item[0], dtype="<i2")
        self._heard_samples += len(block)
        loud = float(block.std()) > LOUD
        self._loud_blocks = self._loud_blocks + 1 if loud else 0
        self._quiet_blocks = 0 if loud else self._quiet_blocks + 1
        self._blocks.append(block)
        if not self._speaking:
            del self._blocks[:-BEGIN_BLOCKS]
            if self._loud_blocks == BEGIN_BLOCKS:
                self._begin()
        elif self._quiet_blocks == END_BLOCKS:
            yield self._end()

    def _heard_ms(self) -> int:
        return self._heard_samples * 1000 // RATE_HZ

    def _begin(self) -> None:
        self._speaking = True
        start_ms = self._heard_ms() - BEGIN_BLOCKS * BLOCK_SAMPLES * 1000 // RATE_HZ
        turn, revision, reopened = self._turns.speech_started(start_ms)
        self._events.put(
            SpeechStartedEvent(audio_start_ms=start_ms, turn_id=turn, turn_revision=revision, reopened=reopened)
        )

    def _end(self) -> Transcription:
        self._speaking = False
        audio = np.concatenate(self._blocks)
        turn, revision = self._turns.current_turn()
        self._events.put(
            SpeechStoppedEvent(
                duration_s=len(audio) / RATE_HZ, audio_end_ms=self._heard_ms(), turn_id=turn, turn_revision=revision
            )
        )
        self._turns.segment_finalized(self._heard_ms(), output_hold_ms=REOPEN_GRACE_MS)
        strongest_hz = int(np.argmax(np.abs(np.fft.rfft(audio)))) * RATE_HZ / len(audio)
        return Transcription(text=f"{round(strongest_hz, -1):.0f} hertz", turn_id=turn, turn_revision=revision)


class Answerer(BaseHandler):  # type: ignore[misc]
    """Language model: gives the answers that it was started with, in turn."""

    def setup(self, cancel_scope: CancelScope, answers: list[str]) -> None:
        self.cancel_scope = cancel_scope
        self._answers = answers
        self.on_session_end()

    def on_session_end(self) -> None:
        self._next = itertools.cycle(self._answers)

    def process(self, request: GenerateResponseRequest) -> Iterator[LLMResponseChunk | EndOfResponse]:
        whose = {
            "turn_id": request.turn_id,
            "turn_revision": request.turn_revision,
            "cancel_generation": self.cancel_scope.generation,
            "response_key": request.response_key,
        }
        yield LLMResponseChunk(text=next(self._next), response=request.response, **whose)
        yield EndOfResponse(**whose)


class ToneSpeaker(BaseHandler):  # type: ignore[misc]
    """Synthesiser: one tone a text, each word the same time, loud from the first sample on."""

    def setup(self, turns: SpeculativeTurnTracker, cancel_scope: CancelScope, word_ms: int) -> None:
        self._turns = turns
        self.cancel_scope = cancel_scope
        self._word_samples = word_ms * RATE_HZ // 1000

    def process(self, item: TTSInput | EndOfResponse) -> Iterator[bytes | np.ndarray[Any, Any]]:
        if isinstance(item, EndOfResponse):
            item.cleanup_only |= not self._turns.wait_for_gate(item.turn_id, item.turn_revision)
            yield AUDIO_RESPONSE_DONE
            return
        if not self._turns.wait_for_gate(item.turn_id, item.turn_revision, commit=True):
            return
        t_s = np.arange(len(item.text.split()) * self._word_samples) / RATE_HZ
        tone = np.round(6000 * np.cos(2 * np.pi * TONE_HZ * t_s)).astype(np.int16)
        for first in range(0, len(tone), BLOCK_SAMPLES):
            if item.cancel_generation is not None and self.cancel_scope.is_stale(item.cancel_generation):
                return
            yield tone[first : first + BLOCK_SAMPLES]


def build_unit(index: int, stop: Event, answers: list[str], word_ms: int) -> PipelineUnit:
    """One place for one client: the queues and handlers that the package's own server would build."""
    heard, understood, wanted, written, ordered, spoken, events = (Queue[Any]() for _ in range(7))
    should_listen, cancel_scope, turns = Event(), CancelScope(), SpeculativeTurnTracker()

    def part(kind: Any, queue_in: Queue[Any], queue_out: Queue[Any], **settings: Any) -> Any:
        return kind(stop, queue_in=queue_in, queue_out=queue_out, setup_kwargs=settings)

    ear = {"text_output_queue": events, "should_listen": should_listen}
    return PipelineUnit(
        index=index,
        service=RealtimeService(text_prompt_queue=wanted, should_listen=should_listen, speculative_turns=turns),
        cancel_scope=cancel_scope,
        should_listen=should_listen,
        response_playing=Event(),
        input_queue=heard,
        output_queue=spoken,
        text_output_queue=events,
        text_prompt_queue=wanted,
        handlers=[
            part(EnergyListener, heard, understood, turns=turns, **ear),
            part(TranscriptionNotifier, understood, wanted, **ear),
            part(Answerer, wanted, written, cancel_scope=cancel_scope, answers=answers),
            part(LMOutputProcessor, written, ordered, speculative_turns=turns, text_output_queue=events),
            part(ToneSpeaker, ordered, spoken, turns=turns, cancel_scope=cancel_scope, word_ms=word_ms),
        ],
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--slots", type=int, default=1)
    arguments.add_argument("--word-ms", type=int, default=200)
    arguments.add_argument("answers", nargs="+")
    asked = arguments.parse_args()

    stop = Event()
    pool = [build_unit(index, stop, asked.answers, asked.word_ms) for index in range(asked.slots)]
    threads = ThreadManager([handler for unit in pool for handler in unit.handlers])
    server = uvicorn.Server(
        uvicorn.Config(create_app(pool, stop), log_level="warning", timeout_graceful_shutdown=1, access_log=False)
    )

    def stop_with_stdin() -> None:
        sys.stdin.read()
        stop.set()
        server.should_exit = True

    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        Thread(target=stop_with_stdin, daemon=True).start()
        threads.start()
        try:
            server.run(sockets=[listening])
        finally:
            stop.set()
            threads.stop()


if __name__ == "__main__":
    main()
