"""Bit tricks and numbers in pairs: hashes, checksums, complex values, iterations."""

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


def _butterfly(x, w):
    even, odd = x[:, 0], x[:, 1]
    real = odd[..., 0] * w[:, 0] - odd[..., 1] * w[:, 1]
    imaginary = odd[..., 0] * w[:, 1] + odd[..., 1] * w[:, 0]
    turned = np.stack([real, imaginary], axis=-1)
    return np.stack([even + turned, even - turned], axis=1)


@program(_butterfly)
def fft_butterfly():
    x = te.placeholder((16, 2, 32, 2), name="x")
    w = te.placeholder((32, 2), name="w")
    real = te.compute(
        (16, 32), lambda i, k: x[i, 1, k, 0] * w[k, 0] - x[i, 1, k, 1] * w[k, 1], name="real"
    )
    imaginary = te.compute(
        (16, 32), lambda i, k: x[i, 1, k, 0] * w[k, 1] + x[i, 1, k, 1] * w[k, 0], name="imaginary"
    )

    def out(i, half, k, part):
        turned = tirx.Select(part == 0, real[i, k], imaginary[i, k])
        return x[i, 0, k, part] + tirx.Select(half == 0, turned, -turned)

    return [x, w, te.compute(x.shape, out, name="out")]


def _complex_product(ar, ai, br, bi):
    product = (ar + 1j * ai) @ (br + 1j * bi)
    return product.real, product.imag


@program(_complex_product)
def complex_matmul():
    ar, ai = (te.placeholder((18, 20), name=name) for name in ("ar", "ai"))
    br, bi = (te.placeholder((20, 22), name=name) for name in ("br", "bi"))
    k, m = te.reduce_axis((0, 20), name="k"), te.reduce_axis((0, 20), name="m")
    real = te.compute(
        (18, 22), lambda i, j: te.sum(ar[i, k] * br[k, j] - ai[i, k] * bi[k, j], axis=k), name="re"
    )
    imaginary = te.compute(
        (18, 22), lambda i, j: te.sum(ar[i, m] * bi[m, j] + ai[i, m] * br[m, j], axis=m), name="im"
    )
    return [ar, ai, br, bi, real, imaginary]


def _newton(x):
    y = np.full_like(x, 1.0)
    for _ in range(6):
        y = 0.5 * (y + x / y)
    return y


@program(_newton, inputs=lambda rng: [rng.uniform(0.2, 2.0, (25, 40)).astype("float32")])
def newton_square_root():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((25, 40), "float32"), y: T.Buffer((25, 40), "float32")):
        for i, j, step in T.grid(25, 40, 6):
            with T.sblock("newton"):
                vi, vj, vs = T.axis.remap("SSR", [i, j, step])
                with T.init():
                    y[vi, vj] = T.float32(1)
                y[vi, vj] = T.float32(0.5) * (y[vi, vj] + x[vi, vj] / y[vi, vj])

    return main


def _mandelbrot(cr, ci):
    z = np.zeros((24, 32), np.complex64)
    count = np.zeros((24, 32), np.int32)
    for _ in range(12):
        inside = z.real * z.real + z.imag * z.imag <= 4
        count += inside
        z = np.where(inside, z * z + (cr[None, :] + 1j * ci[:, None]), z)
    return count


@program(
    _mandelbrot,
    "int32",
    # Away from the border, where the last bit decides.
    inputs=lambda rng: [
        np.linspace(-2.03, 0.71, 32).astype("float32"),
        np.linspace(-1.21, 1.23, 24).astype("float32"),
    ],
)
def mandelbrot_twelve_steps():
    @T.prim_func(s_tir=True)
    def main(
        cr: T.Buffer((32,), "float32"),
        ci: T.Buffer((24,), "float32"),
        count: T.Buffer((24, 32), "int32"),
    ):
        zr = T.sblock_alloc_buffer((13, 24, 32), "float32")
        zi = T.sblock_alloc_buffer((13, 24, 32), "float32")
        for i, j in T.grid(24, 32):
            with T.sblock("start"):
                vi, vj = T.axis.remap("SS", [i, j])
                zr[0, vi, vj] = T.float32(0)
                zi[0, vi, vj] = T.float32(0)
        for n, i, j in T.grid(12, 24, 32):
            with T.sblock("step"):
                vi, vj = T.axis.remap("SS", [i, j])
                vn = T.axis.opaque(12, n)
                zr[vn + 1, vi, vj] = T.Select(
                    zr[vn, vi, vj] * zr[vn, vi, vj] + zi[vn, vi, vj] * zi[vn, vi, vj]
                    <= T.float32(4),
                    zr[vn, vi, vj] * zr[vn, vi, vj] - zi[vn, vi, vj] * zi[vn, vi, vj] + cr[vj],
                    zr[vn, vi, vj],
                )
                zi[vn + 1, vi, vj] = T.Select(
                    zr[vn, vi, vj] * zr[vn, vi, vj] + zi[vn, vi, vj] * zi[vn, vi, vj]
                    <= T.float32(4),
                    T.float32(2) * zr[vn, vi, vj] * zi[vn, vi, vj] + ci[vi],
                    zi[vn, vi, vj],
                )
        for i, j, n in T.grid(24, 32, 12):
            with T.sblock("count"):
                vi, vj, vn = T.axis.remap("SSR", [i, j, n])
                with T.init():
                    count[vi, vj] = 0
                count[vi, vj] = count[vi, vj] + T.Select(
                    zr[vn, vi, vj] * zr[vn, vi, vj] + zi[vn, vi, vj] * zi[vn, vi, vj]
                    <= T.float32(4),
                    1,
                    0,
                )

    return main
