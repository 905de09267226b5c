"""HTML by construction: what is not `Markup` is escaped, so a server's text can never become part of the page."""

from __future__ import annotations

import html
from collections.abc import Iterable

from harness.report.wording import clean

Child = str | Iterable[str]


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """`text` as it may stand in an element or an attribute."""
    return text if isinstance(text, Markup) else Markup(html.escape(clean(text), quote=True))


def join(children: Iterable[str], between: str = "") -> Markup:
    """Children one after another, escaped where they are plain text."""
    return Markup(escape(between).join(escape(child) for child in children))


def tag(name: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element. `class_` stands for class, `data_x` for data-x; None and False leave an attribute out."""
    inner = "".join(escape(child) if isinstance(child, str) else join(child) for child in children)
    return Markup(f"<{name}{_attributes(attributes)}>{inner}</{name}>")


def void(name: str, **attributes: str | float | bool | None) -> Markup:
    """One element that has no content and no end tag (`meta`, `br`)."""
    return Markup(f"<{name}{_attributes(attributes)}>")


def _attributes(attributes: dict[str, str | float | bool | None]) -> str:
    parts = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        parts.append(f" {name}" if value is True else f' {name}="{escape(str(value))}"')
    return "".join(parts)
