"""Whether the environment of `make score` or `make emotion` is as meant: no torchaudio, and CUDA only where asked for.

torchaudio of another build breaks torch's neighbours at import, and a CUDA torch brings gigabytes that a CPU has no use
for. Either comes in unasked, with a package that names it; so this looks, and fails loudly.
"""

from __future__ import annotations

import importlib.metadata
import sys

NEVER = "torchaudio"


def problems(*, cuda_is_meant: bool) -> list[str]:
    """What should not be there, in words with the mend."""
    names = sorted(
        {str(found.metadata["Name"]).lower().replace("_", "-") for found in importlib.metadata.distributions()}
    )
    told = []
    if NEVER in names:
        told.append(f"{NEVER} is installed, which breaks torch's neighbours: {sys.executable} -m pip uninstall {NEVER}")
    import torch

    here = f"torch {torch.__version__}"
    if cuda_is_meant:
        if torch.version.cuda is None and torch.version.hip is None:
            told.append(f"{here} is for the CPU, and one for a GPU was asked for: look at TORCH and TORCH_INDEX")
        return told
    cuda = [name for name in names if name.startswith("nvidia-")]
    if cuda:
        told.append(f"CUDA packages are installed: {sys.executable} -m pip uninstall {' '.join(cuda)}")
    if torch.version.cuda is not None:
        told.append(f"{here} is a CUDA build, and none was asked for (TORCH={here.replace(' ', '==')} does)")
    return told


def main() -> int:
    """Print what is wrong. Exit code 0 where nothing is."""
    found = problems(cuda_is_meant="--cuda" in sys.argv[1:])
    for problem in found:
        print(problem, file=sys.stderr)  # noqa: T201 - a tool's output
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
