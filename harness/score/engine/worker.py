"""A worker, a process of its own: `python -m harness.score.engine.worker`, questions on standard input.

It reads files, or runs one metric's model, or derives. It also runs in environments of other packages, so it needs
nothing but numpy and msgspec until a question asks for more. It ends when standard input closes, even in mid-work.
"""

from __future__ import annotations

import importlib
import math
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from harness.score.engine.mapped import Sounds
from harness.score.engine.messages import (
    HEAD_BYTES,
    Answer,
    Broke,
    Derive,
    Derived,
    Heard,
    Identified,
    Identify,
    Listen,
    Load,
    Loaded,
    Look,
    Read,
    Refused,
    Request,
    Scored,
    Seen,
    Unreadable,
    frame,
    request,
)
from metrics.result import Failed, Value
from metrics.scoring import Piece, Score, Scorer
from sessions.errors import BadAudio, DuologueError, MetricUnavailable, MissingExtra, MissingWeights


class Worker:
    """Answers questions, one after another."""

    def __init__(self) -> None:
        self._scorer: Scorer | None = None
        self._figures: Sequence[str] = ()

    def answer(self, asked: Request) -> Answer:
        match asked:
            case Look():
                return _look(asked)
            case Read():
                return _read(asked)
            case Load():
                return self._load(asked)
            case Identify():
                return _identify(asked)
            case Listen():
                return self._listen(asked)
            case Derive():
                return Derived([_derive(asked, number) for number in range(len(asked.calls))])

    def _load(self, asked: Load) -> Loaded | Refused:
        self._figures = asked.figures
        try:
            self._scorer = _object(asked.make)(asked.options)
            return Loaded(self._scorer.check() if self._scorer is not None else "")
        except Exception as error:  # noqa: BLE001 - whatever a model's packages raise is told, and ends this metric only
            return _refused(error)

    def _listen(self, asked: Listen) -> Scored | Broke:
        assert self._scorer is not None
        sounds = Sounds()
        try:
            pieces = [Piece(item.sample, sounds.array(item), item.rate_hz) for item in asked.items]
            with sounds:
                return _whole(self._scorer.score(pieces), len(asked.items), self._figures)
        except Exception as error:  # noqa: BLE001 - as above
            return Broke(_told(error), meant=isinstance(error, DuologueError))


def _look(asked: Look) -> Seen | Unreadable:
    from harness.score.engine.sound import header_of

    try:
        return Seen(*header_of(Path(asked.path)))
    except (BadAudio, OSError) as error:
        return Unreadable(str(error))


def _read(asked: Read) -> Heard | Unreadable:
    from harness.score.engine.sound import read_sound

    try:
        sound = read_sound(Path(asked.path), {rate_hz: Path(place) for rate_hz, place in asked.places.items()})
    except BadAudio as error:
        return Unreadable(str(error))
    except OSError as error:
        return Unreadable(f"its sound could not be kept for scoring: {error}")
    return Heard(sound.sha256, sound.rate_hz, sound.samples, sound.lengths, sound.note)


def _identify(asked: Identify) -> Identified | Refused:
    try:
        return Identified(_object(asked.identify)(asked.options))
    except Exception as error:  # noqa: BLE001 - as above
        return _refused(error)


def _derive(asked: Derive, number: int) -> Scored | Broke:
    call = asked.calls[number]
    try:
        scores = _object(asked.derive)(call.samples, call.inputs, asked.options)
        return _whole(scores, len(call.samples), asked.figures)
    except Exception as error:  # noqa: BLE001 - as above
        return Broke(_told(error))


def _whole(scores: Sequence[Score], wanted: int, figures: Sequence[str]) -> Scored | Broke:
    """What a metric gave, if it is what it promised."""
    if len(scores) != wanted:
        return Broke(f"it gave {len(scores)} scores for {wanted} samples")
    answer = Scored([_complete(score, figures) for score in scores])
    frame(answer)  # what cannot be told is this metric's fault, found while we know whose
    return answer


def _complete(score: Score, figures: Sequence[str]) -> Score:
    found: dict[str, Any] = {}
    for name, figure in score.figures.items():
        bad = isinstance(figure, Value) and not math.isfinite(figure.value)
        found[name] = Failed(f"it came out as {figure.value}") if bad and isinstance(figure, Value) else figure
    for name in figures:
        found.setdefault(name, Failed("the metric did not give it"))
    return Score(found, score.flags, score.details)


def _refused(error: Exception) -> Refused:
    missing = isinstance(error, MissingExtra | MissingWeights | MetricUnavailable)
    return Refused(_told(error), missing, final=isinstance(error, DuologueError))


def _told(error: Exception) -> str:
    if isinstance(error, DuologueError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"memory ran out ({error})" if str(error) else "memory ran out"
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _object(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _listen_for_questions(into: queue.SimpleQueue[Request]) -> None:
    """Until the engine is gone; then this process is, whatever it does meanwhile."""
    with open(0, "rb", closefd=False) as pipe:
        while head := pipe.read(HEAD_BYTES):
            raw = pipe.read(int.from_bytes(head, "big"))
            if len(head) == HEAD_BYTES and len(raw) == int.from_bytes(head, "big"):
                into.put(request(raw))
    os._exit(0)


def _own_output() -> IO[bytes]:
    """Standard output for answers alone: what libraries print goes where errors go."""
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return pipe


def _write(pipe: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[pipe.write(left) or 0 :]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's, which then ends this process
    pipe = _own_output()
    questions: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen_for_questions, args=(questions,), daemon=True).start()
    worker = Worker()
    while True:
        _write(pipe, frame(worker.answer(questions.get())))


if __name__ == "__main__":
    main()
