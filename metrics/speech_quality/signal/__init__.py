"""Facts of a reply's signal that need no model: level, silence, bandwidth, and what was broken on the way."""
