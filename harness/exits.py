"""Exit codes of every command, for scripts."""

NOTHING_MEASURED = 1
SETUP = 2
BUG = 70
INTERRUPTED = 130
