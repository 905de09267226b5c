"""Cuts a growing text into clauses that can be spoken one by one, as early as sensible. Pure.

Where a text is cut depends on the text alone, never on how it arrived in pieces: a mark decides only once what follows
it is known. Joined as they are, the clauses equal `plain(text)`: the text without the symbols that a voice would read
aloud, each run of white space as one space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_SENTENCE_MARKS: Final = frozenset(".!?…。！？")
_MARKS: Final = _SENTENCE_MARKS | frozenset(",;:—，；：、")
_UNSPACED_MARKS: Final = frozenset("—。！？，；：、")  # these end a clause without white space after them
_CLOSING: Final = "\"'”’»)}」』）】*_`~"
_CLOSERS: Final = frozenset(_CLOSING)
_TITLES: Final = frozenset(
    {"mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "gen", "col", "lt", "capt", "rev", "hon"}
    | {"vs", "cf", "approx", "dept", "inc", "ltd", "corp"}
)
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_WORD: Final = re.compile(r"[^\W_]+(?:['’.,:-][^\W_]+)*")
_LAST_WORD: Final = re.compile(r"[^\W_](?:[\w.'’-]*[^\W_])?$")
_WORDS_BEFORE_FIRST_PAUSE: Final = 4
_WORDS_BEFORE_LATER_PAUSE: Final = 6  # the first clause plays meanwhile: no hurry, better prosody
_LONGEST: Final = 240  # characters; a longer run without a usable mark is cut at white space

_SYMBOLS: Final = re.compile(r"[*`|\[\]]|~~+|[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d]")
_EDGE_UNDERSCORES: Final = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])")
_LINK_TARGET: Final = re.compile(r"\]\([^)\s]*\)?")
_LINK_END: Final = re.compile(r"[)\s]")
_LINE_MARKERS: Final = re.compile(r"#{1,6}|>+|[-+*•–]")
_RULES: Final = re.compile(r"[-=_*|:+]{3,}|```\w*")


def plain(text: str) -> str:
    """`text` as it is spoken: no Markdown, no emoji, white space as single spaces, none at either end."""
    return _Plain().add(text)


class ClauseSplitter:
    """Feed text, get clauses. Later clauses begin with the space that parts them from the one before."""

    def __init__(self) -> None:
        self._buffer = ""
        self._plain = _Plain()
        self._words_before_pause = _WORDS_BEFORE_FIRST_PAUSE

    def feed(self, delta: str) -> list[str]:
        """The clauses that `delta` completes, perhaps none."""
        self._buffer += delta
        return self._taken(final=False)

    def flush(self) -> list[str]:
        """What is left, when the text is over."""
        clauses = self._taken(final=True)
        clauses += self._spoken(self._buffer)
        self._buffer = ""
        return clauses

    def _taken(self, *, final: bool) -> list[str]:
        clauses: list[str] = []
        while (end := _next_cut(self._buffer, self._words_before_pause, final=final)) is not None:
            clauses += self._spoken(self._buffer[:end])
            self._buffer = self._buffer[end:]
            self._words_before_pause = _WORDS_BEFORE_LATER_PAUSE
        return clauses

    def _spoken(self, raw: str) -> list[str]:
        clause = self._plain.add(raw)
        return [clause] if clause else []


@dataclass(slots=True)
class _Plain:
    """Takes Markdown out of a text that comes clause by clause. Words are looked at one by one."""

    started: bool = field(default=False)
    space_owed: bool = field(default=False)
    at_line_start: bool = field(default=True)
    in_word: bool = field(default=False)
    """The last clause ended without white space: what comes first goes on with its word."""

    def add(self, raw: str) -> str:
        out: list[str] = []
        for token in re.findall(r"\s+|\S+", raw):
            if token.isspace():
                self.space_owed = self.started
                self.at_line_start = self.at_line_start or "\n" in token
                self.in_word = False
                continue
            word = self._word(token)
            self.in_word = True
            if word:
                out.append(f" {word}" if self.space_owed else word)
                self.started, self.space_owed = True, False
        return "".join(out)

    def _word(self, token: str) -> str:
        """`token` without its symbols; "" if nothing of it is spoken."""
        alone = not self.in_word
        if alone and self.at_line_start and _LINE_MARKERS.fullmatch(token):
            return ""
        self.at_line_start = False
        if alone and token == "*":
            return "times"
        if alone and _RULES.fullmatch(token):
            return ""
        return _EDGE_UNDERSCORES.sub("", _SYMBOLS.sub("", _LINK_TARGET.sub("", token)))


def _next_cut(text: str, words_before_pause: int, *, final: bool) -> int | None:
    """Where the first clause of `text` ends; None if it does not end in `text`, or that cannot be told yet.

    final: nothing follows `text`.
    """
    at = 0
    while at < min(len(text), _LONGEST):
        char = text[at]
        if char == "\n" and _WORD.search(text, 0, at):
            return at
        if char == "]":
            past = _past_link_target(text, at, final=final)
            if past is None:
                return None
            at = past
        elif char in _MARKS:
            end = _run_end(text, at)
            if end == len(text):
                return None  # what is left is one clause, or what follows will tell
            verdict = _ends_clause(text, at, end, words_before_pause, final=final)
            if verdict is None:
                return None
            if verdict:
                return end
            at = end
        else:
            at += 1
    return _forced_cut(text) if len(text) > _LONGEST else None


def _past_link_target(text: str, at: int, *, final: bool) -> int | None:
    """The index after a Markdown link target whose "]" is at `at`, or after the "]"; None if it is not all here."""
    if at + 1 == len(text):
        return at + 1 if final else None
    if text[at + 1] != "(":
        return at + 1
    end = _LINK_END.search(text, at)
    if end is not None:
        return end.start()
    return len(text) if final or len(text) > _LONGEST else None


def _run_end(text: str, at: int) -> int:
    """The index after the marks and closing quotes that begin at `at`."""
    end = at + 1
    while end < len(text) and (text[end] in _MARKS or text[end] in _CLOSERS):
        end += 1
    return end


def _ends_clause(text: str, at: int, end: int, words_before_pause: int, *, final: bool) -> bool | None:
    """Whether the marks `text[at:end]`, which something follows, end a clause. None: that cannot be told yet."""
    run = text[at:end]
    unspaced = not _UNSPACED_MARKS.isdisjoint(run)
    if not unspaced and not text[end].isspace():
        return False  # 3.14, 1,000, 10:30, example.org
    if _SENTENCE_MARKS.isdisjoint(run):
        return _word_count(text[:at]) >= words_before_pause
    if not _WORD.search(text, 0, at):
        return False
    if unspaced:
        return True
    if run.rstrip(_CLOSING) == "." and _is_abbreviation(text[:at]):
        return False
    rest = text[end:].lstrip()
    if not rest:
        return True if final else None
    return not rest[0].islower()


def _is_abbreviation(before: str) -> bool:
    """Whether the full stop after `before` belongs to its last word: Dr. · e.g. · J. (but not I.) · 1. at the start."""
    found = _LAST_WORD.search(before)
    if found is None:
        return False
    word = found.group()
    if word.isdigit():
        return not _WORD.search(before, 0, found.start())
    return word.lower() in _TITLES or "." in word or (len(word) == 1 and word.isupper() and word != "I")


def _word_count(text: str) -> int:
    """Words; two characters of a script that writes without spaces count as one."""
    wide = len(_CJK.findall(text))
    return len(_WORD.findall(_CJK.sub(" ", text))) + wide // 2


def _forced_cut(text: str) -> int:
    """A cut for a text with no usable mark: before the last white space after a word, or right at the limit."""
    for found in reversed(list(re.finditer(r"\s+", text[:_LONGEST]))):
        if _WORD.search(text, 0, found.start()):
            return found.start()
    return _LONGEST
