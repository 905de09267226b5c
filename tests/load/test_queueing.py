"""What the product finds about servers whose queues are known: the places of a server, and what callers wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.queueing import SERVICE_MS, callers_queue, requests_queue, searched, waits_ns


def test_the_truth_of_a_queue_by_hand() -> None:
    assert waits_ns([0, 10, 20, 30, 200], 2, 100) == [0, 0, 80, 80, 0]
    assert waits_ns([0, 0, 0], 1, 5) == [0, 5, 10]


@pytest.mark.parametrize("k", [3, 8])
def test_the_search_finds_the_places(tmp_path: Path, k: int) -> None:
    assert abs(searched(k, tmp_path / "search") - k) <= 1


def test_callers_that_queue_are_told_by_open_loop_alone(tmp_path: Path) -> None:
    found = callers_queue(3, 40, tmp_path)
    assert found.closed.latency_ms == found.open.latency_ms == [300.0] * 40 and not found.closed.start_delay_ms
    assert found.error_ms < 0.001
    assert max(found.open.waited_ms()) > 4 * max(found.closed.waited_ms())


def test_requests_that_queue_are_told_by_open_loop_alone(tmp_path: Path) -> None:
    found = requests_queue(3, 40, tmp_path)
    assert found.closed.latency_ms == pytest.approx([SERVICE_MS] * 40)
    assert set(found.open.start_delay_ms) == {0.0} and found.error_ms < 0.001
    assert max(found.open.latency_ms) > 1.5 * max(found.closed.latency_ms)
