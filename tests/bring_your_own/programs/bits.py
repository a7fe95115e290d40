"""Bit tricks: hashes, checksums, packed numbers."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.script import tirx as T

from tests.bring_your_own.program import program


def _popcount(x):
    return np.bitwise_count(x).astype(np.uint16)


@program(_popcount, "uint16")
def popcount_uint16():
    x = te.placeholder((333,), "uint16", name="x")
    u = lambda value: tirx.const(value, "uint16")  # noqa: E731
    pairs = te.compute(x.shape, lambda i: x[i] - ((x[i] >> u(1)) & u(0x5555)), name="pairs")
    fours = te.compute(
        x.shape, lambda i: (pairs[i] & u(0x3333)) + ((pairs[i] >> u(2)) & u(0x3333)), name="fours"
    )
    bytes_ = te.compute(x.shape, lambda i: (fours[i] + (fours[i] >> u(4))) & u(0x0F0F), name="b")
    return [x, te.compute(x.shape, lambda i: (bytes_[i] + (bytes_[i] >> u(8))) & u(31), name="n")]


def _crc(crc, data):
    crc = crc ^ data
    for _ in range(8):
        crc = np.where(crc & 1, (crc >> 1) ^ np.uint32(0xEDB88320), crc >> 1)
    return crc


@program(
    _crc,
    "uint32",
    inputs=lambda rng: [
        rng.integers(0, 2**32, 257, dtype=np.uint32),
        rng.integers(0, 256, 257).astype("uint32"),
    ],
)
def crc_step_uint32():
    @T.prim_func(s_tir=True)
    def main(
        crc: T.Buffer((257,), "uint32"),
        data: T.Buffer((257,), "uint32"),
        out: T.Buffer((257,), "uint32"),
    ):
        for i in range(257):
            with T.sblock("start"):
                vi = T.axis.spatial(257, i)
                out[vi] = T.bitwise_xor(crc[vi], data[vi])
        for i, _step in T.grid(257, 8):
            with T.sblock("step"):
                vi = T.axis.spatial(257, i)
                out[vi] = T.Select(
                    T.bitwise_and(out[vi], T.uint32(1)) == T.uint32(1),
                    T.bitwise_xor(T.shift_right(out[vi], T.uint32(1)), T.uint32(0xEDB88320)),
                    T.shift_right(out[vi], T.uint32(1)),
                )

    return main


def _xorshift(x):
    x = x ^ (x << np.uint64(13))
    x = x ^ (x >> np.uint64(7))
    return x ^ (x << np.uint64(17))


@program(
    _xorshift,
    "uint64",
    inputs=lambda rng: [rng.integers(0, 2**64, 512, dtype=np.uint64)],
)
def xorshift_uint64():
    x = te.placeholder((512,), "uint64", name="x")
    u = lambda value: tirx.const(value, "uint64")  # noqa: E731
    a = te.compute(x.shape, lambda i: x[i] ^ (x[i] << u(13)), name="a")
    b = te.compute(x.shape, lambda i: a[i] ^ (a[i] >> u(7)), name="b")
    return [x, te.compute(x.shape, lambda i: b[i] ^ (b[i] << u(17)), name="c")]


def _interleave(x, y):
    out = np.zeros_like(x)
    for bit in range(10):
        out |= ((x >> bit) & 1) << (2 * bit)
        out |= ((y >> bit) & 1) << (2 * bit + 1)
    return out


@program(
    _interleave,
    "int64",
    inputs=lambda rng: [rng.integers(0, 1024, (20, 30)).astype("int64") for _ in range(2)],
)
def morton_code_int64():
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((20, 30), "int64"),
        y: T.Buffer((20, 30), "int64"),
        z: T.Buffer((20, 30), "int64"),
    ):
        for i, j, k in T.grid(20, 30, 10):
            with T.sblock("code"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    z[vi, vj] = T.int64(0)
                z[vi, vj] = (
                    z[vi, vj]
                    + ((x[vi, vj] >> T.int64(vk)) % T.int64(2) << T.int64(2 * vk))
                    + ((y[vi, vj] >> T.int64(vk)) % T.int64(2) << T.int64(2 * vk + 1))
                )

    return main


@program(lambda packed, x: _int4(packed).astype(np.float32) @ x)
def int4_weights_gemv():
    packed = te.placeholder((36, 40), "uint8", name="packed")
    x = te.placeholder((80,), name="x")

    def weight(i, j):
        shift = (te.indexmod(j, 2) * 4).astype("uint8")
        nibble = (packed[i, te.indexdiv(j, 2)] >> shift) & tirx.const(15, "uint8")
        return nibble.astype("int32") - 8

    weights = te.compute((36, 80), weight, name="weights")
    k = te.reduce_axis((0, 80), name="k")
    return [
        packed,
        x,
        te.compute(
            (36,), lambda i: te.sum(weights[i, k].astype("float32") * x[k], axis=k), name="y"
        ),
    ]


def _int4(packed):
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(36, 80).astype(np.int32) - 8
