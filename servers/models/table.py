"""Speech models that can be served: name → what makes a `SpeechModelServer` of its options."""

from __future__ import annotations

MODELS: dict[str, str] = {
    "cascade": "servers.models.cascade:load_cascade",
    "metronome": "servers.models.metronome:load_metronome",
}
