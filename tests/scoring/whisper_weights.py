"""Our Whisper weights in the layouts of other programs: CTranslate2's model.bin to transformers' and OpenAI's names.

CTranslate2 stacks queries, keys and values, and calls layers by their place; nothing else differs (keys have no bias).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[Any]]
_TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)
_LAYER = {
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
    "ffn/layer_norm": "final_layer_norm",
    "self_attention/layer_norm": "self_attn_layer_norm",
    "attention/layer_norm": "encoder_attn_layer_norm",
    "self_attention/linear_1": "self_attn.out_proj",
    "attention/linear_0": "encoder_attn.q_proj",
    "attention/linear_2": "encoder_attn.out_proj",
}
_STACKED = {
    "self_attention/linear_0": ("self_attn", "qkv"),
    "attention/linear_1": ("encoder_attn", "kv"),
}
_OPENAI = (
    ("model.", ""),
    ("layers.", "blocks."),
    ("self_attn_layer_norm", "attn_ln"),
    ("encoder_attn_layer_norm", "cross_attn_ln"),
    ("self_attn.", "attn."),
    ("encoder_attn.", "cross_attn."),
    ("q_proj", "query"),
    ("k_proj", "key"),
    ("v_proj", "value"),
    ("out_proj", "out"),
    ("final_layer_norm", "mlp_ln"),
    ("fc1", "mlp.0"),
    ("fc2", "mlp.2"),
    ("embed_positions.weight", "positional_embedding"),
    ("decoder.embed_tokens", "decoder.token_embedding"),
    ("encoder.layer_norm", "encoder.ln_post"),
    ("decoder.layer_norm", "decoder.ln"),
)


def variables(path: Path) -> Weights:
    """All variables of a CTranslate2 model.bin of version 6."""
    data, at = path.read_bytes(), 0

    def take(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f"<{form}", data, at)
        at += struct.calcsize(f"<{form}")
        return int(value)

    def text() -> str:
        nonlocal at
        size = take("H")
        value = data[at : at + size - 1].decode()
        at += size
        return value

    assert take("I") == 6
    assert text() == "WhisperSpec"
    take("I")
    found: Weights = {}
    for _ in range(take("I")):
        name = text()
        shape = [take("I") for _ in range(take("B"))]
        kind = np.dtype(_TYPES[take("B")])
        size = take("I")
        found[name] = np.frombuffer(data, kind, size // kind.itemsize, at).reshape(shape)
        at += size
    return found


def for_transformers(weights: Weights) -> Weights:
    """By the names of `WhisperForConditionalGeneration`, float32."""
    return {f"model.{name}": value.astype(np.float32) for name, value in _renamed(weights)}


def for_openai(weights: Weights) -> Weights:
    """By the names of openai-whisper's `Whisper`, float32."""
    found = {}
    for name, value in for_transformers(weights).items():
        for theirs, ours in _OPENAI:
            name = name.replace(theirs, ours)
        found[name] = value
    return found


def _renamed(weights: Weights) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, value in weights.items():
        side, _, rest = name.partition("/")
        kind = {"gamma": "weight", "beta": "bias"}.get(name.rpartition("/")[2], name.rpartition("/")[2])
        if rest.startswith("layer_") and "/" in rest and rest[6].isdigit():
            layer, _, within = rest[6:].partition("/")
            part = within.rpartition("/")[0]
            if part in _STACKED:
                block, which = _STACKED[part]
                for letter, piece in zip(which, np.split(value, len(which)), strict=True):
                    if (letter, kind) != ("k", "bias"):
                        yield f"{side}.layers.{layer}.{block}.{letter}_proj.{kind}", piece
            elif part in _LAYER:
                yield f"{side}.layers.{layer}.{_LAYER[part]}.{kind}", value
        elif rest == "position_encodings/encodings":
            yield f"{side}.embed_positions.weight", value
        elif rest == "embeddings/weight":
            yield f"{side}.embed_tokens.weight", value
        elif rest.startswith(("conv", "layer_norm")):
            yield f"{side}.{rest.rpartition('/')[0]}.{kind}", value


