"""Products, dense layers, attention, normalisations and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from tests.networks.operators.case import NAN, Case, image, over, spoilt

F = functional
Functions = dict[str, Callable[..., Any]]

SHAPES = {
    "[3] [3]": ((3,), (3,)),
    "[2, 3] [3]": ((2, 3), (3,)),
    "[3] [3, 4]": ((3,), (3, 4)),
    "[2, 3] [3, 4]": ((2, 3), (3, 4)),
    "[5, 2, 3] [3, 4]": ((5, 2, 3), (3, 4)),
    "[5, 1, 2, 3] [4, 3, 4]": ((5, 1, 2, 3), (4, 3, 4)),
    "[3] [5, 3, 4]": ((3,), (5, 3, 4)),
    "[5, 2, 3] [3]": ((5, 2, 3), (3,)),
    "[0, 3] [3, 4]": ((0, 3), (3, 4)),
    "[2, 0] [0, 4]": ((2, 0), (0, 4)),
    "[1, 1] [1, 1]": ((1, 1), (1, 1)),
}
NORMS: Functions = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "layer_norm two axes": lambda x: F.layer_norm(x, x.shape[-2:], eps=0.1),
    "layer_norm weighted": lambda x: F.layer_norm(x, x.shape[-1:], x[0, 0, 0], x[0, 0, 1]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 2),
    "group_norm weighted": lambda x: F.group_norm(x, 4, x[0, :, 0, 0], x[0, :, 1, 1], 0.1),
    "instance_norm": lambda x: F.instance_norm(x),
    "batch_norm": lambda x: F.batch_norm(x, x[0, :, 0, 0], x[0, :, 0, 1].abs() + 1),
    "batch_norm weighted": lambda x: F.batch_norm(
        x, x[0, :, 0, 0], x[0, :, 0, 1].abs() + 1, x[0, :, 1, 0], x[0, :, 1, 1], False, 0.1, 0.2
    ),
}
LOSSES: Functions = {
    "mse_loss": lambda x, i: F.mse_loss(x, x.flip(0)),
    "l1_loss sum": lambda x, i: F.l1_loss(x, x.flip(0), reduction="sum"),
    "smooth_l1_loss": lambda x, i: F.smooth_l1_loss(x, x.flip(0), beta=0.5),
    "huber_loss": lambda x, i: F.huber_loss(x, x.flip(0), delta=0.5),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i),
    "cross_entropy sum smooth": lambda x, i: F.cross_entropy(
        x, i, reduction="sum", label_smoothing=0.1
    ),
    "cross_entropy ignored": lambda x, i: F.cross_entropy(x, i, ignore_index=1),
    "nll_loss none": lambda x, i: F.nll_loss(x, i, reduction="none"),
    "kl_div": lambda x, i: F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction="batchmean"),
    "binary_cross_entropy": lambda x, i: F.binary_cross_entropy(x.sigmoid(), x.flip(0).sigmoid()),
    "bce with logits": lambda x, i: F.binary_cross_entropy_with_logits(x, x.flip(0).sigmoid()),
}


def _mask(rows: int, columns: int) -> torch.Tensor:
    mask = torch.ones(rows, columns, dtype=torch.bool).tril()
    mask[1] = False
    return mask


def _attention() -> list[Case]:
    attend = F.scaled_dot_product_attention
    functions: Functions = {
        "attention": lambda q, k, v: attend(q, k, v),
        "attention causal": lambda q, k, v: attend(q, k[..., :4, :], v[..., :4, :], is_causal=True),
        "attention masked": lambda q, k, v: attend(q, k, v, attn_mask=_mask(4, 5)),
        "attention added": lambda q, k, v: attend(q, k, v, torch.zeros(4, 5).to(q) - 0.5),
        "attention scale": lambda q, k, v: attend(q, k, v, scale=0.3),
    }
    inputs = {
        dtype: tuple(
            image(2, 3, rows, 6, dtype=dtype, seed=seed) for rows, seed in ((4, 1), (5, 2), (5, 3))
        )
        for dtype in ("float32", "float64", "float16")
    }
    # Torch's kernels differ in what becomes of a NaN behind a mask.
    spoilt_keys = (image(1, 2, 4, 6), spoilt(1, 2, 5, 6), image(1, 2, 5, 6, seed=3))
    inputs["no batch"] = (image(4, 6), image(5, 6, seed=3), image(5, 6, seed=4))
    grouped = (image(1, 4, 3, 6), image(1, 2, 5, 6, seed=3), image(1, 2, 5, 6, seed=4))
    return [
        *over("", functions, inputs, error=4096),
        *over("", {"attention": functions["attention"]}, {"spoilt": spoilt_keys}, error=4096),
        Case("attention grouped", lambda *t: attend(*t, enable_gqa=True), grouped, error=4096),
    ]


def _cases() -> list[Case]:
    products = {
        f"{shapes} {dtype}": tuple(
            image(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(pair)
        )
        for shapes, pair in SHAPES.items()
        for dtype in ("float32", "int64")
    }
    square = {dtype: image(2, 3, 3, dtype=dtype) for dtype in ("float32", "float64", "float16")}
    square["spoilt"] = spoilt(2, 3, 3)
    square["int32"] = image(2, 3, 3, dtype="int32")
    dense: Functions = {
        "linear": lambda x: F.linear(x, x[0], x[0, 0]),
        "linear one row": lambda x: F.linear(x[0, 0], x[0]),
        "bilinear": lambda x: F.bilinear(x[0], x[1], x),
        "mm": lambda x: torch.mm(x[0], x[1].T),
        "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)),
        "mv": lambda x: torch.mv(x[0], x[1, 0]),
        "dot": lambda x: torch.dot(x[0, 0], x[1, 0]),
        "outer": lambda x: torch.outer(x[0, 0], x[1, 0]),
        "addmm": lambda x: torch.addmm(x[0, 0], x[0], x[1], beta=2, alpha=3),
        "addmv": lambda x: torch.addmv(x[0, 0], x[0], x[1, 0], beta=2, alpha=3),
        "baddbmm": lambda x: torch.baddbmm(x, x, x, beta=2, alpha=3),
        "baddbmm beta 0": lambda x: torch.baddbmm(x, x, x, beta=0),
        "addbmm": lambda x: torch.addbmm(x[0], x, x, beta=2),
        "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x),
        "einsum trace": lambda x: torch.einsum("bii->b", x),
        "einsum sums": lambda x: torch.einsum("bij,kl->bl", x, x[0]),
        "tensordot": lambda x: torch.tensordot(x, x, dims=([1, 2], [2, 1])),
        "kron": lambda x: torch.kron(x[0], x[1]),
        "cross": lambda x: torch.linalg.cross(x[0], x[1]),
        "cdist": lambda x: torch.cdist(x, x.flip(1)),
        "trace": lambda x: torch.trace(x[0]),
    }
    normed = {
        "float32": image(2, 4, 3, 5),
        "float64": image(2, 4, 3, 5, dtype="float64"),
        "float16": image(2, 4, 3, 5, dtype="float16"),
        "a NaN": torch.where(torch.arange(120).reshape(2, 4, 3, 5) == 7, NAN, image(2, 4, 3, 5)),
        "constant": torch.ones(2, 4, 3, 5),
    }
    labels = (image(3, 4), torch.tensor([2, 1, 0]))
    return [
        *over("matmul ", {"": torch.matmul}, products, error=1024),
        *over("", dense, square, error=4096),
        *over("", NORMS, normed, error=4096),
        *over("", LOSSES, {"float32": labels}, error=1024),
        *_attention(),
    ]


CASES = _cases()
