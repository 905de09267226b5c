"""Names of files that are no UTF-8: scores cross processes and files as text, which cannot hold them."""

from __future__ import annotations

import os
from pathlib import Path

from sessions.errors import SetupError


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


def must_be_text(place: Path) -> None:
    """Raise `SetupError` for a folder whose path is no text."""
    if not is_text(str(place.resolve())):
        raise SetupError(f"the path {as_text(str(place))} is not UTF-8", "Rename that folder, then score what is in it")
