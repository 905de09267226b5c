"""One reply of the cascade: speech → words → answer → clauses → speech, piece by piece."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from servers.engines import hibari
from servers.engines.clauses import ClauseSplitter
from servers.engines.llama import Finish
from servers.models.cascade_history import History, Line
from servers.models.cascade_parts import Answer, Broken, Parts
from servers.speech_model import Audio, Fault, Piece, SessionSettings, Stage, Text, Usage, UserTurn

RATE_HZ: Final = hibari.RATE_HZ
PIECE_SAMPLES: Final = RATE_HZ // 10  # packets of 100 ms, as soon as their clause is there
SPOKEN_STYLE: Final = (
    "You are a friendly voice assistant. Everything you say is spoken aloud, so answer in one or two short, plain "
    "sentences, without lists, headings, symbols or code. If you did not understand, ask."
)
NOT_UNDERSTOOD: Final = "Sorry, I did not catch that."
DEFAULT_OUTPUT_TOKENS: Final = 320  # about two minutes of speech: a model that does not end must be ended

_log = logging.getLogger(__name__)


class Reply:
    """Answers one user turn. What it says is kept in `history` as it is yielded."""

    def __init__(self, parts: Parts, history: History, settings: SessionSettings, turn: UserTurn) -> None:
        self._parts, self._history, self._turn = parts, history, turn
        self._text_only = turn.text_only or settings.text_only
        self._max_tokens = min(settings.max_output_tokens or DEFAULT_OUTPUT_TOKENS, parts.llm.context_tokens // 2)
        instructions = settings.instructions if turn.instructions is None else turn.instructions
        self._system = f"{SPOKEN_STYLE}\n{instructions}" if instructions else SPOKEN_STYLE
        self._line = Line("assistant")
        self._answer: Answer | None = None
        self._audible = False

    def stop(self) -> None:
        """Free the chat model at its next token."""
        if self._answer is not None:
            self._answer.stop()

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The reply. Closing the generator stops the chat model at its next token; nothing more is spoken."""
        async with aclosing(self._thoughts()) as thoughts:
            async for thought in thoughts:
                if not isinstance(thought, str):
                    yield thought
                    continue
                yield Text(thought)
                for piece in await self._voiced(thought):
                    yield piece
                    if isinstance(piece, Fault):
                        return

    async def _thoughts(self) -> AsyncGenerator[Stage | Text | Usage | Fault | str, None]:
        """What was understood, then the reply's clauses as bare strings, with the stages between."""
        turn, asr = self._turn, self._parts.asr
        # Words that were not understood yet when the reply was cut short still belong into the conversation.
        user = self._history.add("user", turn.text)
        if len(turn.pcm):
            transcript = await self._parts.asr_worker.run(
                lambda: asr.transcribe(turn.pcm, RATE_HZ),
                keep=lambda done: user.said(f"\n{done.text}" if turn.text and done.text else done.text),
            )
            yield self._stage("asr_done")
            if isinstance(transcript, Broken):
                yield _fault("asr_failed", "the speech recogniser failed", transcript.error)
                return
            yield Text(transcript.text, of="user")
            if not user.text:
                yield self._stage("asr_empty")
                self._line = self._history.begin_reply(remembered=False)
                yield NOT_UNDERSTOOD
                return
        # No words at all: the client asked for a reply to what was said so far, or for a greeting.
        self._line = self._history.begin_reply()
        async with aclosing(self._clauses()) as clauses:
            async for clause in clauses:
                yield clause

    async def _clauses(self) -> AsyncGenerator[Stage | Usage | Fault | str, None]:
        splitter = ClauseSplitter()
        finish: Finish | None = None
        # A prompt that is longer than estimated is refused before any text: forget more and ask again.
        while finish is None or (finish.reason == "too_long" and self._history.forget_oldest()):
            budget_tokens = self._parts.llm.context_tokens - self._max_tokens
            messages = self._history.messages(self._system, budget_tokens)
            self._answer = Answer(self._parts, messages, self._max_tokens)
            begun = False
            try:
                async for t_ns, delta in self._answer:
                    if not begun:
                        begun = True
                        yield Stage("llm_first_token", t_ns)
                    for clause in splitter.feed(delta):
                        yield clause
            finally:
                self._answer.stop()
            finish = self._answer.finish
        for clause in splitter.flush():
            yield clause
        if finish.output_tokens:
            yield Usage(finish.prompt_tokens, finish.cached_tokens, finish.output_tokens)
        if (fault := _fault_of(finish)) is not None:
            yield fault

    async def _voiced(self, clause: str) -> list[Piece]:
        """The clause's audio, cut into packets; nothing where it has no sound or the client wants none."""
        if self._text_only:
            self._line.said(clause)
            return []
        pcm = await self._parts.tts_worker.run(lambda: self._parts.tts.speak(clause.strip()))
        if isinstance(pcm, Broken):
            return [_fault("tts_failed", "the speech synthesiser failed", pcm.error)]
        self._line.said(clause, len(pcm))
        pieces: list[Piece] = [Audio(pcm[at : at + PIECE_SAMPLES]) for at in range(0, len(pcm), PIECE_SAMPLES)]
        if pieces and not self._audible:
            self._audible = True
            pieces.insert(0, self._stage("tts_first_audio"))
        return pieces

    def _stage(self, name: str) -> Stage:
        return Stage(name, self._parts.clock.now_ns())


def _fault_of(finish: Finish) -> Fault | None:
    """What the front must say about an answer that did not end by itself."""
    match finish.reason:
        case "stop":
            return None
        case "length":
            return Fault("incomplete", "the answer reached its limit of tokens", "max_output_tokens")
        case "too_long":
            what = f"the model cannot read {finish.prompt_tokens} tokens: instructions or user turn are too long"
            return Fault("error", what, "context_length_exceeded")
        case "cancelled":
            return Fault("error", "the server is closing", "server_closing")
        case "failed":
            _log.error("the chat model failed: %s", finish.message)
            return Fault("error", "the chat model failed", "llm_failed")


def _fault(code: str, what: str, error: BaseException) -> Fault:
    """The client is told which engine failed; why stands in the server's log."""
    _log.error("%s", what, exc_info=error)
    return Fault("error", what, code)
