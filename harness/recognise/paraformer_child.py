"""Paraformer in the environment that has funasr, run by its file: `python paraformer_child.py FOLDER DEVICE`.

Standard input: the count of samples as uint32, then so many float32 at 16 kHz, again and again; little-endian. Standard
output: one JSON line when it is loaded, one for each sound. It ends with its input. It imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import struct
import sys


def main() -> None:
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import numpy as np
    from funasr import AutoModel

    folder, device = sys.argv[1:3]
    model = AutoModel(model=folder, device=device, disable_update=True, disable_pbar=True, log_level="ERROR")
    print(json.dumps({"ready": type(model.model).__name__}), file=answers, flush=True)
    while len(head := sys.stdin.buffer.read(4)) == 4:
        (count,) = struct.unpack("<I", head)
        samples = np.frombuffer(sys.stdin.buffer.read(4 * count), dtype="<f4")
        try:
            found = model.generate(samples, pred_timestamp=True)
            one = found[0] if found else {}
            answer = {"text": one.get("text", ""), "times": one.get("timestamp", [])}
        except Exception as error:  # noqa: BLE001 — whoever asked is told
            answer = {"error": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
