"""Metrics of words: how far what was heard is from what was said, and how a text compares with a reference."""
