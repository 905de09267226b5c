"""What a conversation by microphone says of its devices, in words."""

from __future__ import annotations

from collections.abc import Iterator

from harness.report.summary import Summary
from harness.report.wording import number, one_line, plural


def device_lines(summary: Summary) -> Iterator[str]:
    """What stands under the table of latencies; nothing where a script was performed."""
    microphone = summary.microphone
    if microphone is None:
        return
    use, found = microphone.use, microphone.devices
    yield (
        f"A person spoke: microphone {one_line(use.microphone)!r}, loudspeaker {one_line(use.loudspeaker)!r}; "
        f"{use.end_after_ms} ms of quiet end a turn (microphone_turns/1)."
    )
    if found is None:
        return
    moved = f"; all of them were {number(found.stamps_moved_ms)} ms too late" if found.stamps_moved_ms else ""
    drift = "" if found.drift_ppm is None else _drift(found.drift_ppm)
    yield (
        f"The microphone's stamps agree within {number(found.stamps_agree_ms)} ms (at worst "
        f"{number(found.stamps_worst_ms)}){moved}{drift}. "
        f"A frame came {number(found.handed_ms)} ms after its last sample."
    )
    if found.output_ms is not None and found.output_max_ms is not None:
        yield (
            f"From a reply's first packet to the loudspeaker: {number(found.output_ms)} ms (median of "
            f"{plural(found.replies, 'reply', 'replies')}, at most {number(found.output_max_ms)}), "
            "in no latency above."
        )
    if found.overflows:
        yield f"The microphone lost samples {plural(found.overflows, 'time')}: this machine did not keep up."
    if found.underflows:
        yield f"The loudspeaker had {plural(found.underflows, 'gap')} of its own: this machine did not keep up."
    if found.echoes:
        yield (
            f"The microphone heard the agent (correlation up to {number(found.echo_correlation or 0.0, 2)}): "
            "its own voice may have stopped it, or been answered. Use headphones."
        )


def _drift(ppm: float) -> str:
    if abs(ppm) < 1:
        return "; its clock runs as ours does"
    return f"; its clock is {number(abs(ppm), 0)} millionths {'slow' if ppm > 0 else 'fast'}"
