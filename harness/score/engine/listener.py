"""One metric that listens: its sounds in batches through its worker, whose deaths are named and survived."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from harness.score.engine.asked import Chosen, Resources
from harness.score.engine.bucket import Bucket, Waiting
from harness.score.engine.child import Child, Died
from harness.score.engine.messages import Broke, Item, Listen, Load, Loaded, Refused, Scored
from harness.score.engine.recorder import NoScore
from metrics.result import Failed, Unavailable
from metrics.scoring import Score

_STARTS = 2
"""How often a worker may fail to start before its metric is given up."""
_DEATHS = 10
"""How many deaths in a row, with no score between them."""
_PADDED_S = 120.0
_ON_A_DEVICE = 8
"""How much larger batches are where a device computes them."""

Deliver = Callable[[Chosen, Waiting, Score | NoScore], None]


class Listener:
    """deliver: is handed each score, or why there is none · remark: is told of deaths, and of a metric given up."""

    def __init__(
        self,
        chosen: Chosen,
        child: Child,
        resources: Resources,
        *,
        deliver: Deliver,
        remark: Callable[[str], None],
    ) -> None:
        self.chosen, self._child, self._resources = chosen, child, resources
        self._deliver, self._remark = deliver, remark
        self._on_device = chosen.metric.on_device and resources.device != "cpu"
        larger = _ON_A_DEVICE if self._on_device else 1
        self.bucket = Bucket(chosen.metric.batch * larger, pads=chosen.metric.pads, padded_s=_PADDED_S * larger)
        self.rate_hz = chosen.metric.rate_for(chosen.options) or 0
        """Of the sound that it is to hear; 0 for the file's own."""
        self.off: NoScore | None = None
        """Why this metric gives no scores any more."""
        self._patience_s = _patience_s(chosen)
        self._loaded = False
        self._failed_starts = 0
        self._deaths = 0

    async def run(self) -> None:
        """Score what comes, until the bucket is closed and empty. The worker is started for the first sound."""
        try:
            while batch := await self.bucket.take():
                await self._score(batch)
        finally:
            await self._child.kill()

    async def _score(self, batch: Sequence[Waiting]) -> None:
        answer = await self._ask(batch)
        if isinstance(answer, Scored):
            self._hand_over(batch, answer.scores)
            return
        alone = len(batch) == 1
        if isinstance(answer, Broke):
            await self._unload_if_in_doubt(answer)
            if alone:  # the same again would give the same
                self._deliver(self.chosen, batch[0], Failed(answer.why))
                return
        if isinstance(answer, Died):
            again = "it is tried once more" if alone else f"each of its {len(batch)} sounds is tried once more, alone"
            self._remark(f"{self.chosen.name}: its worker {answer}; {again}")
        for waiting in batch:
            await self._score_alone(waiting)

    async def _score_alone(self, waiting: Waiting) -> None:
        answer = await self._ask([waiting])
        match answer:
            case Scored(scores):
                self._hand_over([waiting], scores)
            case Broke(why):
                await self._unload_if_in_doubt(answer)
                self._deliver(self.chosen, waiting, Failed(why))
            case Died():
                self._remark(f"{self.chosen.name}: {waiting.sample.id} is given up: its worker {answer}, again")
                self._deliver(self.chosen, waiting, Failed(f"its worker {answer}, also when it was tried alone"))
            case _:
                self._deliver(self.chosen, waiting, answer)

    async def _unload_if_in_doubt(self, broke: Broke) -> None:
        """A fault on a device may make whatever follows in the same process fail."""
        if self._on_device and not broke.meant:
            await self._unload()

    async def _unload(self) -> None:
        self._loaded = False
        await self._child.kill()

    async def _ask(self, batch: Sequence[Waiting]) -> Scored | Broke | Died | NoScore:
        """What became of a batch. A metric that is given up answers why, for each alone."""
        resources = self._resources
        if not self._loaded and self.off is None:
            await self._load()
        if self.off is not None:
            return self.off
        items = [Item(w.sample, str(w.stored.place), w.samples, w.stored.rate_hz) for w in batch]
        limit_s = resources.silent_s + sum(
            self._patience_s + resources.silent_per_s * waiting.seconds for waiting in batch
        )
        try:
            answer = await self._child.ask(Listen(items), limit_s)
        except Died as died:
            self._loaded = False
            self._deaths += 1
            if self._deaths >= _DEATHS:
                await self._give_up(Failed(f"its worker died {self._deaths} times in a row; the last time it {died}"))
            return died
        self._deaths = 0
        assert isinstance(answer, Scored | Broke)
        return answer

    async def _load(self) -> None:
        """Have the model loaded, or this metric given up."""
        metric = self.chosen.metric
        figures = [figure.name for figure in metric.figures]
        while not self._loaded and self.off is None:
            try:
                answer = await self._child.ask(Load(metric.make, self.chosen.options, figures), self._resources.load_s)
            except Died as died:
                await self._failed_to_start(f"its worker {died} while it was starting")
                continue
            match answer:
                case Refused(why, missing=True):
                    await self._give_up(Unavailable(why))
                case Refused(why, final=True):
                    await self._give_up(Failed(why))
                case Refused(why):
                    await self._failed_to_start(why)
                case Loaded(check) if check:
                    await self._give_up(Unavailable(f"self-check: {check}"))
                case _:
                    self._loaded, self._failed_starts = True, 0

    async def _failed_to_start(self, why: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _STARTS:
            await self._give_up(Failed(why))

    async def _give_up(self, why: NoScore) -> None:
        self.off = why
        await self._unload()
        told = f"is unavailable: {why.because}" if isinstance(why, Unavailable) else f"failed: {why.error}"
        self._remark(f"{self.chosen.name} {told}")

    def _hand_over(self, batch: Sequence[Waiting], scores: Sequence[Score]) -> None:
        for waiting, score in zip(batch, scores, strict=True):
            self._deliver(self.chosen, waiting, score)


def _patience_s(chosen: Chosen) -> float:
    if not chosen.metric.patience:
        return 0.0
    module, _, name = chosen.metric.patience.partition(":")
    return float(getattr(importlib.import_module(module), name)(chosen.options))
