"""A scoring from beginning to end, of a run or of a folder: score, sum up, write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.results.finish import finish_run
from harness.score.engine import Chosen, Resources, ScoreStore, Watcher, score_samples
from harness.score.samples.of_folder import FolderSamples
from harness.score.samples.of_run import samples_of_run
from harness.score.summary import FOLDER, SUMMARY, TABLE, Scored, Scores, write_scores
from metrics.scoring import Sample
from sessions.errors import SetupError
from sessions.runs import AGAIN, RunFolder, disk_errors, indented, read_json, write_atomic

_SOURCE = "source.json"


class Source(msgspec.Struct, frozen=True):
    """scores/source.json of sounds that are no run's: where they were."""

    folder: str
    version: int = 1


class Scoring:
    """What is to be scored, and where the scores are put. `score` makes them, `finish` sums up what is there.

    They are two, for who interrupts the first still wants the second.
    """

    def __init__(self, place: Path, scored: Scored, chosen: Sequence[Chosen], *, again: bool = False) -> None:
        """place: the folder of the scores · again: forget what is there of these metrics."""
        self.place = place
        self._scored = scored
        self._chosen = chosen
        self._again = again
        self._scores: Scores | None = None

    @property
    def names(self) -> list[str]:
        return [each.name for each in self._chosen]

    def score(self, watcher: Watcher, resources: Resources) -> None:
        """Raises `SetupError` where scores cannot be written, and `KeyboardInterrupt`; what was made is kept. It is
        summed up here, while no other process can write."""
        store = ScoreStore(self.place)
        with store.writing():
            if self._again:
                with disk_errors(self.place, then=AGAIN):
                    for each in self._chosen:
                        store.path(each.name).unlink(missing_ok=True)
            try:
                score_samples(self._scored.samples(), self._chosen, store, watcher=watcher, resources=resources)
            except KeyboardInterrupt:
                self._sum_up(store)
                raise
            self._sum_up(store)

    def finish(self) -> Scores:
        """What summary.json and scores.csv hold; they are written where `score` did not come to it. Raises `SetupError`
        where the disk refuses."""
        if self._scores is not None:
            return self._scores
        store = ScoreStore(self.place)
        with store.writing():
            return self._sum_up(store)

    def _sum_up(self, store: ScoreStore) -> Scores:
        self._scores = write_scores(self.place, self._scored, store, self._chosen)
        return self._scores


@dataclass(frozen=True, slots=True)
class OfAll:
    """What holds for every reply of a run, "" where nobody said. language: of those of which the script does not say
    · reference_audio: a file with the voice that they should have."""

    language: str = ""
    reference_audio: str = ""

    def known_of(self, sample: Sample) -> Sample:
        language = sample.language or self.language
        return msgspec.structs.replace(sample, language=language, reference_audio=self.reference_audio)


def scoring_of_run(
    run: RunFolder, chosen: Sequence[Chosen], left_out: Mapping[str, str], known: OfAll, *, again: bool = False
) -> Scoring:
    """The replies of a run, which is locked."""
    found = samples_of_run(run)
    samples = [known.known_of(sample) for sample in found.samples]

    def each() -> Iterable[Sample]:
        return samples

    scored = Scored("run", each, len(samples), remarks=found.remarks, left_out=left_out)
    return Scoring(run.path / FOLDER, scored, chosen, again=again)


def scoring_of_folder(
    samples: FolderSamples, out: Path, chosen: Sequence[Chosen], left_out: Mapping[str, str], *, again: bool = False
) -> Scoring:
    """The files of a folder. out: where the scores go. Raises `SetupError` where it holds something else."""
    place = out / FOLDER
    source = Source(str(samples.root.resolve()))
    if (out / "plan.json").exists():
        raise SetupError(f"{out} holds a run", "Choose another --out")
    with disk_errors(place, then=AGAIN):
        place.mkdir(parents=True, exist_ok=True)
        file = place / _SOURCE
        if file.exists():
            known = read_json(file, Source, 1)
            if known != source:
                raise SetupError(f"{out} holds the scores of {known.folder}", "Choose another --out")
        else:
            write_atomic(file, indented(source))
    scored = Scored(str(samples.root), lambda: samples, len(samples), samples.coverage(), (), left_out)
    return Scoring(place, scored, chosen, again=again)


def rebuild_report(run: RunFolder) -> Path:
    """The page with the scores in it, and all else that is derived."""
    return finish_run(run).report_path


__all__ = ["FOLDER", "SUMMARY", "TABLE", "Scoring", "rebuild_report", "scoring_of_folder", "scoring_of_run"]
