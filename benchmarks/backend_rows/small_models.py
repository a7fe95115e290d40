"""Forty small models: convolutions, recurrent cells, attention, normalisations, control flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Make = Callable[[], tuple[Any, tuple[Any, ...]]]
"""Returns a model, and the arguments of a call."""


class Lambda(nn.Module):
    """A function, with the modules that it uses."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(self, *arguments)


def image(batch: int = 1, channels: int = 16, size: int = 14) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)


def tokens(batch: int = 2, length: int = 16, width: int = 32) -> torch.Tensor:
    return torch.randn(batch, length, width)


def conv(wide: int, narrow: int, size: int = 3, **given: Any) -> nn.Sequential:
    made = nn.Conv2d(wide, narrow, size, padding=given.pop("padding", size // 2), **given)
    return nn.Sequential(made, nn.BatchNorm2d(narrow), nn.ReLU())


def basic_block() -> Any:
    parts = {"one": conv(16, 16), "two": nn.Conv2d(16, 16, 3, padding=1)}
    return Lambda(lambda m, x: torch.relu(m.two(m.one(x)) + x), **parts), (image(),)


def bottleneck() -> Any:
    body = nn.Sequential(conv(16, 8, 1), conv(8, 8), nn.Conv2d(8, 16, 1))
    return Lambda(lambda m, x: torch.relu(m.body(x) + x), body=body), (image(),)


def inverted_residual() -> Any:
    body = nn.Sequential(
        conv(16, 64, 1), conv(64, 64, groups=64), nn.Conv2d(64, 16, 1), nn.BatchNorm2d(16)
    )
    return Lambda(lambda m, x: x + m.body(x), body=body), (image(),)


def squeeze_excite() -> Any:
    parts = {"down": nn.Conv2d(16, 4, 1), "up": nn.Conv2d(4, 16, 1)}

    def run(m: Any, x: Any) -> Any:
        return x * torch.sigmoid(m.up(F.silu(m.down(x.mean((2, 3), keepdim=True)))))

    return Lambda(run, **parts), (image(),)


def dense_block() -> Any:
    parts = {"one": conv(16, 8), "two": conv(24, 8)}

    def run(m: Any, x: Any) -> Any:
        x = torch.cat([x, m.one(x)], 1)
        return torch.cat([x, m.two(x)], 1)

    return Lambda(run, **parts), (image(),)


def inception_block() -> Any:
    parts = {"one": conv(16, 8, 1), "three": conv(16, 8), "five": conv(16, 8, 5)}

    def run(m: Any, x: Any) -> Any:
        return torch.cat([m.one(x), m.three(x), m.five(x), F.max_pool2d(x, 3, 1, 1)], 1)

    return Lambda(run, **parts), (image(),)


def unet() -> Any:
    parts = {"down": conv(16, 32, stride=2), "up": nn.ConvTranspose2d(32, 16, 2, 2)}
    return Lambda(lambda m, x: torch.cat([m.up(m.down(x)), x], 1), **parts), (image(),)


def convnext() -> Any:
    parts = {
        "spatial": nn.Conv2d(16, 16, 7, padding=3, groups=16),
        "norm": nn.LayerNorm(16),
        "up": nn.Linear(16, 64),
        "down": nn.Linear(64, 16),
    }

    def run(m: Any, x: Any) -> Any:
        y = m.norm(m.spatial(x).permute(0, 2, 3, 1))
        return x + m.down(F.gelu(m.up(y))).permute(0, 3, 1, 2)

    return Lambda(run, **parts), (image(),)


def pixel_shuffle() -> Any:
    return nn.Sequential(nn.Conv2d(16, 12, 3, padding=1), nn.PixelShuffle(2)), (image(),)


def dilated() -> Any:
    return nn.Sequential(conv(16, 16, dilation=2, padding=2), nn.AdaptiveAvgPool2d(3)), (image(),)


def spatial_3d() -> Any:
    return nn.Sequential(nn.Conv3d(4, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU()), (
        torch.randn(1, 4, 4, 8, 8),
    )


def causal_1d() -> Any:
    model = nn.Conv1d(16, 32, 3)
    return Lambda(lambda m, x: F.glu(m.conv(F.pad(x, (2, 0))), 1), conv=model), (
        torch.randn(2, 16, 20),
    )


def lenet() -> Any:
    layers = [nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh()]
    head = [nn.Flatten(), nn.Linear(16 * 16, 84), nn.Tanh(), nn.Linear(84, 10)]
    return nn.Sequential(*layers, nn.AvgPool2d(2), *head), (torch.randn(1, 1, 28, 28),)


def lstm_cell() -> Any:
    cell = nn.LSTMCell(16, 32)
    state = torch.randn(2, 32)
    return Lambda(lambda m, x, h, c: m.cell(x, (h, c)), cell=cell), (
        torch.randn(2, 16),
        state,
        state.clone(),
    )


def gru_cell() -> Any:
    return nn.GRUCell(16, 32), (torch.randn(2, 16), torch.randn(2, 32))


def lstm() -> Any:
    return nn.LSTM(16, 32, batch_first=True), (torch.randn(2, 5, 16),)


def recurrent_loop() -> Any:
    parts = {"own": nn.Linear(16, 16), "given": nn.Linear(16, 16)}

    def run(m: Any, x: Any) -> Any:
        state = torch.zeros(x.shape[0], 16)
        for step in range(x.shape[1]):
            state = torch.tanh(m.own(state) + m.given(x[:, step]))
        return state

    return Lambda(run, **parts), (torch.randn(2, 5, 16),)


def linear_recurrence() -> Any:
    def run(m: Any, x: Any, decay: Any) -> Any:
        return torch.cumsum(x * torch.exp(decay), 1)

    return Lambda(run), (tokens(), torch.randn(32))


def self_attention() -> Any:
    parts = {"qkv": nn.Linear(32, 96), "out": nn.Linear(32, 32)}

    def run(m: Any, x: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = m.qkv(x).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return m.out(y.transpose(1, 2).reshape(batch, length, 32))

    return Lambda(run, **parts), (tokens(),)


def causal_attention() -> Any:
    def run(m: Any, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Lambda(run), tuple(torch.randn(2, 4, 16, 8) for _ in range(3))


def written_attention() -> Any:
    def run(m: Any, q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-2, -1) / 8**0.5
        mask = torch.ones(16, 16, dtype=torch.bool).tril()
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v

    return Lambda(run), tuple(torch.randn(2, 4, 16, 8) for _ in range(3))


def cross_attention() -> Any:
    return nn.MultiheadAttention(32, 4, batch_first=True), (tokens(), tokens(2, 9), tokens(2, 9))


def linear_attention() -> Any:
    def run(m: Any, q: Any, k: Any, v: Any) -> Any:
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return q @ (k.transpose(-2, -1) @ v) / (q @ k.sum(-2, keepdim=True).transpose(-2, -1))

    return Lambda(run), tuple(torch.randn(2, 4, 16, 8) for _ in range(3))


def rotary() -> Any:
    def run(m: Any, x: Any, angles: Any) -> Any:
        one, two = x.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([one * cos - two * sin, one * sin + two * cos], -1)

    return Lambda(run), (torch.randn(2, 4, 16, 8), torch.randn(16, 4))


def alibi() -> Any:
    def run(m: Any, scores: Any) -> Any:
        distance = torch.arange(16)[None, :] - torch.arange(16)[:, None]
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
        return torch.softmax(scores + slopes[:, None, None] * distance, -1)

    return Lambda(run), (torch.randn(2, 4, 16, 16),)


def encoder_layer() -> Any:
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (tokens(),)


def gated_feed_forward() -> Any:
    parts = {"gate": nn.Linear(32, 64), "up": nn.Linear(32, 64), "down": nn.Linear(64, 32)}
    return Lambda(lambda m, x: m.down(F.silu(m.gate(x)) * m.up(x)), **parts), (tokens(),)


def mixture_of_experts() -> Any:
    parts = {"router": nn.Linear(32, 2), "one": nn.Linear(32, 32), "two": nn.Linear(32, 32)}

    def run(m: Any, x: Any) -> Any:
        weights = torch.softmax(m.router(x), -1)
        return weights[..., :1] * m.one(x) + weights[..., 1:] * m.two(x)

    return Lambda(run, **parts), (tokens(),)


def embedding_bag() -> Any:
    table = nn.Embedding(50, 32)
    return Lambda(lambda m, ids: m.table(ids).sum(1) @ m.table.weight.t(), table=table), (
        torch.randint(0, 50, (2, 7)),
    )


def batch_norm() -> Any:
    return nn.BatchNorm2d(16), (image(4),)


def layer_norm() -> Any:
    return nn.LayerNorm(32), (tokens(),)


def group_norm() -> Any:
    return nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU()), (image(),)


def instance_norm() -> Any:
    return nn.InstanceNorm2d(16, affine=True), (image(),)


def rms_norm() -> Any:
    return nn.RMSNorm(32), (tokens(),)


def local_response_norm() -> Any:
    return nn.LocalResponseNorm(5), (image(),)


def branch_on_values() -> Any:
    parts = {"one": nn.Linear(32, 32), "two": nn.Linear(32, 32)}

    def run(m: Any, x: Any) -> Any:
        y = m.one(x)
        return m.two(torch.relu(y)) if y.mean() > 0 else m.two(-y)

    return Lambda(run, **parts), (tokens(),)


def loop_until() -> Any:
    part = nn.Linear(32, 32)

    def run(m: Any, x: Any) -> Any:
        for _ in range(4):
            x = torch.tanh(m.part(x))
            if x.abs().max() < 0.5:
                break
        return x

    return Lambda(run, part=part), (tokens(),)


def printing() -> Any:
    parts = {"one": nn.Linear(32, 32), "two": nn.Linear(32, 32)}

    def run(m: Any, x: Any) -> Any:
        y = torch.relu(m.one(x))
        torch._dynamo.graph_break()
        return m.two(y)

    return Lambda(run, **parts), (tokens(),)


def dictionary() -> Any:
    part = nn.Linear(32, 8)

    def run(m: Any, given: Any) -> Any:
        y = m.part(given["x"]) * given["scale"]
        return {"logits": y, "best": y.argmax(-1), "length": given["x"].shape[1]}

    return Lambda(run, part=part), ({"x": tokens(), "scale": torch.tensor(0.5)},)


def top_choices() -> Any:
    part = nn.Linear(32, 20)

    def run(m: Any, x: Any) -> Any:
        values, places = torch.topk(m.part(x), 3)
        return torch.softmax(values, -1), places

    return Lambda(run, part=part), (tokens(),)


_ALL = (
    *(basic_block, bottleneck, inverted_residual, squeeze_excite, dense_block, inception_block),
    *(unet, convnext, pixel_shuffle, dilated, spatial_3d, causal_1d, lenet),
    *(lstm_cell, gru_cell, lstm, recurrent_loop, linear_recurrence),
    *(self_attention, causal_attention, written_attention, cross_attention, linear_attention),
    *(rotary, alibi, encoder_layer, gated_feed_forward, mixture_of_experts, embedding_bag),
    *(batch_norm, layer_norm, group_norm, instance_norm, rms_norm, local_response_norm),
    *(branch_on_values, loop_until, printing, dictionary, top_choices),
)
MODELS: Mapping[str, Make] = {one.__name__: one for one in _ALL}
