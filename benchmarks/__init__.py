"""Benchmarks: each a command that prints a ratio or an error against a peer, a limit or a known truth, in one run."""
