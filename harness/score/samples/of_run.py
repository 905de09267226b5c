"""The replies of a run as samples, from its record alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.report.wording import plural
from harness.results.derive import derive
from harness.results.raw_record import raw_record
from harness.results.recording import reply_file, write_replies
from harness.runs.planning import slot_of
from harness.score.samples.names import must_be_text, whole
from metrics.attribution import TurnReplies, attribute
from metrics.conversation import Conversation, Reply
from metrics.cut import cut_ns
from metrics.playout import arrivals_of, play
from metrics.result import TurnResult, Value
from metrics.scoring import Sample
from metrics.turns import measure_conversation
from sessions.runs import JournalLine, PlannedScript, RunFolder

_VOICE_TO_VOICE = "voice_to_voice_ms"


@dataclass(frozen=True, slots=True)
class RunSamples:
    """samples: one per attempt that could have an answer, in the plan's order · remarks: what is left out, in words."""

    samples: list[Sample]
    remarks: list[str]


def samples_of_run(run: RunFolder) -> RunSamples:
    """Every turn of the dialogues that count. The replies' audio is rendered where it is not there.

    As in the summary, warm-up and dialogues that the user stopped are left out, and so is a turn that expects no reply
    and got none. A failed turn, and one without audio, is a sample that is unavailable. An invalid turn is scored, for
    its audio is as good as any, but it has no times.
    """
    must_be_text(run.path)
    samples: list[Sample] = []
    warmup = stopped = 0
    for line in sorted(run.journal(), key=lambda line: line.number):
        if line.warmup:
            warmup += 1
            continue
        found = _of_dialogue(run, line, slot_of(run.plan, line.number).script)
        if found is None:
            stopped += 1
        else:
            samples += found
    left_out = ((warmup, "warm-up dialogue"), (stopped, "dialogue that the user stopped"))
    many = {"dialogue that the user stopped": "dialogues that the user stopped"}
    remarks = [f"{plural(count, what, many.get(what, ''))} not scored" for count, what in left_out if count]
    return RunSamples(samples, remarks)


def _of_dialogue(run: RunFolder, line: JournalLine, script: PlannedScript) -> list[Sample] | None:
    """None where the user stopped it."""
    folder = run.dialogue(line.id)
    derived = derive(*raw_record(run, line.id))
    if not derived.completed:
        return None
    conversation = derived.conversation
    results = measure_conversation(
        conversation, limit_lateness_ms=run.plan.limits.lateness_ms, names=(_VOICE_TO_VOICE,)
    )
    replies = {one.turn.index: one for one in attribute(conversation)}
    samples = []
    for result in results:
        has_audio = result.turn in replies and bool(_with_audio(replies[result.turn]))
        if not result.expects_reply and not has_audio:
            continue
        known = _known(line, script, result)
        if not has_audio or result.turn_class == "failed":
            samples.append(_unavailable(known, result))
            continue
        samples.append(_sample(known, folder, conversation, replies[result.turn], result))
    if any(not Path(sample.audio).exists() for sample in samples if not sample.unavailable):
        write_replies(folder, conversation)
    return samples


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a turn before its reply is looked at."""

    id: str
    group: str
    order: int
    language: str
    reference: str | None


def _known(line: JournalLine, script: PlannedScript, result: TurnResult) -> _Known:
    planned = script.turns[result.turn]
    return _Known(
        id=f"{line.id}/{result.turn + 1}",
        group=line.id,
        order=result.turn,
        language=planned.language or script.language,
        reference=planned.reference or None,
    )


def _unavailable(known: _Known, result: TurnResult) -> Sample:
    if result.turn_class == "failed":
        why = f"the turn failed: {result.outcome}"
    else:
        why = f"the reply has no audio ({result.outcome})"
    return Sample(id=known.id, audio="", group=known.group, order=known.order, language=known.language, unavailable=why)


def _sample(
    known: _Known, folder: Path, conversation: Conversation, replies: TurnReplies, result: TurnResult
) -> Sample:
    spoken = _with_audio(replies)
    text = " ".join(filter(None, ("".join(piece.text for piece in reply.texts).strip() for reply in spoken)))
    measured = result.measures[_VOICE_TO_VOICE]
    untimed = "this machine was late, so the turn's times are not used" if result.turn_class == "invalid" else ""
    return Sample(
        id=known.id,
        audio=str(reply_file(folder, result.turn)),
        group=known.group,
        order=known.order,
        language=known.language,
        text=whole(text) or None,
        reference=known.reference,
        rate_hz=conversation.rate_hz,
        borders=tuple(_borders(spoken)),
        heard=() if untimed else tuple(_heard(spoken, replies, conversation)),
        heard_samples=_heard_samples(spoken, conversation),
        voice_to_voice_ms=measured.value if isinstance(measured, Value) and not untimed else None,
        untimed=untimed,
    )


def _with_audio(replies: TurnReplies) -> list[Reply]:
    """The turn's replies that have any, in the order in which they stand in its file."""
    return [reply for reply in replies.all if _samples(reply)]


def _samples(reply: Reply) -> int:
    return sum(len(packet.pcm) for packet in reply.packets)


def _borders(spoken: Sequence[Reply]) -> Iterator[int]:
    first = 0
    for packet in (packet for reply in spoken for packet in reply.packets if len(packet.pcm)):
        yield first
        first += len(packet.pcm)


def _heard(spoken: Sequence[Reply], replies: TurnReplies, conversation: Conversation) -> Iterator[tuple[int, int]]:
    """The stretches of what answers: false starts and the agent's backchannels are in the file too, but no answer."""
    answers = {reply.id for reply in (replies.reply, *replies.others) if reply is not None}
    first = 0
    for reply in spoken:
        playout = play(arrivals_of(reply.packets), conversation.rate_hz)
        if playout is not None and reply.id in answers:
            for segment in playout.segments:
                yield first + segment.first_sample, segment.base_ns - replies.turn.speech_end_ns
        first += _samples(reply)


def _heard_samples(spoken: Sequence[Reply], conversation: Conversation) -> int | None:
    """Up to where the file was heard; None where its last reply was heard to its end."""
    last = spoken[-1]
    until_ns, playout = cut_ns(last, conversation.vad), play(arrivals_of(last.packets), conversation.rate_hz)
    if until_ns is None or playout is None:
        return None
    heard = playout.heard_samples(until_ns)
    return None if heard >= playout.samples else sum(_samples(reply) for reply in spoken[:-1]) + heard
