"""What figures are called on screen, what they mean in a sentence, and how numbers are written.

The table in the terminal and the report share it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from metrics.stats import Distribution
from sessions.runs import PlannedTurn

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

SHOWN_AT_MOST = 2000
DASH = "–"
MINUS = "−"

ROWS = (
    "first_packet_ms",
    "first_text_ms",
    "voice_to_voice_ms",
    "voice_to_voice_b20_ms",
    "voice_to_voice_b60_ms",
    "voice_to_voice_b100_ms",
    "voice_to_voice_b200_ms",
    "silence_padding_ms",
    "server_vad_delay_ms",
    "gap_max_ms",
    "underruns_b0",
    "gapless_prebuffer_ms",
    "real_time_factor",
)
"""The measures that everybody asks for, in order: the rows of the table and the first rows of the page."""
PROTOCOLS = {"openai-realtime": "OpenAI Realtime"}
CLASSES = {
    "A": "session with explicit end of turn",
    "B": "session with server voice detection",
    "C": "one request per turn",
    "D": "full duplex",
}
TURN_DETECTIONS = {"manual": "manual", "server_vad": "server VAD"}


@dataclass(frozen=True, slots=True)
class Wording:
    """label: in tables · meaning: one sentence · behind: a variant of the row above, shown indented."""

    label: str
    meaning: str
    behind: bool = False


WORDS: dict[str, Wording] = {
    "first_packet_ms": Wording(
        "first packet", "From the user's last speech sample to the arrival of the first message with reply audio."
    ),
    "first_text_ms": Wording("first text", "From the user's last speech sample to the first reply text."),
    "voice_to_voice_ms": Wording(
        "voice-to-voice",
        "From the user's last speech sample to the first audible reply sample, played on arrival. "
        "Negative: the agent began before the user had finished.",
    ),
    **{
        f"voice_to_voice_b{buffer_ms}_ms": Wording(
            f"behind {buffer_ms} ms buffer",
            f"Voice-to-voice as heard by a listener whose player first collects {buffer_ms} ms (a jitter buffer).",
            behind=True,
        )
        for buffer_ms in (20, 60, 100, 200)
    },
    "first_packet_from_last_sent_ms": Wording(
        "first packet, from last frame",
        "First packet, counted from the write of the frame with the last speech sample.",
    ),
    "first_text_from_last_sent_ms": Wording(
        "first text, from last frame", "First text, counted from the write of the frame with the last speech sample."
    ),
    "voice_to_voice_from_last_sent_ms": Wording(
        "voice-to-voice, from last frame",
        "Voice-to-voice, counted from the write of the frame with the last speech sample.",
    ),
    "silence_padding_ms": Wording(
        "silence padding", "From the first packet to the first audible sample: silence that the reply begins with."
    ),
    "commit_to_first_packet_ms": Wording(
        "commit to first packet", "From the client's end-of-turn message to the first packet."
    ),
    "server_vad_delay_ms": Wording(
        "server VAD delay", "From the user's last speech sample to the server's word that the user stopped."
    ),
    "gap_max_ms": Wording("longest gap", "Longest wait between two audio messages of one reply."),
    "gap_p50_ms": Wording("median gap", "Median wait between two audio messages of one reply."),
    **{
        f"underruns_b{buffer_ms}": Wording(
            f"underruns, {buffer_ms} ms buffer" if buffer_ms else "underruns",
            "How often per reply the audio ran out while it played"
            + (f" behind a {buffer_ms} ms buffer." if buffer_ms else ", played on arrival."),
        )
        for buffer_ms in (0, 20, 60, 100, 200)
    },
    **{
        f"underrun_b{buffer_ms}_ms": Wording(
            f"underrun time, {buffer_ms} ms buffer" if buffer_ms else "underrun time",
            "Silence per reply because the audio ran out"
            + (f" behind a {buffer_ms} ms buffer." if buffer_ms else ", played on arrival."),
        )
        for buffer_ms in (0, 20, 60, 100, 200)
    },
    "gapless_prebuffer_ms": Wording(
        "gapless prebuffer", "The smallest buffer with which the reply would have played without a gap."
    ),
    "real_time_factor": Wording(
        "real-time factor", "Time over which the audio arrived, divided by its duration; above 1 it cannot keep up."
    ),
    "reply_duration_ms": Wording("reply duration", "Length of the reply's audio."),
    "send_lateness_max_ms": Wording(
        "latest frame sent",
        "How late this machine sent its latest user frame of the turn; over the limit it is invalid.",
    ),
    "heartbeat_lag_max_ms": Wording(
        "heartbeat lag", "How late this machine's own 5 ms timer was at worst; over the limit the turn is invalid."
    ),
}

TURN_TAKING_WORDS: dict[str, Wording] = {
    "responded": Wording("answered", "Turns that expect a reply and got one that could be heard: the response rate."),
    "missed": Wording("missed", "Turns that expect a reply and got none at all."),
    "late": Wording("answered late", "Answers heard more than 2 s after the user's last speech sample."),
    "talk_over": Wording("talked over", "Answers that began before the user had finished."),
    "spurious_speech": Wording("spoke again unasked", "A further reply was heard after the answer, unasked."),
    "premature_endpoint": Wording(
        "ended the turn too early", "The server took the turn, or began a reply, while the user was not done."
    ),
    "interruption_ignored": Wording(
        "interruptions ignored", "The agent was heard for more than 2 s after the user began to interrupt it."
    ),
    "false_interruption": Wording(
        "stopped by a mere sound", "A backchannel, a cough or a noise cut off the agent that was speaking."
    ),
    "answered_backchannel": Wording("answered a mere sound", "A backchannel, a cough or a noise got a reply."),
    "stayed_quiet": Wording("quiet in a silence", "The user said nothing, and neither did the agent."),
    "barge_in_stop_ms": Wording(
        "barge-in stop",
        "From the interruption's first audible sample to the end of what is heard of the agent; "
        "with manual turns, from the client's cancel to the reply's last packet.",
    ),
    "voice_to_voice_after_interruption_ms": Wording(
        "voice-to-voice after it", "Voice-to-voice of the turns that interrupt: from their end to the new answer.", True
    ),
    "interrupted_heard_ms": Wording("heard of the reply", "How much of the interrupted reply was heard.", True),
    "interrupted_generated_ms": Wording("generated of it", "How much of the interrupted reply was generated.", True),
    "reprompt_ms": Wording("asked again after", "From the start of the user's silence to the agent's asking again."),
    "overlap_ms": Wording("overlap", "How long both were heard at once, per turn."),
    "agent_over_user_ms": Wording("the agent over the user", "Overlap that the agent began.", True),
    "user_over_agent_ms": Wording("the user over the agent", "Overlap that the user began.", True),
    "agent_backchannels": Wording("the agent's backchannels", "The agent's own short sounds while the user spoke."),
    "session_underruns": Wording(
        "underruns, per session", "How often the session's stream ran out, played on arrival."
    ),
    "session_underrun_ms": Wording("underrun time, per session", "Silence because the session's stream ran out."),
}

INSTANTS: dict[str, str] = {
    "speech_end": "the user's last speech sample has been spoken",
    "last_sent": "the frame that holds it was written",
    "turn_committed": "the end-of-turn message was written",
    "server_vad_stopped": "the server said that the user stopped",
    "reply_created": "the server said that its reply began",
    "first_text": "the first reply text arrived",
    "first_packet": "the first message with reply audio arrived",
    "first_audible": "the first audible reply sample could be heard, played on arrival",
    "reply_done": "the reply's end",
}


def clean(text: str) -> str:
    """A server's text as it may be shown: control characters and lone surrogates become the replacement character."""
    return _UNFIT.sub("\ufffd", text)


