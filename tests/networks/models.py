"""Small models of PyTorch, with weights drawn by a seed. Importing this file needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Built = tuple[nn.Module, Any]
"""A model and its example inputs."""


def seeded(model: nn.Module) -> nn.Module:
    """Give every parameter and statistic a random value, so that none is neutral."""
    generator = torch.Generator().manual_seed(1)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point():
            drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64) * 0.5
            positive = "running_var" in name
            tensor.data.copy_(drawn.abs() + 0.5 if positive else drawn)
    return model


def image(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


class Function(nn.Module):
    """A model of a function of tensors, with modules that it may use."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def convolutions() -> Built:
    """Plain, strided, depthwise and transposed convolutions, each with batch norm."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1, groups=2),
        nn.BatchNorm2d(6),
        nn.Hardswish(),
        nn.Conv2d(6, 4, 1),
    ), (image(1, 3, 8, 8),)


def convolutions_1d() -> Built:
    return nn.Sequential(
        nn.Conv1d(3, 6, 3, padding="same"),
        nn.BatchNorm1d(6),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose1d(6, 4, 3, stride=2, output_padding=1),
        nn.BatchNorm1d(4),
        nn.AvgPool1d(2),
    ), (image(2, 3, 10),)


def convolutions_3d() -> Built:
    return nn.Sequential(
        nn.Conv3d(2, 4, (1, 3, 3), padding=(0, 1, 1)),
        nn.BatchNorm3d(4),
        nn.SiLU(),
        nn.ConvTranspose3d(4, 2, 2, stride=2),
        nn.BatchNorm3d(2),
        nn.MaxPool3d(2),
        nn.AdaptiveAvgPool3d(1),
    ), (image(1, 2, 4, 5, 5),)


def attention() -> Built:
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True)
    return layer, (image(2, 6, 16),)


def perceptron() -> Built:
    return nn.Sequential(
        nn.Linear(8, 16),
        nn.GELU(),
        nn.BatchNorm1d(16),
        nn.Dropout(0.3),
        nn.Linear(16, 16),
        nn.GELU(approximate="tanh"),
        nn.LayerNorm(16, elementwise_affine=False),
        nn.Linear(16, 3, bias=False),
        nn.LogSoftmax(-1),
    ), (image(4, 8),)


def tied_embedding() -> Built:
    """Token ids in, scores over the same table out; also the cube of GPT's activation."""

    def forward(self: Any, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids) + self.places(torch.arange(ids.shape[1]))
        x = x + torch.pow(x, 3.0) * 0.044 + x**2
        return functional.linear(x, self.table.weight)

    model = Function(forward, table=nn.Embedding(11, 8), places=nn.Embedding(5, 8))
    return model, (torch.tensor([[3, 1, 10, 0]]),)


def masked_attention() -> Built:
    """Attention under a causal mask, a mask that is an input, and one that masks a whole row."""

    def forward(self: Any, x: torch.Tensor, keep: torch.Tensor) -> Any:
        q, k, v = self.all(x).reshape(1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        causal = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        chosen = functional.scaled_dot_product_attention(q, k, v, attn_mask=keep, scale=0.7)
        added = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.where(keep, 0.0, -1.5)
        )
        return causal, {"chosen": chosen, "added": added}

    keep = torch.ones(5, 5, dtype=torch.bool).tril()
    keep[2] = False
    return Function(forward, all=nn.Linear(8, 24)), (image(1, 5, 8), keep)


def gru() -> Built:
    return nn.GRU(4, 5), (image(3, 2, 4),)


def pooling() -> Built:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return (
            functional.max_pool2d(x, 3, 2, 1),
            functional.avg_pool2d(x, 2, ceil_mode=True),
            functional.adaptive_avg_pool2d(x, 3),
            functional.interpolate(x, scale_factor=2.0, mode="nearest"),
            functional.group_norm(x, 2, self.norm.weight, self.norm.bias),
            functional.pad(x, (1, 2, 0, 1)),
            self.instance(x),
        )

    modules = {"norm": nn.GroupNorm(2, 4), "instance": nn.InstanceNorm2d(4, affine=True)}
    return Function(forward, **modules), (image(1, 4, 7, 7),)


def moving() -> Built:
    """Operators that compute nothing."""

    def forward(self: Any, x: torch.Tensor, ids: torch.Tensor) -> Any:
        turned = x.transpose(0, 1).reshape(3, 8)
        return (
            torch.cat([turned, turned.flip(0)], 1),
            x[ids],
            x[:, 1:3].unsqueeze(0).expand(2, -1, -1, -1),
        )

    return Function(forward), (image(4, 3, 2), torch.tensor([2, 0, 3]))


MODELS = {
    build.__name__: build
    for build in (
        convolutions,
        convolutions_1d,
        convolutions_3d,
        attention,
        perceptron,
        tied_embedding,
        masked_attention,
        gru,
        pooling,
        moving,
    )
}
