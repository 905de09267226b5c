"""What leaves the house with a case: nothing that looks like a secret, whether or not this run knew it as one.

A run folder holds none of the secrets that its own run was given. A server may still have told others: the key of a
session that it made, a signed address.
"""

from __future__ import annotations

import os
import re
from typing import Any

from sessions.runs import Plan
from sessions.secrets import Secrets

MASK = "***"
_FIELD = re.compile(
    r"secret|passw|authori[sz]ation|credential|api[-_]?key|access[-_]?key|private[-_]?key|signature"
    r"|(?:^|[-_])token$|[a-z]Token$|cookie",
    re.IGNORECASE,
)
_VALUES = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+(?=[\w.~+/=-]*\d)[\w.~+/=-]{16,}"),
    re.compile(r"\b(?:sk|ek|pk|rk|gsk|xai|hf|ghp|glpat)[-_][\w-]{8,}"),
    re.compile(r"\bAIza[\w-]{20,}"),
    re.compile(r"\bAKIA[0-9A-Z]{12,}"),
    re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"),
)
_ADDRESS = re.compile(r"\b(?:https?|wss?)://[^\s\"'<>\\]+")


class Masking:
    """Masks texts and the values of messages."""

    def __init__(self, plan: Plan) -> None:
        self._secrets = Secrets()
        if plan.api_key_env and (key := os.environ.get(plan.api_key_env)):
            self._secrets.add(key)

    def text(self, text: str) -> str:
        """The text without what is known as a secret or looks like one."""
        masked = _ADDRESS.sub(_without_values, self._secrets.mask(text))
        for pattern in _VALUES:
            masked = pattern.sub(MASK, masked)
        return masked

    def message(self, value: Any) -> Any:
        """A decoded JSON value: texts masked, and all texts in fields whose name says that they are secret."""
        match value:
            case dict():
                return {
                    self.text(name): _hidden(item) if _FIELD.search(name) else self.message(item)
                    for name, item in value.items()
                }
            case list():
                return [self.message(item) for item in value]
            case str():
                return self.text(value)
        return value


def _without_values(address: re.Match[str]) -> str:
    try:
        return Secrets().mask_url(address[0])
    except ValueError:  # no address after all: a bracket without its other half
        return MASK


def _hidden(value: Any) -> Any:
    """Numbers and words of the protocol (true, null) stay: they are no secrets, and say what was set."""
    match value:
        case dict():
            return {name: _hidden(item) for name, item in value.items()}
        case list():
            return [_hidden(item) for item in value]
        case str() if value:
            return MASK
    return value
