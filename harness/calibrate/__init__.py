"""How far this client's figures lie from the truth on this machine, by the metronome's own log of its writes."""
