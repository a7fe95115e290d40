"""Reductions, sorting and running sums, over one axis, several and all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from tests.networks.operators.case import INF, NAN, Case, image, over, shapes, spoilt

Functions = dict[str, Callable[..., Any]]

EXTREMES: Functions = {
    "max": torch.max,
    "min": torch.min,
    "amax": torch.amax,
    "amin": torch.amin,
    "amax -1": lambda x: x.amax(-1),
    "amax all kept": lambda x: x.amax((0, -1), keepdim=True),
    "amin 0 kept": lambda x: x.amin(0, keepdim=True),
    "max -1": lambda x: tuple(x.max(-1)),
    "max 0 kept": lambda x: tuple(x.max(0, keepdim=True)),
    "min -1": lambda x: tuple(x.min(-1)),
    "min 0 kept": lambda x: tuple(x.min(0, keepdim=True)),
    "argmax": torch.argmax,
    "argmin": torch.argmin,
    "argmax -1": lambda x: x.argmax(-1),
    "argmax 0 kept": lambda x: x.argmax(0, keepdim=True),
    "argmin -1": lambda x: x.argmin(-1),
    "argmin 0 kept": lambda x: x.argmin(0, keepdim=True),
    "aminmax": lambda x: tuple(torch.aminmax(x)),
    "max of where": lambda x: torch.where(x > 0, x, 0).amax(-1),
}
ORDERED: Functions = {
    "sort": lambda x: x.sort(-1)[0],
    "sort descending": lambda x: x.sort(0, descending=True)[0],
    "sort stable": lambda x: tuple(torch.sort(x, dim=-1, stable=True)),
    "argsort stable": lambda x: torch.argsort(x, dim=0, stable=True),
    "topk": lambda x: x.topk(2, -1)[0],
    "topk smallest": lambda x: x.topk(2, 0, largest=False)[0],
    "median": torch.median,
    "median -1": lambda x: x.median(-1)[0],
    "kthvalue": lambda x: x.kthvalue(2, -1)[0],
    "cummax": lambda x: x.cummax(-1)[0],
    "cummin": lambda x: x.cummin(0)[0],
}
# Torch's means beside variances are NaN where an infinite number is among the numbers.
TOGETHER: Functions = {
    "var_mean": lambda x: tuple(torch.var_mean(x, -1)),
    "std_mean": lambda x: tuple(torch.std_mean(x, 0, keepdim=True)),
}
PLACES: Functions = {
    "sort places": lambda x: x.sort(-1)[1],
    "sort descending places": lambda x: x.sort(0, descending=True)[1],
    "topk places": lambda x: x.topk(3, -1)[1],
    "topk 0 places": lambda x: x.topk(2, 0, largest=False)[1],
    "argsort": lambda x: x.argsort(-1),
    "argsort descending": lambda x: x.argsort(-1, descending=True),
    "median place": lambda x: x.median(-1)[1],
}
SUMS: Functions = {
    "sum": torch.sum,
    "sum -1": lambda x: x.sum(-1),
    "sum (0, -1) kept": lambda x: x.sum((0, -1), keepdim=True),
    "sum float64": lambda x: x.sum(0, dtype=torch.float64),
    "prod": torch.prod,
    "prod -1": lambda x: x.prod(-1),
    "prod 0 kept": lambda x: x.prod(0, keepdim=True),
    "cumsum": lambda x: x.cumsum(0),
    "cumsum -1": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "any": torch.any,
    "any -1": lambda x: x.any(-1),
    "all": torch.all,
    "all 0 kept": lambda x: x.all(0, keepdim=True),
    "count_nonzero": torch.count_nonzero,
}
MEANS: Functions = {
    "mean": torch.mean,
    "mean -1": lambda x: x.mean(-1),
    "mean (0, -1) kept": lambda x: x.mean((0, -1), keepdim=True),
    "var": torch.var,
    "var -1": lambda x: x.var(-1),
    "var 0 uncorrected kept": lambda x: x.var(0, correction=0, keepdim=True),
    "var correction 2": lambda x: x.var(-1, correction=2),
    "std": torch.std,
    "std (0, 1)": lambda x: x.std((0, 1)),
    "norm": torch.norm,
    "norm 1": lambda x: x.norm(1, -1),
    "norm inf": lambda x: x.norm(INF, 0),
    "norm -inf": lambda x: x.norm(-INF, 0),
    "norm 0": lambda x: x.norm(0, -1),
    "norm 3": lambda x: x.norm(3, -1, keepdim=True),
    "vector_norm": torch.linalg.vector_norm,
    "logsumexp": lambda x: x.logsumexp(-1),
    "logsumexp kept": lambda x: x.logsumexp((0, 1), keepdim=True),
    "softmax": lambda x: x.softmax(-1),
    "softmax 0": lambda x: x.softmax(0),
    "softmin": lambda x: functional.softmin(x, -1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "log_softmax 0": lambda x: x.log_softmax(0),
    "normalize": lambda x: functional.normalize(x, dim=-1),
    "cosine_similarity": lambda x: functional.cosine_similarity(x, x.flip(0), -1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
}


def _cases() -> list[Case]:
    floats = {
        "spoilt float32": spoilt(3, 5),
        "spoilt float64": spoilt(3, 5, dtype="float64", seed=3),
        "float16": image(3, 5, dtype="float16"),
    }
    values = {
        "NaN first": torch.tensor([[NAN, 1.0, 2.0], [1.0, NAN, NAN]]),
        "NaN last": torch.tensor([[2.0, 1.0, NAN], [INF, 3.0, NAN]]),
        "infinite": torch.tensor([[-INF, -INF, -INF], [-INF, INF, 0.0]]),
        "ties": torch.tensor([[1.0, 2.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0]]),
        "int64": image(3, 5, dtype="int64"),
        "int8": image(3, 5, dtype="int8"),
        "bfloat16": spoilt(3, 5, dtype="bfloat16"),
        "bool": image(3, 4, dtype="bool"),
        "ends of int32": torch.tensor([[2**31 - 1, -(2**31), 0], [-(2**31), -(2**31), -1]]).int(),
    }
    distinct = {
        "float32": image(3, 5),
        "float64": image(3, 5, dtype="float64"),
        "one NaN": torch.tensor([[0.5, NAN, 2.0], [-1.0, 3.0, NAN]]),
        "int64": torch.tensor([[3, 1, 2], [9, 8, -7]]),
    }
    integers = {f"{dtype}": image(3, 5, dtype=dtype) for dtype in ("int64", "int8", "bool")}
    odd = {name: value for name, value in shapes().items() if name not in ("0-d", "empty")}
    one = {"0-d": image(), "empty": image(0, 3)}
    whole = {name: function for name, function in SUMS.items() if " " not in name}
    kept = ("amax", "max -1", "argmax", "argmin -1", "sort", "topk", "sum", "mean", "softmax")
    every = {**EXTREMES, **ORDERED, **SUMS, **MEANS}
    return [
        *over("", EXTREMES, {**floats, **values}),
        *over("", ORDERED, {**floats, **values}),
        *over("", PLACES, distinct),
        *over("", SUMS, {**floats, **integers, "infinite": values["infinite"]}, error=256),
        *over("", MEANS, {**floats, "infinite": values["infinite"]}, error=4096),
        *over("", TOGETHER, {**distinct, "float16": floats["float16"]}, error=256),
        *over("", {name: every[name] for name in kept}, odd, error=256),
        *over("", {**whole, "mean": torch.mean, "var": torch.var}, one, error=256),
        *over("", {"cumsum 0": lambda x: x.cumsum(0), "sum 0": lambda x: x.sum(0)}, one),
        *over("", {"amax": lambda x: x.amax(-1), "sort": lambda x: x.sort(-1)[0]}, one),
    ]


CASES = _cases()
