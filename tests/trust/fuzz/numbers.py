"""Element types, extents and values of random programs, and how exact their results are."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

_EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 23, 31, 32, 33, 48, 61, 64)
_FEWEST_BITS_THAT_MUST_NOT_OVERFLOW = 32


@dataclass(frozen=True)
class Types:
    """The type of the elements that are read, and that in which they are computed with."""

    read: str
    computed: str


TYPES = (
    Types("float32", "float32"),
    Types("float32", "float32"),
    Types("float64", "float64"),
    Types("float16", "float16"),
    Types("float16", "float32"),
    Types("bfloat16", "bfloat16"),
    Types("bfloat16", "float32"),
    Types("int8", "int32"),
    Types("uint8", "int32"),
    Types("int8", "int8"),
    Types("uint8", "uint8"),
    Types("int16", "int16"),
    Types("int16", "int64"),
    Types("uint16", "uint16"),
    Types("int32", "int32"),
    Types("uint32", "uint32"),
    Types("int64", "int64"),
    Types("uint64", "uint64"),
    Types("bool", "int32"),
)
FLOATS = tuple(types for types in TYPES if "float" in types.computed)
SIGNED = tuple(types for types in TYPES if not types.read.startswith(("u", "b")))


def extents(rng: random.Random, count: int, volume: int) -> list[int]:
    """Draw extents whose product is at most ``volume``: primes, ones and powers of two."""
    while True:
        drawn = [rng.choice(_EXTENTS) for _ in range(count)]
        if math.prod(drawn) <= volume:
            return drawn


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def draw(rng: np.random.Generator, shape: tuple[int, ...], types: Types, terms: int = 1) -> Array:
    """Draw values of the type that is read.

    Integers of 32 bits and more, where overflow is undefined, are so small that a sum of ``terms``
    products of two of them, or of one and three more, does not overflow; narrower ones wrap.
    """
    kind = np.dtype(types.read)
    if types.read == "bool":
        return rng.integers(0, 2, shape).astype(kind)
    if is_float(types.read):
        return np.asarray(rng.uniform(-1.0, 1.0, shape)).astype(kind)
    limits = np.iinfo(kind)
    low, high = int(limits.min), int(limits.max)
    bits = np.iinfo(np.dtype(types.computed)).bits
    if bits >= _FEWEST_BITS_THAT_MUST_NOT_OVERFLOW:
        most = math.isqrt((1 << (bits - 4)) // max(terms, 1))
        low, high = max(low, -most), min(high, most)
    return np.asarray(
        rng.integers(low, high, shape, dtype=np.int64 if low < 0 else np.uint64, endpoint=True)
    ).astype(kind)


def wide(value: Array) -> Array:
    """Return it as float64, or as integers of 64 bits, which wrap."""
    return value.astype(np.float64 if is_float(str(value.dtype)) else np.int64)


def wrapped(value: Array, kind: np.dtype[Any]) -> Array:
    """Wrap wide integers as the type ``kind`` does; leave floating-point numbers alone."""
    return value if value.dtype == np.float64 else value.astype(kind).astype(np.int64)


def slack(size: Array, dtype: str, terms: int, *, one_sign: bool = False) -> Array | None:
    """Return the largest errors of sums in ``dtype``; None for integers, which are exact.

    ``size`` is the sum of the terms' magnitudes. The rounding errors of n additions behave like a
    random walk: their sum is about sqrt(n) times that of one. Not so for terms of ``one_sign``
    whose sum is more than ``1 / epsilon`` times as large as one of them: the sum gets stuck, and
    the errors add up.
    """
    if not is_float(dtype):
        return None
    kind = ml_dtypes.finfo(np.dtype(dtype))
    steps = terms if one_sign and terms * float(kind.eps) > 1 else 4 + 2 * math.sqrt(terms)
    return float(kind.eps) * steps * size + float(kind.tiny)
