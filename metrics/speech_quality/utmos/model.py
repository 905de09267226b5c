"""The network, in plain torch: wav2vec 2.0 base, one bidirectional LSTM, two linear layers, the mean over time.

Attributes bear the names of the published checkpoint's tensors, so that its state loads as it is. The form of wav2vec
2.0 base is that of A. Baevski and others, arXiv:2006.11477: seven convolutions (group norm over time after the first),
a convolution as position encoding, twelve layers of attention, each followed by its norm.

A batch gives what singles give. The convolutions see each sound alone, since the group norm reckons over the whole
length and would see padding; after them frames of padding are masked: zeroed before the position encoding, no keys of
attention, not read by the LSTM, not in the mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

CONVOLUTIONS = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))
"""(kernel, stride) of each, in samples of what comes before it."""
_CHANNELS, _WIDTH, _HEADS, _LAYERS, _INNER = 512, 768, 12, 12, 3072
_POSITION_KERNEL, _POSITION_GROUPS = 128, 16
_EMBEDDING, _LSTM, _PROJECTION = 128, 512, 2048
_STRETCH_FRAMES = 2048


def frames_of(samples: int) -> int:
    """How many frames the convolutions make of so many samples; 0 where it is too short for them."""
    for kernel, stride in CONVOLUTIONS:
        samples = (samples - kernel) // stride + 1 if samples >= kernel else 0
    return samples


class Utmos22Strong(nn.Module):
    """16 kHz sounds in, one opinion each out."""

    def __init__(self) -> None:
        super().__init__()
        self.wav2vec2 = _Wav2Vec2()
        self.domain_emb = nn.Parameter(torch.empty(1, _EMBEDDING))
        self.judge_emb = nn.Parameter(torch.empty(1, _EMBEDDING))
        self.blstm = nn.LSTM(_WIDTH + 2 * _EMBEDDING, _LSTM, batch_first=True, bidirectional=True)
        self.projection = nn.Sequential(nn.Linear(2 * _LSTM, _PROJECTION), nn.ReLU(), nn.Linear(_PROJECTION, 1))

    def forward(self, sounds: Sequence[Tensor]) -> Tensor:
        """Opinions, float32 (sounds,): the mean over time × 2 + 3. sounds: float32 (n,) each, n ≥ 400 (one frame)."""
        frames, lengths = self.wav2vec2(sounds)
        known = torch.cat([self.domain_emb, self.judge_emb], dim=1).expand(*frames.shape[:2], -1)
        packed = pack_padded_sequence(
            torch.cat([frames, known], dim=2), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.blstm(packed)[0], batch_first=True)
        scores = self.projection(states).squeeze(2)
        inside = _inside(lengths, scores)
        mean: Tensor = scores.masked_fill(~inside, 0.0).sum(dim=1) / inside.sum(dim=1)
        return mean * 2 + 3


class _Wav2Vec2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.feature_extractor = _Convolutions()
        self.layer_norm = nn.LayerNorm(_CHANNELS)
        self.post_extract_proj = nn.Linear(_CHANNELS, _WIDTH)
        self.encoder = _Encoder()
        self.mask_emb = nn.Parameter(torch.empty(_WIDTH))  # of training; in the checkpoint, never used

    def forward(self, sounds: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """(frames (sounds, most frames, 768), how many of them are each sound's own)."""
        heard = [self.feature_extractor(sound) for sound in sounds]
        lengths = torch.tensor([len(frames) for frames in heard])
        projected = self.post_extract_proj(self.layer_norm(pad_sequence(heard, batch_first=True)))
        return self.encoder(projected, lengths), lengths


class _Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = []
        for index, (kernel, stride) in enumerate(CONVOLUTIONS):
            convolution = nn.Conv1d(_CHANNELS if index else 1, _CHANNELS, kernel, stride, bias=False)
            norm = nn.Identity() if index else nn.GroupNorm(_CHANNELS, _CHANNELS)
            layers.append(nn.Sequential(convolution, nn.Identity(), norm, nn.GELU()))
        self.conv_layers = nn.ModuleList(layers)

    def forward(self, sound: Tensor) -> Tensor:
        """float32 (samples,) → (frames, 512).

        What the first convolution makes of half a minute are 200 MB, and as much again with each step after it. So the
        first two layers see stretches of the sound, no frame of theirs twice.
        """
        weight, bias = self._first(sound)
        (kernel, stride), (next_kernel, next_stride) = CONVOLUTIONS[:2]
        frames = ((len(sound) - kernel) // stride + 1 - next_kernel) // next_stride + 1
        x = sound.new_empty(1, _CHANNELS, frames)
        for start in range(0, frames, _STRETCH_FRAMES):
            stop = min(start + _STRETCH_FRAMES, frames)
            end = ((stop - 1) * next_stride + next_kernel - 1) * stride + kernel
            stretch = sound[None, None, start * next_stride * stride : end]
            first = functional.gelu(functional.conv1d(stretch, weight, bias, stride))
            x[:, :, start:stop] = self.conv_layers[1](first)
        for layer in self.conv_layers[2:]:
            x = layer(x)
        return x[0].T

    def _first(self, sound: Tensor) -> tuple[Tensor, Tensor]:
        """Weight and bias of the first convolution with the group norm after it folded in.

        The norm needs mean and variance over time of each channel w·f, f the sound's frames of 10 samples: they are
        w·mean(f) and w·cov(f)·w, reckoned in double precision (on the CPU: not every device has it).
        """
        convolution, norm = self.get_submodule("conv_layers.0.0"), self.get_submodule("conv_layers.0.2")
        assert isinstance(convolution, nn.Conv1d) and isinstance(norm, nn.GroupNorm)
        ((kernel, stride), *_) = CONVOLUTIONS
        frames = sound.cpu().double().unfold(0, kernel, stride)
        mean = frames.mean(dim=0)
        covariance = (frames - mean).T @ (frames - mean) / len(frames)
        weight = convolution.weight.cpu().double().squeeze(1)
        variance = ((weight @ covariance) * weight).sum(dim=1)
        gain = norm.weight.cpu().double() / (variance + norm.eps).sqrt()
        bias = norm.bias.cpu().double() - weight @ mean * gain
        return (weight * gain[:, None])[:, None].to(sound), bias.to(sound)


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pos_conv = nn.ModuleList([_PositionConvolution()])
        self.layer_norm = nn.LayerNorm(_WIDTH)
        self.layers = nn.ModuleList([_Layer() for _ in range(_LAYERS)])

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        keys = None
        if int(lengths.min()) < x.shape[1]:
            inside = _inside(lengths, x)
            x = x.masked_fill(~inside[:, :, None], 0.0)
            keys = inside[:, None, None, :]
        x = self.layer_norm(x + self.pos_conv[0](x))
        for layer in self.layers:
            x = layer(x, keys)
        return x


class _PositionConvolution(nn.Module):
    """Grouped convolution with as much zero padding on both sides as keeps the length, after dropping the last frame.

    Its weight is stored apart as direction v and gain g, one gain for each place of the kernel.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight_v = nn.Parameter(torch.empty(_WIDTH, _WIDTH // _POSITION_GROUPS, _POSITION_KERNEL))
        self.weight_g = nn.Parameter(torch.empty(1, 1, _POSITION_KERNEL))
        self.bias = nn.Parameter(torch.empty(_WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight_v * (self.weight_g / self.weight_v.norm(dim=(0, 1), keepdim=True))
        placed = functional.conv1d(x.mT, weight, self.bias, padding=_POSITION_KERNEL // 2, groups=_POSITION_GROUPS)
        return functional.gelu(placed[:, :, :-1]).mT


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = _Attention()
        self.self_attn_layer_norm = nn.LayerNorm(_WIDTH)
        self.fc1 = nn.Linear(_WIDTH, _INNER)
        self.fc2 = nn.Linear(_INNER, _WIDTH)
        self.final_layer_norm = nn.LayerNorm(_WIDTH)

    def forward(self, x: Tensor, keys: Tensor | None) -> Tensor:
        x = self.self_attn_layer_norm(x + self.self_attn(x, keys))
        out: Tensor = self.final_layer_norm(x + self.fc2(functional.gelu(self.fc1(x))))
        return out


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(_WIDTH, _WIDTH) for _ in range(4))

    def forward(self, x: Tensor, keys: Tensor | None) -> Tensor:
        """keys: bool (sounds, 1, 1, frames), True where a frame may be attended to; None: everywhere."""
        q, k, v = (of(x).unflatten(2, (_HEADS, -1)).transpose(1, 2) for of in (self.q_proj, self.k_proj, self.v_proj))
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=keys)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return out


def _inside(lengths: Tensor, like: Tensor) -> Tensor:
    """bool (sounds, frames): which frames of a padded batch are no padding."""
    return torch.arange(like.shape[1], device=like.device) < lengths.to(like.device)[:, None]
