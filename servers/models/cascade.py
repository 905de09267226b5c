"""The embedded cascade as a speech model: Silero VAD, Whisper, a small chat model and hibari, on the CPU, no keys.

Engines load once and are shared; a connection owns its conversation and its voice detector's state. All engine work is
done in threads: one for recognition and one for synthesis (each fills its share of a small machine), one per slot for
the chat model.
"""

from __future__ import annotations

import asyncio
import importlib.util
import weakref
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from servers.engines import hibari
from servers.engines.hibari import HibariEngine
from servers.engines.llama import LlamaEngine
from servers.engines.silero import SileroModel
from servers.engines.whisper import WhisperEngine
from servers.models.cascade_history import History
from servers.models.cascade_parts import Parts, Recipe, Worker
from servers.models.cascade_reply import RATE_HZ, SPOKEN_STYLE, Reply
from servers.speech_model import Pcm, Piece, SessionSettings, SpeechModel, UserTurn, VoiceDetector
from sessions.clock import Clock, MonotonicClock
from sessions.errors import MissingExtra, MissingWeights, PeerError
from sessions.weights import Store, folder

_EXTRA: Final = "embedded"
_PACKAGES: Final = {  # module: what to install
    "onnxruntime": "onnxruntime",
    "faster_whisper": "faster-whisper",
    "xllamacpp": "xllamacpp",
    "hibari": "hibari-tts",
}


class Cascade:
    """One conversation. A `SpeechModel`, and `Remembering`."""

    def __init__(self, parts: Parts, voices: tuple[str, ...]) -> None:
        self.rate_hz = RATE_HZ
        self._parts, self._voices = parts, voices
        self._history = History()
        self._settings = SessionSettings()
        self._reply: Reply | None = None

    def configure(self, settings: SessionSettings) -> None:
        """Takes effect with the next reply. Raises `PeerError` for a voice that this server does not have."""
        if settings.voice and settings.voice not in self._voices:
            what = f"unknown voice {settings.voice!r}"
            raise PeerError(what, code="invalid_value", mend=f"Known voices: {', '.join(self._voices)}")
        self._settings = settings

    def hear(self, pcm: Pcm, t_ns: int) -> None:
        """Whisper reads whole turns, and the front keeps those: nothing is done while the user speaks."""

    def reply(self, turn: UserTurn) -> AsyncGenerator[Piece, None]:
        self._reply = Reply(self._parts, self._history, self._settings, turn)
        return self._reply.pieces()

    def heard(self, ms: int) -> None:
        self._history.heard(ms * RATE_HZ // 1000)

    def remember(self, role: str, text: str) -> None:
        """Add a finished line without answering it."""
        self._history.add(role, text)

    async def aclose(self) -> None:
        if self._reply is not None:
            self._reply.stop()


class CascadeServer:
    """Loads the engines of `recipe` and opens a `Cascade` per connection. A `SpeechModelServer`."""

    def __init__(
        self, recipe: Recipe, *, voices: tuple[str, ...] = (hibari.VOICE,), clock: Clock | None = None
    ) -> None:
        self.name = "cascade"
        self.voices = voices
        self._recipe = recipe
        self._clock = clock or MonotonicClock()
        self._parts: Parts | None = None
        self._open: weakref.WeakSet[Cascade] = weakref.WeakSet()

    @property
    def busy(self) -> int:
        """How many engine jobs run now, over all connections."""
        return sum(worker.busy for worker in self._parts.workers) if self._parts else 0

    async def start(self) -> None:
        """Load and warm up all engines side by side. Raises `SetupError` for a model that does not load."""
        recipe = self._recipe
        asr, llm, tts, vad = await asyncio.gather(
            asyncio.to_thread(recipe.asr),
            asyncio.to_thread(recipe.llm),
            asyncio.to_thread(recipe.tts),
            asyncio.to_thread(recipe.vad),
        )
        workers = Worker("asr", 1), Worker("llm", llm.slots), Worker("tts", 1)
        self._parts = Parts(asr, llm, tts, vad, *workers, self._clock)

    def open(self) -> SpeechModel:
        cascade = Cascade(self._started(), self.voices)
        self._open.add(cascade)
        return cascade

    def voice_detector(self) -> VoiceDetector:
        return self._started().vad()

    async def aclose(self) -> None:
        """Stop what is being said, wait for the engines' threads to end, free the models."""
        if self._parts is None:
            return
        parts, self._parts = self._parts, None
        for cascade in list(self._open):
            await cascade.aclose()
        for worker in parts.workers:
            await worker.aclose()
        await asyncio.to_thread(parts.llm.close)

    def _started(self) -> Parts:
        if self._parts is None:
            raise RuntimeError("the cascade has not been started")
        return self._parts


def load_cascade(
    *,
    asr: str | Path = "whisper-base",
    llm: str | Path = "qwen2.5-coder-0.5b-instruct-q4_k_m",
    tts: str | Path = "hibari",
    vad: str | Path = "silero-vad-v6",
    language: str | None = "en",
    threads: int = 2,
    slots: int = 2,
    context_tokens: int = 4096,
    clock: Clock | None = None,
) -> CascadeServer:
    """The embedded cascade, not yet started. A model is a name in the weights table, or a folder of one's own.

    language: what users speak (ISO 639-1; None detects it, which makes recognition slower) · threads: cores that
    recognition and chat may each use · slots: answers generated at once · context_tokens: memory of a conversation.

    Raises `MissingExtra` or `MissingWeights`, each naming the command that mends it.
    """
    check_installed()
    models = (asr, llm, tts, vad)
    _check_weights([model for model in models if isinstance(model, str)])
    asr_folder, llm_folder, tts_folder, vad_folder = (
        model if isinstance(model, Path) else folder(model) for model in models
    )
    recipe = Recipe(
        asr=partial(_load_asr, asr_folder, language, threads),
        llm=partial(_load_llm, llm_folder, threads, slots, context_tokens),
        tts=partial(_load_tts, tts_folder),
        vad=lambda: SileroModel(vad_folder).detector,
    )
    return CascadeServer(recipe, clock=clock)


def check_installed() -> None:
    """Raise `MissingExtra` where a package of the cascade is not installed."""
    for module, package in _PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(package, _EXTRA)


def _check_weights(names: Sequence[str]) -> None:
    """Raise `MissingWeights` that names all that are missing, so that one command fetches them."""
    store = Store()
    missing = [name for name in names if store.present(name) is None]
    if missing:
        raise MissingWeights(
            f"these weights are not on this machine: {', '.join(missing)}",
            f"Run: duologue weights fetch {' '.join(missing)}",
        )


def _load_asr(folder: Path, language: str | None, threads: int) -> WhisperEngine:
    engine = WhisperEngine(folder, threads=threads, language=language)
    engine.warm_up()
    return engine


def _load_llm(folder: Path, threads: int, slots: int, context_tokens: int) -> LlamaEngine:
    engine = LlamaEngine(folder, threads=threads, slots=slots, context_tokens=context_tokens)
    engine.prefill(SPOKEN_STYLE)
    return engine


def _load_tts(folder: Path) -> HibariEngine:
    engine = HibariEngine(folder)
    engine.warm_up()
    return engine
