"""What was said on one connection, as far as it was really heard, in the form that a chat model reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from servers.engines.llama import Message

_MESSAGE_TOKENS: Final = 6  # role and marks around a message, with a margin
_BYTES_PER_TOKEN: Final = 3  # English has about four, Chinese three: an estimate that errs on the safe side


@dataclass(frozen=True, slots=True)
class _Clause:
    """text: as yielded · start_samples, end_samples: where it lies in the line's audio."""

    text: str
    start_samples: int
    end_samples: int


class Line:
    """What one side said, clause by clause. role: "user", "assistant" or "system"."""

    def __init__(self, role: str) -> None:
        self.role = role
        self._clauses: list[_Clause] = []
        self._samples = 0

    @property
    def text(self) -> str:
        return "".join(clause.text for clause in self._clauses)

    def said(self, text: str, samples: int = 0) -> None:
        """A further clause, and how long its audio is (0 if it has none)."""
        self._clauses.append(_Clause(text, self._samples, self._samples + samples))
        self._samples += samples

    def heard(self, samples: int) -> None:
        """Keep what lies in the first `samples` of the audio; of a clause cut in two, its share of whole words."""
        if samples >= self._samples:
            return
        kept = [clause for clause in self._clauses if clause.end_samples <= samples]
        kept += _cut(self._clauses[len(kept)], samples)
        self._clauses, self._samples = kept, samples


class History:
    """The lines of a connection, oldest first."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._reply = Line("assistant")

    def add(self, role: str, text: str = "") -> Line:
        """A finished line, or the place of one whose words will come; without words it is no part of the prompt."""
        line = Line(role)
        line.said(text)
        self._lines.append(line)
        return line

    def begin_reply(self, *, remembered: bool = True) -> Line:
        """The line of a reply that begins now. remembered: False keeps it out of the prompt."""
        self._reply = Line("assistant")
        if remembered:
            self._lines.append(self._reply)
        return self._reply

    def heard(self, samples: int) -> None:
        """The user heard only the first `samples` of the last reply."""
        self._reply.heard(max(0, samples))

    def messages(self, system: str, budget_tokens: int) -> list[Message]:
        """The prompt, within about `budget_tokens`: the oldest turns are forgotten first, the newest never.

        To forget costs time, as the model must read all that is left anew. So it is done seldom: down to half of it.
        """
        if _tokens(self._all(system)) > budget_tokens:
            while _tokens(self._all(system)) > budget_tokens // 2 and self.forget_oldest():
                pass
        return self._all(system)

    def forget_oldest(self) -> bool:
        """Drop all before the second oldest user line, for good; False if there is none."""
        second = next((at for at, line in enumerate(self._lines) if at and line.role == "user"), 0)
        del self._lines[:second]
        return second > 0

    def _all(self, system: str) -> list[Message]:
        lines = [Message(role=line.role, content=line.text) for line in self._lines if line.text]
        return [Message(role="system", content=system), *lines]


def _cut(clause: _Clause, samples: int) -> list[_Clause]:
    """The whole words of `clause` that lie before `samples`, taking its words as equally long."""
    words = clause.text.split()
    count = len(words) * (samples - clause.start_samples) // (clause.end_samples - clause.start_samples)
    if count < 1:
        return []
    lead = clause.text[: len(clause.text) - len(clause.text.lstrip())]
    return [_Clause(lead + " ".join(words[:count]), clause.start_samples, samples)]


def _tokens(messages: list[Message]) -> int:
    """About how many tokens `messages` take, rather too many than too few."""
    return sum(len(message["content"].encode()) // _BYTES_PER_TOKEN + _MESSAGE_TOKENS for message in messages)
