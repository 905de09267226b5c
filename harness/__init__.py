"""Drives and reports: command line, pacing, dialogues, runs, weights download, report pages. Composes all below."""
