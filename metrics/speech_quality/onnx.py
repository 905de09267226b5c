"""ONNX models, opened as a scoring worker wants them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def session(path: Path) -> Any:
    """An onnxruntime session on the CPU with as many threads as OMP_NUM_THREADS says, else its own choice."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other scorers share these cores
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
