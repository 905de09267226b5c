"""Pure functions of a recorded conversation: gate, play-out, instants, latencies, outcomes, statistics."""
