"""A run for other programs: tables, labels for editors of sound, a table for a paper."""
