"""What answers: engines, speech models, fronts, the metronome."""
