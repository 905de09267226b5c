"""Whose voice a reply is in: embeddings of speakers, how alike they are, and how they drift over a dialogue."""
