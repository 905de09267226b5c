"""Measurements of several runs under one folder: two targets in alternation, one target in trials."""
