"""Recorded runs again: as a server, against another server, measured anew."""
