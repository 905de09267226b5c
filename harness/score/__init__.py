"""Scoring what came back: samples of a run or of a folder, metrics of speech, and the engine that runs them."""
