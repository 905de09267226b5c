"""A whole run: its plan, its dialogues in order, the journal, a server of our own, progress."""
