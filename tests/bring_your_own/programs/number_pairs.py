"""Complex values, which are pairs of numbers, and iterations."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.script import tirx as T

from tests.bring_your_own.program import program


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
