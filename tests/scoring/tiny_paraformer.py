"""A Paraformer of random weights, made by funasr itself: `python tiny_paraformer.py FOLDER`, where funasr is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOKENS = ["<blank>", "<s>", "</s>", *"今天气很好我是的你在有大小人中国上海北京", "<unk>"]
BLOCK: dict[str, Any] = {"attention_heads": 2, "linear_units": 32, "num_blocks": 2, "kernel_size": 11, "sanm_shfit": 0}
PARTS: dict[str, Any] = {
    "encoder": "SANMEncoder",
    "encoder_conf": BLOCK
    | {
        "output_size": 16,
        "input_layer": "pe",
        "pos_enc_class": "SinusoidalPositionEncoder",
        "normalize_before": True,
        "selfattention_layer_type": "sanm",
    },
    "decoder": "ParaformerSANMDecoder",
    "decoder_conf": BLOCK | {"att_layer_num": 2},
    "predictor": "CifPredictorV2",
    "predictor_conf": {"idim": 16, "threshold": 1.0, "l_order": 1, "r_order": 1, "tail_threshold": 0.45},
}
MODEL: dict[str, Any] = {"ctc_weight": 0.0, "predictor_weight": 1.0, "predictor_bias": 1}
FRONTEND: dict[str, Any] = {"fs": 16_000, "window": "hamming", "n_mels": 80, "lfr_m": 7, "lfr_n": 6, "dither": 0.0}


def main(folder: Path) -> None:
    import funasr  # noqa: F401 — it fills the tables
    import torch
    from funasr.register import tables

    torch.manual_seed(3)
    model = tables.model_classes["Paraformer"](vocab_size=len(TOKENS), input_size=560, **PARTS, **MODEL)
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model": "Paraformer", "model_conf": MODEL, **PARTS, "frontend": "WavFrontend", "frontend_conf": FRONTEND}
    config |= {"tokenizer": "CharTokenizer", "tokenizer_conf": {"unk_symbol": "<unk>", "split_with_space": True}}
    paths = {"init_param": "model.pt", "config": "config.yaml", "tokenizer_conf": {"token_list": "tokens.json"}}
    # JSON is YAML too.
    (folder / "config.yaml").write_text(json.dumps(config))
    (folder / "tokens.json").write_text(json.dumps(TOKENS))
    (folder / "configuration.json").write_text(json.dumps({"model": {"type": "funasr"}, "file_path_metas": paths}))
    torch.save({"state_dict": model.state_dict()}, folder / "model.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
