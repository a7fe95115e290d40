"""The default space on convolutions whose reductions are one step long, against numpy.

There a vectorised loop of a register tile is inside no reduction, so a producer could be computed
in it, which TVM 0.27 compiles wrongly. The seeds are some that did so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx
from tvm_ffi import structural_walk

from schedlang.targets import CPUTarget
from schedlang.targets.cpu.target import cpu_space
from schedlang.workloads import from_te
from schedlang.workloads.workload import Workload
from tests.properties.programs import Array, inputs, run

SPACE = cpu_space(CPUTarget("cpu", cores=2, vector_bits=512))
HEIGHT, WIDTH, CHANNELS = 13, 11, 8


def padded(x: Any, padding: int) -> Any:
    """Add rows and columns of zeros to (channels, height, width)."""
    channels, height, width = (int(extent) for extent in x.shape)
    return te.compute(
        (channels, height + 2 * padding, width + 2 * padding),
        lambda c, i, j: te.if_then_else(
            te.all(i >= padding, i < height + padding, j >= padding, j < width + padding),
            x[c, i - padding, j - padding],
            0.0,
        ),
        "padded",
    )


def pointwise(stride: int, padding: int) -> Workload:
    """One channel to 8, kernel 1."""
    x, w = te.placeholder((1, HEIGHT, WIDTH), name="x"), te.placeholder((CHANNELS, 1), name="w")
    source, k = padded(x, padding), te.reduce_axis((0, 1), "k")
    shape = [-(-(extent + 2 * padding) // stride) for extent in (HEIGHT, WIDTH)]
    y = te.compute(
        (CHANNELS, *shape),
        lambda c, i, j: te.sum(source[k, i * stride, j * stride] * w[c, k], k),
        "y",
    )
    return from_te([x, w, y])


def pointwise_in_numpy(x: Array, w: Array, stride: int, padding: int) -> Array:
    rows = np.pad(x[0], padding)[::stride, ::stride]
    return np.einsum("ij,c->cij", rows, w[:, 0])


def depthwise(stride: int, padding: int) -> Workload:
    """A factor for each of 8 channels."""
    x = te.placeholder((CHANNELS, HEIGHT, WIDTH), name="x")
    w = te.placeholder((CHANNELS, 1), name="w")
    source, k = padded(x, padding), te.reduce_axis((0, 1), "k")
    shape = [-(-(extent + 2 * padding) // stride) for extent in (HEIGHT, WIDTH)]
    y = te.compute(
        (CHANNELS, *shape),
        lambda c, i, j: te.sum(source[c, i * stride + k, j * stride] * w[c, k], k),
        "y",
    )
    return from_te([x, w, y])


def depthwise_in_numpy(x: Array, w: Array, stride: int, padding: int) -> Array:
    planes = np.pad(x, [(0, 0), (padding, padding), (padding, padding)])
    return planes[:, ::stride, ::stride] * w[:, :, None]


def channels_last(stride: int, padding: int) -> Workload:
    """One channel to 8, kernel 1; the weights may be packed."""
    x, w = te.placeholder((1, HEIGHT, WIDTH), name="x"), te.placeholder((CHANNELS, 1), name="w")
    source, k = padded(x, padding), te.reduce_axis((0, 1), "k")
    shape = [-(-(extent + 2 * padding) // stride) for extent in (HEIGHT, WIDTH)]
    y = te.compute(
        (*shape, CHANNELS),
        lambda i, j, c: te.sum(source[k, i * stride, j * stride] * w[c, k], k),
        "y",
    )
    return from_te([x, w, y])


def channels_last_in_numpy(x: Array, w: Array, stride: int, padding: int) -> Array:
    return np.moveaxis(pointwise_in_numpy(x, w, stride, padding), 0, -1)


Make = Callable[[int, int], Workload]
Compute = Callable[[Array, Array, int, int], Array]
CASES: dict[str, tuple[Make, Compute, int, int, tuple[int, ...]]] = {
    "pointwise": (pointwise, pointwise_in_numpy, 2, 2, (5, 19, 33, 35)),
    "dense": (pointwise, pointwise_in_numpy, 1, 1, (29, 48, 51, 52)),
    "depthwise": (depthwise, depthwise_in_numpy, 1, 1, (34, 57)),
    "apart": (depthwise, depthwise_in_numpy, 3, 2, (5, 19, 35)),
    "packed": (channels_last, channels_last_in_numpy, 1, 1, (4, 8, 9, 33)),
}


@functools.cache
def workload(name: str) -> Workload:
    make, _, stride, padding, _ = CASES[name]
    return make(stride, padding)


def shared_vectors(mod: Any) -> list[str]:
    """Return the vectorised loops around several blocks."""
    found: list[str] = []

    def note(loop: Any) -> None:
        several: list[Any] = []
        structural_walk(loop.body, (tirx.SeqStmt, several.append))
        if several and int(loop.kind) == tirx.ForKind.VECTORIZED:
            found.append(str(loop.loop_var.name))

    structural_walk(mod["main"].body, (tirx.For, note))
    return found


def test_no_producer_is_computed_in_a_vectorised_loop() -> None:
    for seed in range(40):
        sch = SPACE.sample(workload("pointwise"), seed=seed)
        assert not shared_vectors(sch.mod), sch.trace


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_numpy(name: str) -> None:
    _, compute, stride, padding, seeds = CASES[name]
    x, w, _ = inputs(workload(name))
    assert x is not None and w is not None
    expected = compute(x, w, stride, padding)
    for seed in seeds:
        sch = SPACE.sample(workload(name), seed=seed, decisions={"unroll": 16})
        (found,) = run(sch.mod, workload(name))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=str(sch.trace))
