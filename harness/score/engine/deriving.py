"""Metrics that derive: from a sample, or a whole group of them, and from what other metrics gave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.score.engine.asked import Chosen, Resources
from harness.score.engine.child import Child, Died
from harness.score.engine.keys import shown
from harness.score.engine.messages import Broke, Call, Derive, Derived, Scored
from harness.score.engine.recorder import Entry, Group, NoScore, Recorder, what_it_lacks
from harness.score.engine.store import is_error
from metrics.result import Failed, Unavailable
from metrics.scoring import passed_on

GROUP_LIMIT = 5000
"""Samples of a group; more are no dialogue, and would have to be held in memory all at once."""
_AT_ONCE = 64
_LIMIT_PER_SAMPLE_S = 1.0


@dataclass(frozen=True, slots=True)
class _Open:
    """A score that is yet to be derived. wanted: false where it is there already, and others of its group are not."""

    entry: Entry
    key: str
    wanted: bool = True


class Deriver:
    """Takes samples whose sounds are scored, and groups that are complete. off: metrics that cannot be had, and why."""

    def __init__(
        self,
        chosen: Sequence[Chosen],
        child: Child,
        recorder: Recorder,
        resources: Resources,
        *,
        off: dict[str, NoScore],
        remark: Callable[[str], None],
        done: Callable[[Entry], None],
    ) -> None:
        self._child, self._recorder, self._resources = child, recorder, resources
        self._off, self._remark, self._done = off, remark, done
        self._early: list[Chosen] = []
        self._late: list[Chosen] = []
        for each in chosen:
            waits = each.metric.of_groups or any(
                name in {late.name for late in self._late} for name in each.metric.needs
            )
            (self._late if waits else self._early).append(each)
        self._needed = {name for each in self._late for name in each.metric.needs}
        self._queue: asyncio.Queue[Entry | Group | None] = asyncio.Queue()

    def take(self, entry: Entry) -> None:
        """All scorers have answered for this sample."""
        self._queue.put_nowait(entry)

    def close_group(self, group: Group) -> None:
        """No further sample of it comes."""
        group.closed = True
        if not group.open:
            self._queue.put_nowait(group)

    def close(self) -> None:
        """Nothing more comes."""
        self._queue.put_nowait(None)

    async def run(self) -> None:
        try:
            while (first := await self._queue.get()) is not None:
                entries, groups = self._with_others(first)
                for each in self._early:
                    await self._derive(each, [[entry] for entry in entries])
                for entry in entries:
                    await self._out(entry)
                for group in groups:
                    await self._derive_group(group)
        finally:
            await self._child.kill()

    def _with_others(self, first: Entry | Group) -> tuple[list[Entry], list[Group]]:
        """What is there already comes along."""
        found: list[Entry | Group] = [first]
        while len(found) < _AT_ONCE and not self._queue.empty():
            more = self._queue.get_nowait()
            if more is None:
                self._queue.put_nowait(None)
                break
            found.append(more)
        return [each for each in found if isinstance(each, Entry)], [each for each in found if isinstance(each, Group)]

    async def _out(self, entry: Entry) -> None:
        """A sample has all that it gets alone."""
        group = entry.group
        group.open -= 1
        if self._late:
            # Its group may be long in coming: scores lie in the store till then, unless they are not to be found there.
            entry.scores = {name: s for name, s in entry.scores.items() if name in self._needed and is_error(s)}
            if group.members is not None:
                group.members.append(entry)
                if len(group.members) > GROUP_LIMIT:
                    self._too_many(group.members)
                    group.members = None
            else:
                self._too_many([entry])
        self._done(entry)
        if group.closed and not group.open:
            await self._derive_group(group)

    def _too_many(self, entries: Sequence[Entry]) -> None:
        why = Unavailable(f"its group holds more than {GROUP_LIMIT} samples, which is no dialogue")
        for entry in entries:
            for each in self._late:
                self._recorder.nothing(each, entry, why)

    async def _derive_group(self, group: Group) -> None:
        if not self._late or not group.members:
            return
        entries = sorted(group.members, key=lambda entry: entry.sample.order)
        for each in self._late:
            await self._derive(each, [entries] if each.metric.of_groups else [[entry] for entry in entries])
        group.members = []

    async def _derive(self, each: Chosen, calls: Sequence[Sequence[Entry]]) -> None:
        waiting: dict[str, list[_Open]] = {}
        same: list[Sequence[Entry]] = []
        for entries in calls:
            found = self._open(each, entries)
            if found and found[0].key in waiting:
                same.append(entries)
            elif found:
                waiting[found[0].key] = found
        together = list(waiting.values())
        for at in range(0, len(together), _AT_ONCE):
            await self._ask(each, together[at : at + _AT_ONCE])
        if same:
            await self._derive(each, same)  # what was derived for others with the same content is there now

    def _open(self, each: Chosen, entries: Sequence[Entry]) -> list[_Open]:
        """What has yet to be derived, together; for all else a line is written. Of a group all are needed, or none."""
        live: list[Entry] = []
        for entry in entries:
            why = self._why_not(each, entry)
            if why is None:
                live.append(entry)
            else:
                self._recorder.nothing(each, entry, why)
        inputs = [{name: entry.keys[name] for name in each.metric.needs} for entry in live]
        keys = self._recorder.keys.of_derived(each, [entry.sample for entry in live], inputs)
        keyed = zip(live, keys, strict=True)
        found = [_Open(entry, key, not self._recorder.again(each, entry, key)) for entry, key in keyed]
        if not any(open_.wanted for open_ in found):
            return []
        return [open_ for open_ in found if not self._lacking(each, open_)]

    def _why_not(self, each: Chosen, entry: Entry) -> NoScore | None:
        if entry.sample.unavailable:
            return Unavailable(entry.sample.unavailable)
        if each.name in self._off:
            return self._off[each.name]
        for name in each.metric.needs:
            if name in entry.nothing:
                return passed_on(name, entry.nothing[name])
        return None

    def _lacking(self, each: Chosen, open_: _Open) -> bool:
        """Whether something that it cannot do without came out without a value; then it has none either."""
        if each.metric.without_values:
            return False
        for name in each.metric.needs:
            lacks = what_it_lacks(self._recorder.score_of(name, open_.entry))
            if lacks is not None:
                if open_.wanted:
                    score = each.metric.nothing(passed_on(name, lacks))
                    self._recorder.score(each, open_.entry, open_.key, score)
                return True
        return False

    async def _ask(self, each: Chosen, waiting: Sequence[list[_Open]], *, again: bool = False) -> None:
        metric = each.metric
        calls = [
            Call(
                [shown(metric, open_.entry.sample) for open_ in together],
                [{name: self._recorder.score_of(name, open_.entry) for name in metric.needs} for open_ in together],
            )
            for together in waiting
        ]
        limit_s = self._resources.silent_s + _LIMIT_PER_SAMPLE_S * sum(len(call.samples) for call in calls)
        figures = [figure.name for figure in metric.figures]
        try:
            answer = await self._child.ask(Derive(metric.derive, each.options, figures, calls), limit_s)
        except Died as died:
            await self._after_death(each, waiting, died, again=again)
            return
        assert isinstance(answer, Derived)
        for together, given in zip(waiting, answer.answers, strict=True):
            match given:
                case Broke(why):
                    self._fail(each, together, why)
                case Scored(scores):
                    for open_, score in zip(together, scores, strict=True):
                        if open_.wanted:
                            self._recorder.score(each, open_.entry, open_.key, score)

    async def _after_death(self, each: Chosen, waiting: Sequence[list[_Open]], died: Died, *, again: bool) -> None:
        if not again:
            self._remark(f"{each.name}: its worker {died}; what it had is tried once more, one by one")
            for one in waiting:
                await self._ask(each, [one], again=True)
            return
        for together in waiting:
            self._fail(each, together, f"its worker {died}, also when it was tried alone")

    def _fail(self, each: Chosen, together: Sequence[_Open], why: str) -> None:
        for open_ in together:
            if open_.wanted:
                self._recorder.nothing(each, open_.entry, Failed(why))
