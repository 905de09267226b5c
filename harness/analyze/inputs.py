"""What there is to analyze: one recording with both lanes, two files with one each, or a folder of many such samples.

In a folder, a sample is a folder that holds `input.wav` and `output.wav` (Full-Duplex-Bench v1 and v1.5), `A.wav` and
`B.wav` (v2: the examiner, then the system under test), `user.wav` and `agent.wav`, or a `recording` with both lanes;
WAV, FLAC, Ogg or MP3. Where no folder does, each audio file in the given one is a recording with both lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.from_recording.lanes import Call, lane_number, open_call
from sessions.errors import BadAudio, SetupError

PAIRS: Final = (("input", "output"), ("A", "B"), ("user", "agent"))
"""Names of the user's file and of the agent's."""
BOTH: Final = "recording"
SUFFIXES: Final = (".wav", ".flac", ".ogg", ".mp3")


@dataclass(frozen=True, slots=True)
class Sample:
    """user, agent: the files, the same one where it holds both lanes · user_lane, agent_lane: `left`, `right` or a
    channel's number, "" for the one that is meant where nothing is said · folder: where labels may lie."""

    name: str
    user: Path
    agent: Path
    user_lane: str = ""
    agent_lane: str = ""

    @property
    def is_pair(self) -> bool:
        return self.user != self.agent


@dataclass(frozen=True, slots=True)
class Lane:
    """One channel of one file. side: "user" or "agent"."""

    call: Call
    number: int
    side: str

    @property
    def where(self) -> str:
        """For people: `call.wav, channel 0`."""
        return self.call.path.name if self.call.channels == 1 else f"{self.call.path.name}, channel {self.number}"


def find_samples(folder: Path, user_lane: str, agent_lane: str) -> list[Sample]:
    """Every sample below `folder`, in the order of their names. Raises `SetupError` where there is none."""
    found = [
        Sample(_name(place, folder), *pair, user_lane, agent_lane)
        for place in sorted({folder, *(path for path in folder.rglob("*") if path.is_dir())})
        if (pair := _pair_in(place)) is not None
    ]
    if not found:
        loose = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in SUFFIXES)
        found = [Sample(path.name, path, path, user_lane, agent_lane) for path in loose]
    if not found:
        raise SetupError(
            f"there is nothing to analyze in {folder}",
            "Its folders should hold input.wav and output.wav, A.wav and B.wav, user.wav and agent.wav, or a recording",
        )
    return found


def open_lanes(sample: Sample) -> tuple[Lane, Lane]:
    """The user's lane and the agent's, looked through to their ends. Raises `BadAudio` or `SetupError`."""
    if sample.is_pair:
        return _single(sample.user, sample.user_lane, "user"), _single(sample.agent, sample.agent_lane, "agent")
    call = open_call(sample.user)
    if call.channels == 1:
        raise BadAudio(
            f"{call.path} has one channel, which does not tell user and agent apart",
            "Give a recording with a lane for each, or two files with --user and --agent",
        )
    if call.same_lanes:
        raise BadAudio(
            f"the channels of {call.path} hold the same sound, which does not tell user and agent apart",
            "Give a recording with a lane for each",
        )
    if call.channels > 2 and not (sample.user_lane and sample.agent_lane):
        raise SetupError(f"{call.path} has {call.channels} channels", "Name the two with --lane and --other")
    user = lane_number(call, sample.user_lane or "left") if sample.user_lane or not sample.agent_lane else None
    agent = lane_number(call, sample.agent_lane) if sample.agent_lane else 1 - (user or 0)
    user = 1 - agent if user is None else user
    if user == agent:
        raise SetupError(f"the user's lane and the agent's are both channel {user}", "Name two different ones")
    return Lane(call, user, "user"), Lane(call, agent, "agent")


def _single(path: Path, lane: str, side: str) -> Lane:
    call = open_call(path)
    if lane:
        return Lane(call, lane_number(call, lane), side)
    if call.channels > 1 and not call.same_lanes:
        raise SetupError(
            f"{path} has {call.channels} channels, where one is the {side}'s",
            f"Save the {side}'s alone, or name it with {'--lane' if side == 'user' else '--other'}",
        )
    return Lane(call, 0, side)


def _pair_in(place: Path) -> tuple[Path, Path] | None:
    for user, agent in (*PAIRS, (BOTH, BOTH)):
        files = _file(place, user), _file(place, agent)
        if files[0] is not None and files[1] is not None:
            return files[0], files[1]
    return None


def _file(place: Path, stem: str) -> Path | None:
    return next((file for suffix in SUFFIXES if (file := place / f"{stem}{suffix}").is_file()), None)


def _name(place: Path, folder: Path) -> str:
    return place.name if place == folder else place.relative_to(folder).as_posix()


def half_a_sample(samples: Sequence[Sample], folder: Path) -> Iterator[str]:
    """What looks like a sample but lacks a file, in words."""
    known = {sample.user.parent for sample in samples}
    for place in sorted({folder, *(path for path in folder.rglob("*") if path.is_dir())} - known):
        for pair in PAIRS:
            there = [stem for stem in pair if _file(place, stem) is not None]
            if len(there) == 1:
                missing = next(stem for stem in pair if stem not in there)
                yield f"{_name(place, folder)} has {there[0]} and no {missing}: left out"