def excerpt(text: str) -> str:
    """What people can read of a text; a server may send twenty megabytes of it. Files for programs keep it whole."""
    if len(text) <= SHOWN_AT_MOST:
        return text
    return f"{text[:SHOWN_AT_MOST]} … ({len(text)} characters in all)"


def one_line(text: str) -> str:
    """An excerpt on one line: a terminal gets no line breaks, and no escape sequences, that we did not write."""
    return clean(" ".join(excerpt(text).split()))


def words_for(name: str) -> Wording:
    """Label and meaning of a measure; one that a plugin brought goes by its own name."""
    return WORDS.get(name) or TURN_TAKING_WORDS.get(name) or Wording(name.removesuffix("_ms").replace("_", " "), "")


def digits_for(*values: float | None) -> int:
    """Decimals with which the largest of `values` has three significant figures. What stands in one row shares them."""
    size = max((abs(value) for value in values if value is not None), default=0.0)
    return 0 if size >= 99.95 or size == 0 else 1 if size >= 9.995 else 2


def number(value: float | None, digits: int | None = None) -> str:
    """A figure for people: 1843, 412, 41.3, 4.13. digits: decimals, where the row has settled them."""
    if value is None:
        return DASH
    text = f"{value:.{digits_for(value) if digits is None else digits}f}"
    return text.replace("-", MINUS) if float(text) else text.removeprefix("-")


