"""Operators that move, choose, repeat and make elements, and compute none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from tests.networks.operators.case import Case, image, over, special, spoilt

Functions = dict[str, Callable[..., Any]]

VIEWS: Functions = {
    "reshape": lambda x: x.reshape(-1, 2),
    "flatten -2": lambda x: x.flatten(-2),
    "unflatten": lambda x: x.unflatten(-1, (2, -1)),
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(2, 0, -2),
    "movedim": lambda x: x.movedim(0, -1),
    "squeeze": lambda x: x[:1].squeeze(),
    "unsqueeze -1": lambda x: x.unsqueeze(-1),
    "expand": lambda x: x[:, :1].expand(2, 5, -1),
    "flip": lambda x: x.flip((0, -1)),
    "roll": lambda x: x.roll((1, -2), (0, -1)),
    "roll flat": lambda x: x.roll(3),
    "rot90": lambda x: torch.rot90(x, 1, (0, 2)),
    "slice": lambda x: x[:, 1:-1:2, -3:],
    "slice beyond": lambda x: x[:, 1:99],
    "slice nothing": lambda x: x[:, 2:2],
    "select": lambda x: x[..., -1],
    "narrow": lambda x: x.narrow(-1, 1, 2),
    "split": lambda x: x.split(2, -1),
    "split uneven": lambda x: x.split((1, 3), -1),
    "chunk uneven": lambda x: x.chunk(2, 1),
    "tensor_split": lambda x: x.tensor_split(3, -1),
    "unbind": lambda x: x.unbind(1),
    "cat": lambda x: torch.cat([x, x[:, :1], x[:, :0]], -2),
    "stack": lambda x: torch.stack([x, x.flip(0)], -1),
    "hstack": lambda x: torch.hstack([x, x]),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat_interleave": lambda x: x.repeat_interleave(2, -1),
    "tile": lambda x: x.tile(2, 2),
    "tril": lambda x: x.tril(-1),
    "triu": lambda x: x.triu(1),
    "diagonal": lambda x: x.diagonal(1, 0, 2),
    "diag_embed": lambda x: torch.diag_embed(x[0, 0]),
    "unfold view": lambda x: x.unfold(-1, 2, 1),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), 1),
    "pad": lambda x: functional.pad(x, (1, 2, 0, 1), value=7),
    "pad negative": lambda x: functional.pad(x, (-1, 2)),
    "pad reflect": lambda x: functional.pad(x, (1, 2), mode="reflect"),
    "pad replicate": lambda x: functional.pad(x, (1, 2), mode="replicate"),
    "pad circular": lambda x: functional.pad(x, (1, 2), mode="circular"),
    "zeros_like": torch.zeros_like,
    "full_like": lambda x: torch.full_like(x, 3),
    "new_ones": lambda x: x.new_ones(2, 3),
    "cast": lambda x: (x.to(torch.float64), x.to(torch.float16), x.to(torch.bool)),
    "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[:, 0, 0], indexing="ij"),
    "meshgrid xy": lambda x: torch.meshgrid(x[0, 0], x[:, 0, 0], indexing="xy"),
    "broadcast_to": lambda x: x.broadcast_to(2, *x.shape),
    "channel_shuffle": lambda x: functional.channel_shuffle(x.reshape(1, 4, 1, -1), 2),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x.reshape(1, 4, 2, -1), 2),
    "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x.reshape(1, 1, 2, -1), 2),
}
CHOICES: Functions = {
    "index": lambda x, i: x[i],
    "index axis": lambda x, i: x[:, i],
    "index pair": lambda x, i: x[i, i],
    "index around": lambda x, i: x[i, :, i],
    "index matrix": lambda x, i: x[i[:, None], i[None, :]],
    "index none": lambda x, i: x[None, i],
    "index_select": lambda x, i: x.index_select(-1, i % 4),
    "take": lambda x, i: x.take(i),
    "take_along_dim": lambda x, i: x.take_along_dim((i % 3)[:, None, None], 0),
    "gather": lambda x, i: x.gather(-1, (i % 4).expand(2, 3, 2)),
    "embedding": lambda x, i: functional.embedding(i % 3, x[0]),
    "embedding padded": lambda x, i: functional.embedding(i % 3, x[0], padding_idx=0),
    "scatter": lambda x, i: x.scatter(-1, (i % 4).expand(2, 3, 2), x[..., :2] + 1),
    "scatter value": lambda x, i: x.scatter(0, (i % 2).expand(1, 1, 2), 5),
    "scatter_add": lambda x, i: x.scatter_add(-1, (i * 0).expand(2, 3, 2), x[..., :2]),
    "index_add": lambda x, i: x.index_add(0, i % 2, x),
    "index_put": lambda x, i: x.index_put((i,), x[0] + 1),
    "index_put accumulate": lambda x, i: x.index_put((i * 0,), x[0] + 1, accumulate=True),
    "index_fill": lambda x, i: x.index_fill(0, i % 2, 3),
    "index_copy": lambda x, i: x.index_copy(0, i % 2, x + 1),
    "select_scatter": lambda x, i: x.select_scatter(x[:, 0] + 1, 1, -1),
    "slice_scatter": lambda x, i: x.slice_scatter(x[:, :2] + 1, 1, 0, 3, 2),
    "one_hot": lambda x, i: functional.one_hot(i % 3, 4),
    "bucketize": lambda x, i: torch.bucketize(x[0, 0], torch.tensor([-1.0, 0.0, 1.0]).to(x)),
    "bucketize right": lambda x, i: torch.bucketize(
        torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 1.0]), right=True
    ),
    "isin": lambda x, i: torch.isin(i, torch.tensor([1, 5])),
}
MADE: Functions = {
    "arange": lambda x: torch.arange(6) + x.sum().long(),
    "arange float": lambda x: torch.arange(0.5, 3, 0.7) * x[0, 0, 0],
    "arange down": lambda x: torch.arange(5, -2, -3) * x[0, 0, 0],
    "arange exact": lambda x: torch.arange(1, 2, 0.1) * x[0, 0, 0],
    "linspace": lambda x: torch.linspace(-1, 2, 7) * x[0, 0, 0],
    "linspace one": lambda x: torch.linspace(3, 2, 1) * x[0, 0, 0],
    "logspace": lambda x: torch.logspace(0, 2, 4) * x[0, 0, 0],
    "eye": lambda x: torch.eye(3, 4) + x[0],
    "eye tall": lambda x: torch.eye(4, 2) * x[0, 0, 0],
    "full": lambda x: torch.full((2, 2), 7.5) * x[0, 0, 0],
    "hamming_window": lambda x: torch.hamming_window(6) * x[0, 0, 0],
    "hann_window": lambda x: torch.hann_window(5, periodic=False) * x[0, 0, 0],
    "tril_indices": lambda x: torch.tril_indices(3, 3) + x.sum().long(),
}


def _cases() -> list[Case]:
    kinds = {
        "float32": image(2, 3, 4),
        "spoilt": spoilt(2, 3, 4),
        "int64": image(2, 3, 4, dtype="int64"),
        "bool": image(2, 3, 4, dtype="bool"),
        "strided": image(4, 3, 8)[::2, :, ::2],
    }
    places = {
        "float32": (image(2, 3, 4), torch.tensor([-1, 0])),
        "int64": (image(2, 3, 4, dtype="int64"), torch.tensor([1, -2])),
        "int32 places": (image(2, 3, 4), torch.tensor([-1, 1], dtype=torch.int32)),
        "spoilt": (spoilt(2, 3, 4), torch.tensor([1, 1])),
    }
    casts = {
        f"to {dtype}": lambda x, dtype=dtype: x.to(getattr(torch, dtype))
        for dtype in ("float64", "float32", "float16", "bfloat16", "int32", "bool")
    }
    finite = torch.tensor([0.0, -0.0, 0.4, -0.9, 1.5, -2.5, 100.7])
    return [
        *over("", VIEWS, kinds),
        *over("", CHOICES, places),
        *over("", MADE, {"float32": image(2, 3, 4)}),
        *over("", casts, {"finite": finite, "int64": special("int64"), "bool": special("bool")}),
        *over(
            "",
            {name: casts[name] for name in ("to float64", "to float16", "to bfloat16", "to bool")},
            {"special": special()},
            signed_zeros=True,
        ),
    ]


CASES = _cases()
