"""The ground floor: clock, audio, events, scripts, run folders, weights on disk, errors.

Opens no socket and loads no model runtime; imports none of the other packages.
"""
