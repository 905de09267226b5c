"""The same Whisper through other programs: what they hear, on our weights in their layouts."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.recognise.metric import METRIC, identify, make
from harness.recognise.scorer import Recogniser
from metrics.result import Failed, Unavailable
from metrics.transcript import WORDS, Transcript, Word, transcript_of
from sessions.errors import MissingExtra, MissingWeights, SetupError
from sessions.weights import folder
from tests.scoring import whisper_weights
from tests.scoring.voices import join, piece, quiet, say

TEXT = "Let me see. The answer is Paris."
Loader = Callable[[str], Recogniser]


def options(asr: str) -> dict[str, str]:
    return {option.name: option.default for option in METRIC.options} | {"asr": asr}


def heard(recogniser: Recogniser, language: str) -> Transcript:
    sound = join(quiet(700), say("Let me see."), quiet(900), say("The answer is Paris."))
    (score,) = recogniser.score([piece(sound, language)])
    found = transcript_of(score)
    assert isinstance(found, Transcript)
    return found


def check(asr: str) -> None:
    """A back end hears what faster-whisper hears, at the same times, and knows the language."""
    assert identify(options(asr))["decoding"].startswith("greedy-1")
    recogniser = make(options(asr))
    found = heard(recogniser, "")
    assert (found.text, found.language) == (TEXT, "en")
    ours = heard(make(options("faster-whisper:whisper-base")), "en")
    assert found.text == ours.text
    starts, expected = ([word.start_s for word in each.words] for each in (found, ours))
    assert starts == pytest.approx(expected, abs=0.15)
    for score in recogniser.score([piece(say("Hello there."), "tlh"), piece(say("Hello there."), "yue")]):
        assert isinstance(score.figures[WORDS], Unavailable)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """whisper-base as transformers keeps it."""
    pytest.importorskip("transformers")
    target = tmp_path_factory.mktemp("whisper") / "base"
    whisper_weights.save_for_transformers(folder("whisper-base"), target)
    return target


@pytest.mark.embedded
def test_transformers(saved: Path) -> None:
    check(f"transformers:{saved}")


def test_weights_in_several_files(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16)
    layers = dict.fromkeys(
        ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1
    )
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1)
    config = transformers.WhisperConfig(vocab_size=64, **sizes, **layers, **ids)
    transformers.WhisperForConditionalGeneration(config).save_pretrained(tmp_path, max_shard_size="60KB")
    files = sorted(path.name for path in tmp_path.glob("model-*-of-*.safetensors"))
    asr = options(f"transformers:{tmp_path}")
    identity = identify(asr)
    assert len(files) > 1
    assert [name for name in identity if name.startswith("weights")] == [f"weights {file}" for file in files]
    last = tmp_path / files[-1]
    last.write_bytes(last.read_bytes() + b"?")
    assert identify(asr) != identity
    last.unlink()
    with pytest.raises(MissingWeights, match=rf"weights: .*{files[-1]} cannot be read"):
        identify(asr)
    (tmp_path / "model.safetensors.index.json").write_text("{")
    with pytest.raises(MissingWeights, match=r"index\.json names no files"):
        identify(asr)


@pytest.mark.embedded
def test_as_published(saved: Path) -> None:
    asr = f"uro-bench:{saved}"
    assert identify(options(asr))["decoding"].startswith("uro-bench-1")
    recogniser = make(options(asr))
    (score,) = recogniser.score([piece(say("What is the capital of France?"), "en")])
    found = transcript_of(score)
    assert isinstance(found, Transcript)
    assert found.text == "What is the capital of France?"
    assert found.words == [Word(word) for word in found.text.split()]
    too_long, chinese = recogniser.score([piece(join(say(TEXT), quiet(31_000))), piece(say(TEXT), "zh")])
    failed = too_long.figures[WORDS]
    assert isinstance(failed, Failed)
    assert failed.error.startswith("as published this fails: transformers 4.44 refuses more than 30 s")
    assert transcript_of(chinese) == Unavailable(
        "as published, Chinese is heard by Paraformer: ask for the recogniser 'paraformer'"
    )


@pytest.mark.embedded
@pytest.mark.skipif(importlib.util.find_spec("whisper") is None, reason="openai-whisper is not installed")
def test_openai_whisper(tmp_path: Path) -> None:
    path = tmp_path / "base.pt"
    whisper_weights.save_for_openai(folder("whisper-base"), path)
    check(f"openai-whisper:{path}")


@pytest.mark.skipif(importlib.util.find_spec("whisper") is not None, reason="openai-whisper is installed")
def test_a_package_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingExtra, match=r"openai-whisper.*pip install 'duologue\[whisper\]'"):
        identify(options("openai-whisper:base"))


@pytest.mark.parametrize(
    ("asr", "message"),
    [
        ("transformers", "'transformers' needs a model"),
        ("transformers:nobody/nothing", r"no such model is in the hub's cache.*hf download nobody/nothing"),
        ("transformers:not a name!", "is no folder, and no such model is in the hub's cache"),
        ("uro-bench", r"'openai/whisper-large-v3' is no folder.*hf download openai/whisper-large-v3"),
    ],
)
def test_a_model_that_is_not_there(asr: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SetupError, match=message):
        identify(options(asr))
