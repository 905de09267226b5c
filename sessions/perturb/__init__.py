"""Perturbations of the user lane: the same dialogue, spoken in noise, in a room, over a telephone, with packets lost.

`--perturb noise@10dB,reverb,mulaw8k,loss2%,clip` are effects in the order in which they act. Each keeps a clip's length
and delays nothing, so that the sample at which speech ends stays what it was. All chance comes from a seed.
"""

from sessions.perturb.script import parse, perturbed

__all__ = ["parse", "perturbed"]
