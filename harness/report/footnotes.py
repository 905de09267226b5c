"""Reasons for dashes, each told once below a table of the terminal."""

from __future__ import annotations

from dataclasses import dataclass, field

_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


@dataclass(slots=True)
class Footnotes:
    """Reasons for dashes, each told once; unmarked: what no single cell stands for."""

    notes: list[str] = field(default_factory=list)
    unmarked: list[str] = field(default_factory=list)

    def mark(self, note: str) -> str:
        """The superscript that stands for `note`."""
        if note not in self.notes:
            self.notes.append(note)
        return "".join(_DIGITS[int(digit)] for digit in str(self.notes.index(note) + 1))

    def lines(self) -> list[str]:
        """All of them, as they stand below the table."""
        return [*(f"{self.mark(note)} {note}" for note in self.notes), *self.unmarked]
