"""Mandarin by FunASR's Paraformer, from a folder, in the environment of its own that `make emotion` makes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from harness.recognise.backend import WINDOW_S, Asked, Heard, Kind
from harness.recognise.packages import hash_of
from harness.score.engine.environment import NoEnvironment, python_of, variables
from metrics.scoring import FloatPcm
from metrics.scoring.device import DEVICE
from metrics.transcript import Word
from sessions.errors import JudgeError, MetricUnavailable, SetupError

SETTINGS: Final = "paraformer-1: not autoregressive, no hot words, no punctuation, pieces of at most 28 s"
_ENVIRONMENT: Final = "emotion"
_CHILD: Final = Path(__file__).with_name("paraformer_child.py")
_LANGUAGES: Final = ("zh", "")
_VERSION: Final = "import importlib.metadata as m; print(m.version('funasr'))"
_HAN_SPACE: Final = re.compile(r"(?<=[\u3400-\u9fff]) +| +(?=[\u3400-\u9fff])")


class _Ended(JudgeError):
    """The process is gone."""


class Paraformer:
    """folder: config.yaml, model.pt, a list of tokens, am.mvn. funasr evaluates parts of them: only trusted folders."""

    longest_s = WINDOW_S
    at_once = 1

    def __init__(self, folder: Path, name: str) -> None:
        self.model = name
        self._lock = threading.Lock()
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 — it lives as long as the process
        threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        device = os.environ.get(DEVICE) or "cpu"
        environment = variables(_ENVIRONMENT, threads, device, Path())
        del environment["PYTHONPATH"]  # nothing of ours is needed there
        self._process = subprocess.Popen(
            [_python(), str(_CHILD), str(self._folder), device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
        )
        self.close = weakref.finalize(self, _end, self._process, self._log)
        self._answer()

    def hear(self, samples: FloatPcm, language: str) -> Heard:
        if language not in _LANGUAGES:
            raise MetricUnavailable(f"the recogniser {self.model} hears 'zh' alone; the sample is {language!r}")
        with self._lock:
            try:
                answer = self._ask(samples)
            except _Ended:  # with this sound or with the one before it: once more, then it is this sound's
                self.close()
                self._start()
                answer = self._ask(samples)
        tokens, times = answer["text"].split(), answer["times"]
        known = times if len(times) == len(tokens) else [(None, None)] * len(tokens)
        timed = zip(tokens, known, strict=True)
        words = tuple(Word(token, _seconds(start), _seconds(end)) for token, (start, end) in timed)
        return Heard(_HAN_SPACE.sub("", answer["text"]).strip(), "zh", words)

    def _ask(self, samples: FloatPcm) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(struct.pack("<I", len(samples)))
            self._process.stdin.write(np.ascontiguousarray(samples, dtype="<f4").tobytes())
            self._process.stdin.flush()
        except OSError as error:
            raise self._dead() from error
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._dead()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise JudgeError(f"the recogniser {self.model} failed: {answer['error']}")
        return answer

    def _dead(self) -> _Ended:
        code = self._process.wait()
        self._log.seek(0)
        said = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return _Ended(f"the recogniser {self.model} ended with code {code}: {said[-1][:300] if said else 'no word'}")


def _end(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, log):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # what was not sent any more
                stream.close()


def _seconds(at_ms: float | None) -> float | None:
    return None if at_ms is None else at_ms / 1000


def _python() -> str:
    try:
        return python_of(_ENVIRONMENT, {})
    except NoEnvironment as error:
        raise SetupError("the recogniser 'paraformer' cannot run here", str(error)) from error


def _folder(model: str) -> Path:
    folder = Path(model).expanduser()
    if not model or not folder.is_dir():
        what = f"{model!r} is no folder" if model else "the recogniser 'paraformer' needs a folder"
        raise SetupError(what, "Ask for paraformer:FOLDER, with config.yaml and model.pt in it")
    return folder.absolute()


def _make(asked: Asked) -> Paraformer:
    folder = _folder(asked.model)
    return Paraformer(folder, folder.name)


def _identify(asked: Asked) -> dict[str, str]:
    folder = _folder(asked.model)
    sha256 = hash_of(folder / "model.pt", "the recogniser's weights", "Give the folder of a Paraformer")
    ran = subprocess.run([_python(), "-c", _VERSION], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SetupError(f"the environment {_ENVIRONMENT!r} has no funasr", "Run: make emotion")
    return {"funasr": ran.stdout.strip(), "model": folder.name, "weights": sha256, "decoding": SETTINGS}


KIND: Final = Kind(_make, _identify)
