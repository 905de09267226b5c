"""From the raw record of a dialogue to its measures and recordings."""
