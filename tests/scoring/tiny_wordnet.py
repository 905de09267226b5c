"""A WordNet of a few words, in the format of the real one (wndb(5WN)), for tests where that is not installed."""

from __future__ import annotations

from pathlib import Path

HEADER = "  1 WordNet 3.0 Copyright of the real one; the synsets of this file are ours.  \n"
SYNSETS = {
    "noun": [("car", "automobile"), ("dog", "hound")],
    "verb": [("halt", "stop")],
    "adj": [("big", "large")],
    "adv": [("quickly", "fast")],
}
TYPES = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}


def write(folder: Path) -> Path:
    """Every file that is needed, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, synsets in SYNSETS.items():
        data = HEADER
        entries: dict[str, int] = {}
        for words in synsets:
            offset = len(data.encode())
            listed = " ".join(f"{word} 0" for word in words)
            data += f"{offset:08d} 00 {TYPES[part]} {len(words):02x} {listed} 000 | a synset of ours  \n"
            entries |= dict.fromkeys(words, offset)
        index = "".join(f"{word} {TYPES[part]} 1 0 1 0 {offset:08d}  \n" for word, offset in sorted(entries.items()))
        (folder / f"data.{part}").write_text(data)
        (folder / f"index.{part}").write_text(HEADER + index)
        (folder / f"{part}.exc").write_text("")
    return folder
