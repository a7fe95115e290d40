"""Operators that compute each element by itself: of one tensor, two, or three."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from tests.networks.operators.case import NAN, Case, image, over, shapes, special

Functions = dict[str, Callable[..., Any]]

EXACT: Functions = {
    "abs": torch.abs,
    "neg": torch.neg,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "round": torch.round,
    "trunc": torch.trunc,
    "sign": torch.sign,
    "square": torch.square,
    "relu": torch.relu,
    "relu6": functional.relu6,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "logical_not": torch.logical_not,
    "clone": torch.clone,
    "nan_to_num": torch.nan_to_num,
    "positive": torch.positive,
    "signbit": torch.signbit,
    "frac": torch.frac,
}
SMOOTH: Functions = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "exp2": torch.exp2,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "tanh": torch.tanh,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "atan": torch.atan,
    "asin": torch.asin,
    "acos": torch.acos,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sigmoid": torch.sigmoid,
    "logsigmoid": functional.logsigmoid,
    "silu": functional.silu,
    "mish": functional.mish,
    "gelu tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "elu": functional.elu,
    "elu 0.3": lambda x: functional.elu(x, 0.3),
    "selu": functional.selu,
    "celu 2": lambda x: functional.celu(x, 2.0),
    "softplus": functional.softplus,
    "softplus beta": lambda x: functional.softplus(x, beta=2.0, threshold=3.0),
    "softsign": functional.softsign,
    "tanhshrink": functional.tanhshrink,
    "leaky_relu": functional.leaky_relu,
    "leaky_relu 2": lambda x: functional.leaky_relu(x, 2.0),
    "leaky_relu negative": lambda x: functional.leaky_relu(x, -0.5),
    "rrelu": functional.rrelu,
    "hardtanh": functional.hardtanh,
    "hardtanh ends": lambda x: functional.hardtanh(x, -0.5, 2.0),
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "hardshrink": functional.hardshrink,
    "softshrink": functional.softshrink,
    "threshold": lambda x: functional.threshold(x, 0.6, -3.0),
    "glu": lambda x: functional.glu(torch.cat([x, x])),
    "logit": lambda x: torch.logit(x, 0.1),
    "round decimals": lambda x: torch.round(x.clamp(-9, 9), decimals=1),
    "power 2": lambda x: x**2,
    "power 3": lambda x: x**3,
    "power 7": lambda x: x**7,
    "power 13 and 0.5": lambda x: (x**13, x.abs() ** 0.5),
    "power -1": lambda x: x**-1,
    "power -2": lambda x: x**-2,
    "power 0": lambda x: x**0,
    "power 0.5": lambda x: x**0.5,
    "power -0.5": lambda x: x**-0.5,
    "power 1.7": lambda x: x**1.7,
    "2 to the power": lambda x: 2**x,
}
BOUNDED: Functions = {
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    # Torch's own vectors give NaN for an infinite number, and other machines do not.
    "gelu": functional.gelu,
}
CLAMPS: Functions = {
    "clamp": lambda x: torch.clamp(x, -1, 1),
    "clamp crossed": lambda x: torch.clamp(x, min=1, max=-1),
    "clamp min": lambda x: torch.clamp(x, min=1),
    "clamp max": lambda x: torch.clamp(x, max=1),
    "clamp tensors": lambda x: torch.clamp(x, x * 0 - 1, x * 0 + 2),
    "clamp crossed tensors": lambda x: torch.clamp(x, torch.ones_like(x), -torch.ones_like(x)),
    "clamp min tensor": lambda x: x.clamp(min=torch.ones(())),
    "clip": lambda x: torch.clip(x, 0),
    "clamp_min": lambda x: torch.clamp_min(x, 1),
    "clamp_max": lambda x: torch.clamp_max(x, 1),
}
BINARY: Functions = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "max other": torch.max,
    "min other": torch.min,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "cat": lambda a, b: torch.cat([a.reshape(-1), b.reshape(-1)]),
    "where greater": lambda a, b: torch.where(a > b, a, b),
}
ARITHMETIC: Functions = {
    "div": torch.div,
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}
DISTANCES: Functions = {
    "pow": torch.pow,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "copysign": torch.copysign,
    "heaviside": torch.heaviside,
    "xlogy": torch.xlogy,
    "prelu": lambda a, b: functional.prelu(a.reshape(1, -1), b.reshape(-1)[:1]),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
}
SCALARS: Functions = {
    "add alpha": lambda x: torch.add(x, x, alpha=3),
    "add number alpha": lambda x: torch.add(x, 2, alpha=3),
    "sub alpha": lambda x: torch.sub(x, x * 2, alpha=3),
    "rsub alpha": lambda x: torch.rsub(x, x, alpha=2),
    "rsub number": lambda x: 5 - x,
    "mul number": lambda x: x * 3,
    "mul half": lambda x: x * 0.5,
    "div number": lambda x: x / 3,
    "div by number floor": lambda x: torch.div(x, 3, rounding_mode="floor"),
    "div by number trunc": lambda x: torch.div(x, 3, rounding_mode="trunc"),
    "div by -2 floor": lambda x: x // -2,
    "number div": lambda x: 3 / x,
    "remainder number": lambda x: x % 3,
    "remainder -3": lambda x: torch.remainder(x, -3),
    "fmod number": lambda x: torch.fmod(x, 3),
    "eq number": lambda x: x == 1,
    "ne number": lambda x: x != 1,
    "gt number": lambda x: x > 0.5,
    "le number": lambda x: x <= 1,
    "where number": lambda x: torch.where(x > 1, x, 0.5),
    "where numbers": lambda x: torch.where(x > 1, 2, 3),
    "minus itself": lambda x: x - x,
    "over itself": lambda x: x / x,
    "equals itself": lambda x: x == x,
    "differs from itself": lambda x: x != x,
    "at most itself": lambda x: x <= x,
    "times 0": lambda x: x * 0,
    "0 over it": lambda x: 0 / x,
    "itself plus 1 equals": lambda x: x + 1 == 1 + x,
    "maximum with a number": lambda x: torch.maximum(x, torch.tensor(1)),
    "masked_fill": lambda x: x.masked_fill(x > 1, 5),
}
BITS: Functions = {
    "bitwise_and": lambda x: x & 5,
    "bitwise_or": lambda x: x | 5,
    "bitwise_xor": lambda x: x ^ 5,
    "bitwise_not": lambda x: ~x,
    "and tensors": lambda x: x & x.flip(0),
    "or tensors": lambda x: x | x.flip(0),
    "xor tensors": lambda x: x ^ x.flip(0),
    "shift left": lambda x: x << 2,
    "shift right": lambda x: x >> 2,
    "shift left by each distance": lambda x: x[..., None] << torch.arange(-3, 70).to(x.dtype),
    "shift right by each distance": lambda x: x[..., None] >> torch.arange(-3, 70).to(x.dtype),
    "shifts by name": lambda x: torch.bitwise_left_shift(torch.bitwise_right_shift(x, x), 3),
}
THREE: Functions = {
    "addcmul": lambda x: torch.addcmul(x, x, x + 1, value=2),
    "addcdiv": lambda x: torch.addcdiv(x, x, x + 1.5, value=2),
}


def _pairs(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    values = special(dtype)
    return values[:, None], values[None, :]


def _broadcast() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    return {
        "[2, 1, 3] and [4, 1]": (image(2, 1, 3), image(4, 1, seed=3)),
        "0-d and [3]": (image(), image(3, seed=3)),
        "[0, 3] and [3]": (image(0, 3), image(3)),
        "float32 and float64": (image(2, 3), image(2, 3, dtype="float64", seed=3)),
        "int64 and float32": (image(2, 3, dtype="int64"), image(2, 3, seed=3)),
        "bool and int32": (image(2, 3, dtype="bool"), image(2, 3, dtype="int32", seed=3)),
        "float16 and float32 0-d": (image(2, 3, dtype="float16"), image(seed=3)),
    }


def _cases() -> list[Case]:
    numbers = {f"special {dtype}": special(dtype) for dtype in ("float32", "float64")}
    narrow = {f"special {dtype}": special(dtype) for dtype in ("float16", "bfloat16")}
    ints = {f"special {dtype}": special(dtype) for dtype in ("int64", "int8", "uint8")}
    flag = {"booleans": special("bool")}
    pairs = {f"special {dtype}": _pairs(dtype) for dtype in ("float32", "float16")}
    counted = {
        f"integers {dtype}": (image(4, 5, dtype=dtype), image(4, 5, dtype=dtype, seed=3))
        for dtype in ("int64", "int8", "uint8")
    }
    divided = {name: (a, torch.where(b == 0, 3, b).to(b.dtype)) for name, (a, b) in counted.items()}
    booleans = {"booleans": (special("bool")[:, None], special("bool"))}
    nan = torch.tensor([NAN, 0.0, -0.0, 3.0])
    odd = {**EXACT, **CLAMPS, "exp": torch.exp, "gelu": functional.gelu}
    inside = {"float32": image(4, 5), "float16": image(4, 5, dtype="float16"), "NaN": nan}
    return [
        *over("", EXACT, {**numbers, **narrow, **ints, **flag}, signed_zeros=True),
        *over("", SMOOTH, {**numbers, **narrow}),
        *over("", BOUNDED, inside),
        *over("", CLAMPS, {**numbers, **narrow, "special int64": special("int64")}),
        *over("", odd, shapes()),
        *over("", {name: SMOOTH[name] for name in ("exp", "sqrt", "sigmoid")}, {**ints, **flag}),
        *over("", BINARY, {**pairs, **counted, **booleans, **_broadcast()}),
        *over("", ARITHMETIC, {**pairs, **divided}),
        *over("", ARITHMETIC, _broadcast()),
        *over("", DISTANCES, pairs),
        *over("", SCALARS, {**numbers, "special int64": special("int64"), **flag}),
        *over("", BITS, {**ints, **flag}),
        *over("", THREE, {**numbers, "special int64": special("int64")}),
    ]


CASES = _cases()
