"""What goes wrong in a reply's speech, told from its transcript: repeats, words missing or added, pauses, cut ends."""
