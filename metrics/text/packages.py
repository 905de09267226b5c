"""The libraries that text metrics stand on: which version is here, or one line that says how to get it."""

from __future__ import annotations

import importlib.metadata

from sessions.errors import MissingExtra, SetupError

EXTRA = "text"


def versions(*packages: str, extra: str = EXTRA) -> dict[str, str]:
    """Package → installed version. Raises `MissingExtra` for the first that is not there."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise MissingExtra(package, extra) from None
    return found


def exactly(package: str, version: str, why: str) -> dict[str, str]:
    """The same for one whose version decides the outcome. Raises `SetupError` where another is installed."""
    found = versions(package)
    if found[package] != version:
        raise SetupError(
            f"{why} needs {package} {version}, and {found[package]} is installed",
            f"Install it with: pip install {package}=={version}",
        )
    return found
