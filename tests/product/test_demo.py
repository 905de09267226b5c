"""`duologue demo` as a user starts it: real models, real time, a server process, and no look-up of any name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import soundfile

from harness.cli.demo import SCORES
from harness.score.summary import read_scores
from sessions.runs import RunFolder
from tests.support.commands import ROOT, run

pytestmark = [pytest.mark.embedded, pytest.mark.sockets]

GUARD = """\
import os, socket
_getaddrinfo, _connect = socket.getaddrinfo, socket.socket.connect

def _note(what):
    with open(os.environ["LOOKUPS"], "a") as log:
        log.write(what + "\\n")

def getaddrinfo(host, *rest, **options):
    if host not in (None, "", "localhost", "127.0.0.1", "::1"):
        _note(f"look-up of {host}")
    return _getaddrinfo(host, *rest, **options)

def connect(self, address):
    if isinstance(address, tuple) and not str(address[0]).startswith(("127.", "::1")):
        _note(f"connection to {address}")
    return _connect(self, address)

socket.getaddrinfo, socket.socket.connect = getaddrinfo, connect
"""


async def test_the_demo_holds_three_dialogues_and_asks_nobody(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(GUARD)
    lookups = tmp_path / "lookups"
    out = tmp_path / "run"
    ran = await run(
        "demo", "--json", "--out", str(out), extra={"PYTHONPATH": f"{tmp_path}:{ROOT}", "LOOKUPS": str(lookups)}
    )
    assert ran.code in (0, 1), ran.err  # 1: this machine was late in every turn, which is no fault of the demo
    assert not lookups.exists(), lookups.read_text()
    attempts = json.loads(ran.out)["attempts"]
    assert attempts["total"] == 9
    assert attempts["failed"] == 0, attempts
    run_folder = RunFolder.open(out)
    assert set(run_folder.plan.weights) == {
        "whisper-base",
        "qwen2.5-coder-0.5b-instruct-q4_k_m",
        "silero-vad-v6",
        "hibari",
    }
    assert [line.script for line in run_folder.journal()] == ["small-talk", "trip-planning", "facts"]
    for line in run_folder.journal():
        folder = run_folder.dialogue(line.id)
        assert len(list(folder.glob("reply-*.flac"))) == 3
        lanes, rate_hz = soundfile.read(folder / "recording.flac", dtype="int16")
        assert rate_hz == 24_000
        assert abs(lanes[:, 0]).max() > 1_000 and abs(lanes[:, 1]).max() > 1_000
    assert str(out / "report.html") in ran.err
    scores = read_scores(out / "scores")
    assert scores is not None and scores.samples == 9
    assert list(scores.metrics) == list(SCORES)
    used = {name: found.aggregates[0].used for name, found in scores.metrics.items()}
    assert used["asr_wer"] == used["dnsmos"] == used["signal"] == 9
    assert used["first_content"] <= attempts["completed"]  # an invalid turn has no times
    assert '<section id="scores">' in (out / "report.html").read_text()
