"""Other people's clients, driven for comparison: each in an environment of its own, against a front in its own wire."""
