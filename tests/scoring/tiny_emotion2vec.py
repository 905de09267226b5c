"""Tiny emotion2vec models, made and tried in the environment that has funasr:

    python -m tests.scoring.tiny_emotion2vec FOLDER

makes FOLDER/whole and copies of it, each with one fault, tries to load every one, and prints what came of it as JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

LABELS = (
    "生气/angry",
    "厌恶/disgusted",
    "恐惧/fearful",
    "开心/happy",
    "中立/neutral",
    "其他/other",
    "难过/sad",
    "吃惊/surprised",
    "<unk>",
)
_AUDIO: dict[str, Any] = {
    "type": "AUDIO",
    "prenet_depth": 1,
    "prenet_layerdrop": 0.05,
    "prenet_dropout": 0.1,
    "start_drop_path_rate": 0.0,
    "end_drop_path_rate": 0.0,
    "num_extra_tokens": 10,
    "init_extra_token_zero": True,
    "mask_noise_std": 0.01,
    "mask_prob_min": None,
    "mask_prob": 0.5,
    "inverse_mask": False,
    "mask_prob_adjust": 0.05,
    "keep_masked_pct": 0.0,
    "mask_length": 5,
    "add_masks": False,
    "remove_masks": False,
    "mask_dropout": 0.0,
    "encoder_zero_mask": True,
    "mask_channel_prob": 0.0,
    "mask_channel_length": 64,
    "ema_local_encoder": False,
    "local_grad_mult": 1.0,
    "use_alibi_encoder": True,
    "alibi_scale": 1.0,
    "learned_alibi": False,
    "alibi_max_pos": None,
    "learned_alibi_scale": True,
    "learned_alibi_scale_per_head": True,
    "learned_alibi_scale_per_layer": False,
    "num_alibi_heads": 2,
    "model_depth": 2,
    "extractor_mode": "layer_norm",
    "feature_encoder_spec": "[(32, 10, 5)] + [(32, 3, 2)] * 4 + [(32,2,2)] + [(32,2,2)]",
    "conv_pos_width": 95,
    "conv_pos_groups": 16,
    "conv_pos_depth": 5,
    "conv_pos_pre_ln": False,
}
_DECODER: dict[str, Any] = {
    "decoder_dim": 32,
    "decoder_groups": 4,
    "decoder_kernel": 3,
    "decoder_layers": 2,
    "decoder_residual": True,
    "input_dropout": 0.1,
    "add_positions_masked": False,
    "add_positions_all": False,
    "projection_layers": 1,
    "projection_ratio": 2.0,
}
"""What emotion2vec was trained with. The published settings ask for one, the published checkpoints hold none."""


def settings(width: int = 32, *, decoder: bool = False) -> dict[str, Any]:
    return {
        "loss_beta": 0.0,
        "loss_scale": None,
        "depth": 2,
        "start_drop_path_rate": 0.0,
        "end_drop_path_rate": 0.0,
        "num_heads": 2,
        "norm_eps": 1e-5,
        "norm_affine": True,
        "encoder_dropout": 0.1,
        "post_mlp_drop": 0.1,
        "attention_dropout": 0.1,
        "activation_dropout": 0.0,
        "dropout_input": 0.0,
        "layerdrop": 0.05,
        "embed_dim": width,
        "mlp_ratio": 2.0,
        "layer_norm_first": False,
        "average_top_k_layers": 2,
        "end_of_block_targets": False,
        "clone_batch": 8,
        "normalize": True,
        "modalities": {"audio": {**_AUDIO, "decoder": _DECODER if decoder else None}},
    }


def make(folder: Path, labels: tuple[str, ...] = LABELS, width: int = 32, seed: int = 0) -> Path:
    """A folder as a hub has it, with random weights."""
    import torch
    from funasr.models.emotion2vec.model import Emotion2vec

    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    network = Emotion2vec(model_conf=settings(width), vocab_size=len(labels))
    torch.save({"model": network.state_dict()}, folder / "model.pt")
    (folder / "tokens.txt").write_text("\n".join(labels) + "\n", encoding="utf-8")
    configure(folder, settings())
    return folder


def configure(folder: Path, model_conf: dict[str, Any]) -> None:
    import yaml

    config = {
        "model": "Emotion2vec",
        "model_conf": model_conf,
        "tokenizer": "CharTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>", "split_with_space": True},
        "scope_map": ["d2v_model.", "none"],
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def make_all(root: Path) -> None:
    whole = make(root / "whole")
    configure(shutil.copytree(whole, root / "no-decoder"), settings(decoder=True))
    make(root / "other-weights", seed=1)
    make(root / "other-layout", width=64)
    make(root / "other-order", labels=(LABELS[1], LABELS[0], *LABELS[2:]))
    kept = ("angry", "happy", "neutral", "sad")
    hidden = [f"unuse_{place}" for place in range(8)]
    five = [label if label.endswith(kept) else hidden[place] for place, label in enumerate(LABELS[:-1])]
    make(root / "five-classes", labels=(*five, LABELS[-1]))
    truncated = shutil.copytree(whole, root / "truncated")
    (truncated / "model.pt").write_bytes((whole / "model.pt").read_bytes()[:50_000])
    (shutil.copytree(whole, root / "no-labels") / "tokens.txt").unlink()


def try_all(root: Path) -> dict[str, Any]:
    """By folder: the scores of some sounds, or why it is refused."""
    import msgspec

    from metrics.emotion.emotion2vec import EmotionScorer, identify, make
    from metrics.scoring import Piece, Sample
    from sessions.errors import DuologueError

    wave = np.random.default_rng(0).standard_normal(2 * 16_000).astype(np.float32) * np.float32(0.1)
    sounds = {"2 s": wave, "0.1 s": wave[:1600], "silence": 0 * wave, "70 s": np.tile(wave, 35)}
    told: dict[str, Any] = {}
    for folder in sorted(root.iterdir()):
        options = {"model": str(folder), "hub": "ms"}
        try:
            scorer = make(options)
        except DuologueError as error:
            told[folder.name] = {"refused": str(error), "kind": type(error).__name__}
            continue
        assert isinstance(scorer, EmotionScorer)
        pieces = [Piece(Sample(name, "", emotion="happy"), sound, 16_000) for name, sound in sounds.items()]
        scores = dict(zip(sounds, map(msgspec.to_builtins, scorer.score(pieces)), strict=True))
        told[folder.name] = {"scores": scores, "identity": identify(options), "raw": raw(folder, wave)}
    return told


def raw(folder: Path, wave: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, Any]:
    """What funasr itself says of the sound."""
    from funasr import AutoModel

    model = AutoModel(model=str(folder), device="cpu", disable_update=True, disable_pbar=True)
    found: dict[str, Any] = model.generate(wave, granularity="utterance", extract_embedding=False)[0]
    return {"labels": found["labels"], "scores": found["scores"]}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    answers = sys.stdout
    sys.stdout = sys.stderr  # funasr prints
    make_all(place)
    json.dump(try_all(place), answers)
