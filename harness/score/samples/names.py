"""Names as others write them: files whose name is no UTF-8 (scores cross processes and files as text, which cannot hold
it), and languages that are no tag ("English" would be taken for one that no model knows)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sessions.errors import SetupError

_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*")
LANGUAGE_MEND: Final = "Give a tag: en, zh, pt-BR …"


def is_language(tag: str) -> bool:
    """Whether it is written as a language's tag is (BCP 47, "_" for "-" too)."""
    return _LANGUAGE.fullmatch(tag) is not None


def is_text(name: str) -> bool:
    """Whether a name, as the operating system gave it, can be written as text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(name: str) -> str:
    r"""The name with what is no text as \xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def must_be_text(place: Path, mend: str = "Rename that folder, then score what is in it") -> None:
    """Raise `SetupError` for a path that is no text."""
    if not is_text(str(place.resolve())):
        raise SetupError(f"the path {as_text(str(place))} is not UTF-8", mend)


def must_have_one_name_each(names: Iterable[str]) -> None:
    r"""Raise `SetupError` where two look alike once they are text: a file may really be called "\xNN"."""
    seen = set[str]()
    for name in names:
        told = as_text(name)
        if told in seen:
            raise SetupError(f"two names look alike as text: {told}", "Rename the one that is not UTF-8")
        seen.add(told)


def whole(text: str) -> str:
    """JSON can hold halves of characters, as a system that cuts its output leaves them: pairs are joined, a lone half
    is U+FFFD. No score could be written with one."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
