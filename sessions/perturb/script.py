"""From the words of `--perturb` to effects, and from a script to the same script, perturbed."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass, replace

import numpy as np

from sessions import audio
from sessions.audio import Clip
from sessions.errors import SetupError
from sessions.perturb.effects import KINDS
from sessions.scripts import Script, ScriptTurn

_WORD = re.compile(r"(?P<kind>mulaw8k|[a-z]+)(?:@?(?P<amount>[-+]?[0-9.]+)(?P<unit>dB|s|%))?")
_EXAMPLE = "For example: noise@10dB,reverb,mulaw8k,loss2%,clip"


@dataclass(frozen=True, slots=True)
class Effect:
    """kind: of `KINDS` · amount: in the kind's unit."""

    kind: str
    amount: float

    def __str__(self) -> str:
        unit = KINDS[self.kind].unit
        at = "" if unit in ("", "%") else "@"
        return f"{self.kind}{at}{self.amount:g}{unit}" if unit else self.kind


def parse(words: str) -> tuple[Effect, ...]:
    """`noise@10dB,reverb` → effects, in order. Raises `SetupError` that names the word at fault."""
    return tuple(_effect(word.strip()) for word in words.split(","))


def _effect(word: str) -> Effect:
    found = _WORD.fullmatch(word)
    name = found["kind"] if found else re.split(r"[@0-9%-]", word, maxsplit=1)[0]
    if name not in KINDS:
        near = difflib.get_close_matches(name, KINDS, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise SetupError(f"--perturb {word!r}: there is no such effect", f"{hint}Known: {', '.join(KINDS)}. {_EXAMPLE}")
    kind = KINDS[name]
    if found is None or (found["unit"] and found["unit"] != kind.unit):
        how = f"an amount in {kind.unit}, or none" if kind.unit else "no amount"
        raise SetupError(f"--perturb {word!r}: {name} takes {how}", _EXAMPLE)
    try:
        amount = kind.default if found["amount"] is None else float(found["amount"])
    except ValueError as error:
        raise SetupError(f"--perturb {word!r}: {found['amount']} is not a number", _EXAMPLE) from error
    if not kind.least <= amount <= kind.most:
        span = f"{kind.least:g} to {kind.most:g} {kind.unit}"
        raise SetupError(f"--perturb {word!r}: the amount must be {span}", _EXAMPLE)
    return Effect(name, amount)


def perturbed(script: Script, effects: tuple[Effect, ...], seed: int) -> Script:
    """The same script with its sounds perturbed. Instants, texts and all else stay; silences stay silent.

    seed: the same one gives the same samples, turn by turn; each turn and each effect draws for itself.
    """
    if not effects:
        return script
    turns = tuple(_turn(turn, number, effects, seed) for number, turn in enumerate(script.turns))
    words = ",".join(map(str, effects))
    digest = hashlib.sha256(f"{script.sha256}\n{words}\n{seed}".encode()).hexdigest()
    return replace(script, turns=turns, sha256=digest, perturb=words, perturb_seed=seed)


def _turn(turn: ScriptTurn, number: int, effects: tuple[Effect, ...], seed: int) -> ScriptTurn:
    if not turn.clip.pcm.any():
        return turn
    clip = perturbed_clip(turn.clip, effects, (seed, number))
    return replace(turn, clip=clip, sha256=audio.sha256(clip))


def perturbed_clip(clip: Clip, effects: tuple[Effect, ...], seed: tuple[int, int]) -> Clip:
    """One clip that is not all zeros, as long as before. Samples beyond full scale are clipped, and it is said."""
    wave = audio.to_float(clip.pcm).astype(np.float64)
    for place, effect in enumerate(effects):
        if not wave.any():
            break  # every packet was lost
        rng = np.random.default_rng([*seed, place])
        wave = KINDS[effect.kind].act(wave, clip.rate_hz, effect.amount, rng)
    over = int(np.count_nonzero(np.abs(wave) > 1.0))
    notes = (*clip.notes, f"perturbed: {','.join(map(str, effects))}")
    if over:
        notes += (f"{over} samples above full scale were clipped",)
    return Clip(audio.to_pcm16(wave), clip.rate_hz, notes)