def dimensions(weights: Weights) -> dict[str, int]:
    """Width, heads and layers, by neutral names."""
    width = weights["encoder/conv1/bias"].shape[0]
    layers = {}
    for side in ("encoder", "decoder"):
        rooms = {name.split("/")[1] for name in weights if name.startswith(f"{side}/layer_")}
        layers[side] = len(rooms - {"layer_norm"})
    return {
        "width": width,
        "heads": int(weights["encoder/num_heads"]),
        "encoder_layers": layers["encoder"],
        "decoder_layers": layers["decoder"],
        "vocabulary": weights["decoder/embeddings/weight"].shape[0],
        "mels": weights["encoder/conv1/weight"].shape[1],
    }


def save_for_openai(folder: Path, target: Path) -> None:
    """A checkpoint that `whisper.load_model` opens."""
    import torch

    weights = variables(folder / "model.bin")
    of = dimensions(weights)
    dims = {
        "n_mels": of["mels"],
        "n_audio_ctx": 1500,
        "n_audio_state": of["width"],
        "n_audio_head": of["heads"],
        "n_audio_layer": of["encoder_layers"],
        "n_vocab": of["vocabulary"],
        "n_text_ctx": 448,
        "n_text_state": of["width"],
        "n_text_head": of["heads"],
        "n_text_layer": of["decoder_layers"],
    }
    state = {name: torch.from_numpy(value.copy()) for name, value in for_openai(weights).items()}
    torch.save({"dims": dims, "model_state_dict": state}, target)


def save_for_transformers(folder: Path, target: Path) -> None:
    """A folder that `from_pretrained` opens, with the generation settings that OpenAI's own repositories have."""
    import torch
    import transformers

    library: Any = transformers  # untyped in part
    weights = variables(folder / "model.bin")
    of = dimensions(weights)
    tokenizer = library.WhisperTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    ids = tokenizer.get_vocab()
    told = json.loads((folder / "config.json").read_text())
    many = of["vocabulary"] >= 51_865
    with torch.device("meta"):  # weights that are replaced at once need not be drawn first
        model = library.WhisperForConditionalGeneration(
            library.WhisperConfig(
                vocab_size=of["vocabulary"], num_mel_bins=of["mels"], d_model=of["width"],
                encoder_layers=of["encoder_layers"], decoder_layers=of["decoder_layers"],
                encoder_attention_heads=of["heads"], decoder_attention_heads=of["heads"],
                encoder_ffn_dim=4 * of["width"], decoder_ffn_dim=4 * of["width"],
                pad_token_id=ids["<|endoftext|>"], bos_token_id=ids["<|endoftext|>"],
                eos_token_id=ids["<|endoftext|>"], decoder_start_token_id=ids["<|startoftranscript|>"],
            )
        )  # fmt: skip
    state = {name: torch.from_numpy(value) for name, value in for_transformers(weights).items()}
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    model.load_state_dict(state, assign=True)
    settings = model.generation_config
    settings._from_model_config = False  # or it would be made again, from the model's own settings
    settings.alignment_heads = told["alignment_heads"]
    settings.no_timestamps_token_id = ids["<|notimestamps|>"]
    settings.suppress_tokens = told["suppress_ids"]
    settings.begin_suppress_tokens = told["suppress_ids_begin"]
    settings.max_initial_timestamp_index = 50
    settings.is_multilingual = many
    settings.prev_sot_token_id = ids["<|startofprev|>"]
    settings.max_length = 448
    if many:
        settings.task_to_id = {"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]}
        settings.lang_to_id = {token: ids[token] for token in ids if ids[token] in told["lang_ids"]}
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    library.WhisperFeatureExtractor(feature_size=of["mels"]).save_pretrained(target)