def span(low: float, high: float, digits: int | None = None) -> str:
    """A range: "310 – 890"."""
    shared = digits_for(low, high) if digits is None else digits
    return f"{number(low, shared)} {DASH} {number(high, shared)}"


def row_digits(unit: str, distribution: Distribution) -> int:
    """Decimals for everything in a distribution's row; whole counts have none."""
    figures = (distribution.p50, distribution.minimum, distribution.maximum)
    if unit == "count" and all(value is None or value.is_integer() for value in figures):
        return 0
    return digits_for(*figures)


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def counts(items: dict[str, int]) -> str:
    """ "2 time-out, 1 refused", the most frequent first."""
    ordered = sorted(items.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in ordered)


def reasons(items: dict[str, int]) -> str:
    """ "no reply came (2); the reply has no text (1)", the most frequent first."""
    ordered = sorted(items.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{reason} ({count})" for reason, count in ordered)


class Described(Protocol):
    """What a plan and a summary's conditions both say."""

    @property
    def protocol(self) -> str: ...
    @property
    def protocol_class(self) -> str: ...
    @property
    def turn_detection(self) -> str: ...


def describe_class(run: Described) -> str:
    """Protocol, class and turn detection in words."""
    protocol = PROTOCOLS.get(run.protocol, run.protocol)
    kind = CLASSES.get(run.protocol_class, "unknown")
    detection = TURN_DETECTIONS.get(run.turn_detection, run.turn_detection)
    return f"{protocol}, class {run.protocol_class} ({kind}), turn detection: {detection}"


class SpeechEndError(Protocol):
    """p50 and p95 of the magnitude of a method's own error."""

    @property
    def p50_ms(self) -> float: ...
    @property
    def p95_ms(self) -> float: ...


def speech_end_bound(method: str, bound: SpeechEndError | None) -> str:
    """What stands under a table whose turns have an end of speech that `method` found."""
    if bound is None:
        return f"speech end by {method}: its own error was not measured"
    p50, p95 = number(bound.p50_ms), number(bound.p95_ms)
    return f"speech end by {method}: itself off by p50 {p50}, p95 {p95} ms (built-in marked audio)"


def start_of(turn: PlannedTurn) -> str:
    """When a turn starts, and as what: "300 ms after reply", "interruption 900 ms after onset", "at 12000 ms"."""
    kind = "" if turn.kind == "speech" else f"{turn.kind} "
    if turn.at_ms is not None:
        return f"{kind}at {turn.at_ms:g} ms"
    return f"{kind}{turn.gap_ms:g} ms after {turn.start_after}"
