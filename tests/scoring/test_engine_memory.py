"""Memory of the scoring engine does not grow with the number of samples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.scoring.engine_metrics import LOG
from tests.scoring.engine_rig import sound

ROOT = Path(__file__).resolve().parents[2]
GROWTH_MIB = 8
"""Between 1 000 and 10 000 samples: of the engine, and of its largest worker."""

_SCORE = """
import resource, sys
from pathlib import Path
from harness.score.engine import Resources, ScoreStore, chosen_with_needs, score_samples
from metrics.scoring import Sample
from tests.scoring.engine_metrics import ALL

class Nobody:
    def metric_begins(self, name, total): pass
    def scored(self, name, line): pass
    def kept(self, name): pass
    def remark(self, text): raise AssertionError(text)

folder, count = Path(sys.argv[1]), int(sys.argv[2])
samples = (Sample(f"s{k}", str(folder / f"{k % 10}.wav"), text=f"text {k}") for k in range(count))
store = ScoreStore(folder / f"scores-{count}")
with store.writing():
    chosen = chosen_with_needs(["batched"], find=ALL.__getitem__)
    score_samples(samples, chosen, store, watcher=Nobody(), resources=Resources(threads=1, memory_bytes=1 << 20))
lines = sum(1 for _ in store.lines("batched"))
print(lines, *(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
"""


def test_memory_does_not_grow_with_samples(tmp_path: Path) -> None:
    for k in range(10):
        sound(tmp_path / f"{k}.wav", 0.01 * (k + 1), seconds=0.1)
    used_kib = {}
    for count in (1000, 10_000):
        ran = subprocess.run(
            [sys.executable, "-c", _SCORE, str(tmp_path), str(count)],
            cwd=ROOT,
            env={**os.environ, LOG: str(tmp_path / "log")},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        lines, *used_kib[count] = map(int, ran.stdout.split())
        assert lines == count
    for few, many in zip(used_kib[1000], used_kib[10_000], strict=True):
        assert many - few < 1024 * GROWTH_MIB, used_kib
