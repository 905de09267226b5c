"""Small chat models (GGUF) through llama.cpp's server, in process.

`LlamaEngine.stream` blocks its thread until the answer is over; call it from a worker thread, one per answer. As many
answers as there are slots run at once, further calls wait. A slot keeps the tokens of its last prompt, so a
conversation pays only for what is new in it.
"""

from __future__ import annotations

import secrets
import socket
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from servers.engines import runtime
from sessions.errors import SetupError

_SILENT: Final = -1
_HOST_CACHE_MIB: Final = 256  # prompts of conversations that lost their slot to another one
_REUSE_TOKENS: Final = 16  # shortest stretch that is moved instead of computed again when old turns were dropped
_SIMILAR: Final = 0.001
"""A prompt goes to the slot that shares its beginning, be it the system prompt alone: there, what stayed of a
conversation whose old turns were dropped is moved. In another slot it would be computed again, at 100 tokens a second.
"""
_SEED: Final = 20
_TOO_LONG: Final = "exceed_context_size_error"


class Message(TypedDict):
    """role: "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Finish:
    """How an answer ended.

    reason: "stop" (the model was done), "length" (`max_tokens` or the context is used up), "cancelled" (`should_stop`
    said so), "too_long" (the prompt does not fit into a slot's context), "failed" (`message` says why)
    prompt_tokens: the whole prompt, of which cached_tokens were not computed again · output_tokens: generated
    """

    reason: Literal["stop", "length", "cancelled", "too_long", "failed"]
    message: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class LlamaEngine:
    """folder: holds one .gguf file · slots: answers at once · context_tokens: prompt and answer of one slot.

    Raises `SetupError` if the folder does not hold exactly one .gguf file, or the file cannot be loaded.
    """

    def __init__(self, folder: Path, *, threads: int = 2, slots: int = 2, context_tokens: int = 4096) -> None:
        runtime.prepare()
        import xllamacpp

        files = sorted(folder.glob("*.gguf"))
        if len(files) != 1:
            raise SetupError(f"{folder} holds {len(files)} .gguf files, not one", "Name the folder of one chat model")
        self.slots = slots
        self.context_tokens = context_tokens
        params = xllamacpp.CommonParams()
        params.model.path = str(files[0])
        params.n_parallel = slots
        params.n_ctx = slots * context_tokens
        params.n_cache_reuse = _REUSE_TOKENS
        params.cache_ram_mib = _HOST_CACHE_MIB
        params.slot_prompt_similarity = _SIMILAR
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        params.verbosity = _SILENT
        params.offline = True
        # Gone as soon as the runtime listens there: nobody is to find it, and nothing is left behind by a kill.
        with tempfile.TemporaryDirectory(prefix="duologue-llm-", ignore_cleanup_errors=True) as private:
            _close_to_others(params, Path(private))
            try:
                self._server: Any = xllamacpp.Server(params)
            except RuntimeError as error:
                raise SetupError(f"the chat model {files[0]} does not load", "Is it a whole GGUF file?") from error

    def prefill(self, system_prompt: str) -> None:
        """Read `system_prompt` into every slot, so that a first turn need not."""
        messages: list[Message] = [Message(role="system", content=system_prompt), Message(role="user", content="Hi")]
        asks = [{"messages": messages, "max_tokens": 1, "id_slot": slot} for slot in range(self.slots)]
        with ThreadPoolExecutor(self.slots, "duologue-prefill") as pool:
            for _ in pool.map(lambda ask: self._ask(ask, lambda _event: False), asks):
                pass

    def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        on_text: Callable[[str], None],
        should_stop: Callable[[], bool],
    ) -> Finish:
        """Answer `messages` greedily. `on_text` gets every piece of text in the calling thread as it is generated.

        `should_stop` is asked at every token; while a prompt is read nothing can stop it. Neither may raise.
        """
        events = _Events(on_text, should_stop)
        self._ask({"messages": list(messages), "max_tokens": max_tokens}, events.take)
        return events.finish()

    def close(self) -> None:
        """Free the model. No `stream` may be running."""
        self._server = None

    def _ask(self, request: dict[str, Any], take: Callable[[dict[str, Any]], bool]) -> None:
        # Greedy, so that the same question has the same answer; a small model left alone with that repeats itself.
        greedy = {"temperature": 0.0, "repeat_penalty": 1.1, "seed": _SEED, "stream": True}
        self._server.handle_chat_completions({**request, **greedy}, take)


def _close_to_others(params: Any, private: Path) -> None:
    """The runtime always listens for HTTP. Nobody is to call: it gets a private socket file and a key nobody knows."""
    params.hostnames = [str(private / "http.sock")] if hasattr(socket, "AF_UNIX") else ["127.0.0.1"]
    params.api_keys = [secrets.token_hex(32)]
    params.ui = False
    params.endpoint_slots = False
    params.n_threads_http = 1


class _Events:
    """Collects one answer's stream: text goes out at once, the rest is kept for the `Finish`."""

    def __init__(self, on_text: Callable[[str], None], should_stop: Callable[[], bool]) -> None:
        self._on_text, self._should_stop = on_text, should_stop
        self._finish = Finish("failed", "the runtime ended without a word")

    def take(self, event: dict[str, Any]) -> bool:
        """One event of the runtime; True asks it to stop."""
        error = event.get("error")
        if error is not None:
            reason: Literal["too_long", "failed"] = "too_long" if error.get("type") == _TOO_LONG else "failed"
            tokens = int(error.get("n_prompt_tokens", 0))
            self._finish = Finish(reason, str(error.get("message", error)), prompt_tokens=tokens)
            return False
        if self._should_stop():
            self._finish = Finish("cancelled")
            return True
        for choice in event.get("choices", ()):
            text = choice["delta"].get("content")
            if text:
                self._on_text(text)
            if choice["finish_reason"] is not None:
                self._finish = _finish(choice["finish_reason"], event.get("timings", {}))
        return False

    def finish(self) -> Finish:
        return self._finish


def _finish(reason: str, timings: dict[str, Any]) -> Finish:
    cached = int(timings.get("cache_n", 0))
    return Finish(
        "length" if reason == "length" else "stop",
        prompt_tokens=cached + int(timings.get("prompt_n", 0)),
        cached_tokens=cached,
        output_tokens=int(timings.get("predicted_n", 0)),
    )
