"""`signal`: what the signal itself tells, without a model. Each figure's rule stands in its module."""

from __future__ import annotations

import importlib.metadata

from metrics.scoring import Figure, Metric, Options, Scorer

METRIC = Metric(
    name="signal",
    version="2",
    purpose="facts of the signal: level, silence, bandwidth, clipping, dropouts, glitches",
    figures=(
        Figure("peak", "dBFS", "none", "Peak", "20·log10 of the largest |x|"),
        Figure("loudness", "LUFS", "none", "Loudness", "integrated loudness, ITU-R BS.1770-4"),
        Figure("clipped", "%", "lower", "Clipped", "share of samples in runs of 3 or more at full scale"),
        Figure("dc_offset", "% of full scale", "none", "DC offset", "mean of all samples"),
        Figure("silence_share", "%", "none", "Silence", "share of samples outside what is audible by gate/1"),
        Figure("leading_silence", "ms", "lower", "Leading silence", "before the first audible sample (gate/1)"),
        Figure("trailing_silence", "ms", "none", "Trailing silence", "after the last audible block (gate/1)"),
        Figure("bandwidth", "Hz", "none", "Bandwidth", "highest 125 Hz band within 60 dB of the loudest"),
        Figure("dropouts", "count", "lower", "Dropouts", "silent holes of 5 ms to 1 s with sound at both edges"),
        Figure("glitches", "count", "lower", "Glitches", "clicks, junk and repeated packets, by linear prediction"),
        Figure("glitches_at_borders", "count", "lower", "… at packet borders", "those of them at a packet's border"),
        Figure(
            "border_rank",
            "",
            "lower",
            "Rank of borders",
            "mean share of places in a packet that stand out less than its border; 0.5: like any other place",
        ),
    ),
    make="metrics.speech_quality.signal.metric:make",
    identify="metrics.speech_quality.signal.metric:identify",
    rate_hz=None,
    reads=("borders",),
    batch=1,
)


def identify(options: Options) -> dict[str, str]:
    """Loudness alone needs a package; without it, the rest is there all the same."""
    try:
        return {"pyloudnorm": importlib.metadata.version("pyloudnorm")}
    except importlib.metadata.PackageNotFoundError:
        return {"pyloudnorm": "absent"}


def make(options: Options) -> Scorer:
    from metrics.speech_quality.signal.scorer import SignalScorer

    return SignalScorer()
