"""The audibility gate `gate/1`, for metrics. `sessions.gate` has it, since scripts need the onset of user audio too."""

from sessions.gate import (
    BLOCKS_PER_S,
    GATE,
    LOOK_BLOCKS,
    NEEDED_LOUD,
    THRESHOLD_DBFS,
    Onset,
    audible_runs,
    block_edges,
    block_levels_dbfs,
    find_onset,
    first_audible_index,
)

__all__ = [
    "BLOCKS_PER_S",
    "GATE",
    "LOOK_BLOCKS",
    "NEEDED_LOUD",
    "THRESHOLD_DBFS",
    "Onset",
    "audible_runs",
    "block_edges",
    "block_levels_dbfs",
    "find_onset",
    "first_audible_index",
]
