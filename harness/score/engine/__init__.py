"""The scoring engine: samples in, lines in the store out.

    store = ScoreStore(folder)
    with store.writing():
        score_samples(samples, chosen_with_needs(["dnsmos", "asr_wer"]), store, watcher=watcher, resources=Resources())

Samples of one group come one after another. Interrupted or killed, the same call goes on where it stopped.
"""

from harness.score.engine.asked import Chosen, Resources, Watcher, chosen_with_needs
from harness.score.engine.engine import score_samples
from harness.score.engine.store import ScoreStore

__all__ = ["Chosen", "Resources", "ScoreStore", "Watcher", "chosen_with_needs", "score_samples"]
