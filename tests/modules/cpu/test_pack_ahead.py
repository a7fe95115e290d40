"""``pack_ahead``: weights in the order of the tiles, in a copy that runs ahead of all calls."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx
from tvm.ir import IRModule
from tvm.tirx.function import IndexMap
from tvm_ffi import structural_walk

from schedlang import workloads
from schedlang.analysis import (
    LoopKind,
    buffer_shape,
    loop_kinds,
)
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.pack_ahead import pack_ahead
from schedlang.modules.cpu.register_tile import register_tile
from schedlang.modules.inlining import auto_inline
from schedlang.targets import CPUTarget
from schedlang.targets.cpu.target import cpu_space
from schedlang.tvm.packing import split_packing, with_weights
from schedlang.tvm.program import block_realizes, structurally_equal
from schedlang.workloads import from_prim_func, from_te
from schedlang.workloads.workload import Workload
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled
from tests.properties.programs import SMALL, assert_same_numbers, small

TILE = register_tile(lanes=8, registers=16)
SPACE = cpu_space(CPUTarget("cpu", cores=2, vector_bits=256))


def weighted(workload: Workload, *positions: int) -> Workload:
    return from_prim_func(with_weights(workload.func, positions), workload.name)


@functools.cache
def transposed_dense() -> Workload:
    x, w = te.placeholder((12, 24), name="X"), te.placeholder((16, 24), name="W")
    k = te.reduce_axis((0, 24), name="k")
    y = te.compute((12, 16), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="Y")
    return weighted(from_te([x, w, y]), 1)


@functools.cache
def flipped() -> Workload:
    """A transposed convolution that flips its weight in a block of its own, as TVM's does."""
    x, w = te.placeholder((4, 20), name="X"), te.placeholder((4, 8, 5), name="W")
    turned = te.compute((8, 4, 5), lambda o, i, k: w[i, o, 4 - k], name="turned")
    c, r = te.reduce_axis((0, 4), name="c"), te.reduce_axis((0, 5), name="r")
    y = te.compute(
        (8, 16), lambda o, v: te.sum(x[c, v + r] * turned[o, c, r], axis=[c, r]), name="Y"
    )
    return weighted(from_te([x, w, y]), 1)


@functools.cache
def scaled() -> Workload:
    """A product with a weight that is stored in half precision, with a scale."""
    x, w = te.placeholder((8, 16), name="X"), te.placeholder((16, 24), "float16", name="W")
    s = te.placeholder((24,), name="S")
    real = te.compute((16, 24), lambda k, j: w[k, j].astype("float32") * s[j], name="real")
    k = te.reduce_axis((0, 16), name="k")
    y = te.compute((8, 24), lambda i, j: te.sum(x[i, k] * real[k, j], axis=k), name="Y")
    return weighted(from_te([x, w, s, y]), 1, 2)


def operator(name: str) -> Workload:
    found = small(name)
    [place] = [k for k, arg in enumerate(found.args) if arg.name in ("weight", "B", "W")]
    return weighted(found, place)


CASES: dict[str, Any] = {
    "dense": lambda: weighted(workloads.matmul(12, 16, 24), 1),
    "transposed dense": transposed_dense,
    "flipped": flipped,
    "scaled": scaled,
    "a prime width": lambda: weighted(workloads.matmul(8, 13, 8), 1),
    **{
        name: functools.partial(operator, name)
        for name in SMALL
        if name in ("C1D", "C2D", "C3D", "DEP", "DIL", "GRP", "T2D", "CBR")
    },
}


def test_the_program_before_and_after(golden: Golden) -> None:
    sch = sampled(
        transposed_dense(),
        TILE,
        choices={"pack_ahead:Y:1": True},
        decisions={
            "register_tile_of:Y": (4, 8),
            "panel:Y:i": (3, 1),
            "panel:Y:j": (2, 1),
            "repeat:Y:k": (12, 2),
        },
    )
    assert_golden(golden, "pack_ahead", sch)
    assert_same_numbers(sch.mod, transposed_dense(), sch.trace)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_weights_are_packed_ahead_and_the_numbers_stay(case: str) -> None:
    workload = CASES[case]()
    packed = 0
    for seed in range(4):
        sch = SPACE.sample(workload, seed=seed)
        split = split_packing(sch.mod["main"])
        if split is None:
            continue
        packed += 1
        if packed == 1:
            assert_same_numbers(sch.mod, workload, sch.trace)
    assert packed >= 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", ["transposed dense", "C2D", "T2D", "flipped"])
def test_the_packed_tensor_is_read_from_front_to_back(case: str, seed: int) -> None:
    """The loops below a panel read consecutive elements, whatever the reduction's parts are."""
    sch = sampled(CASES[case](), auto_inline, TILE, seed=seed)
    block = sch.get_block(_reduction(sch))
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    kinds = loop_kinds(sch, sch.get_loops(block))
    below = [loop.loop_var for loop in loops[kinds.index(LoopKind.REDUCTION) :]]
    realize = next(one for one in block_realizes(sch.mod["main"]) if one.block.init is not None)
    [region] = [one for one in realize.block.reads if "reindex" in one.source.name]
    variables = [axis.var for axis in realize.block.iter_vars]
    index = IndexMap(variables, [part.min for part in region.region], None)
    indices = index.map_indices(realize.iter_values)
    moving = [loop for loop in loops if loop.loop_var in below and _depends(indices, loop.loop_var)]
    at = IndexMap([loop.loop_var for loop in loops], indices, None)
    shape = [int(extent) for extent in region.source.ty.shape]
    seen = []
    for step in itertools.product(*(range(int(loop.extent)) for loop in moving)):
        values = dict.fromkeys((loop.loop_var for loop in loops), 0)
        values |= zip((loop.loop_var for loop in moving), step, strict=True)
        place = at.map_indices([tirx.IntImm("int32", value) for value in values.values()])
        seen.append(int(np.ravel_multi_index([int(one) for one in place], shape)))
    assert seen == list(range(seen[0], seen[0] + len(seen)))


def test_packing_ahead_is_a_choice() -> None:
    sch = sampled(transposed_dense(), TILE, choices={"pack_ahead:Y:1": False})
    assert split_packing(sch.mod["main"]) is None
    assert "pack:Y:1" not in sch.trace.choices
    again = sampled(transposed_dense(), TILE, choices={"pack_ahead:Y:1": True})
    assert split_packing(again.mod["main"]) is not None


def test_a_copy_that_runs_ahead_stays_at_the_root() -> None:
    for seed in range(8):
        sch = SPACE.sample(flipped(), seed=seed)
        assert not any(site.startswith("location:W") for site in sch.trace.decisions)
        split = split_packing(sch.mod["main"])
        assert split is None or all(one.weights == (1,) for one in split.packings)


def test_a_cast_of_weights_runs_ahead() -> None:
    assert_not_applicable(
        auto_inline, scaled(), "real", "computes from weights, ahead of all calls"
    )
    sch = sampled(scaled(), auto_inline(weights_ahead=False))
    assert "real" not in [str(node.block.name_hint) for node in block_realizes(sch.mod["main"])]


def test_it_is_written_for_tvm() -> None:
    choices = {"register_tile:Y": True, "pack_ahead:Y:1": True}
    sch = SPACE.sample(transposed_dense(), choices=choices, seed=2)
    made = Schedule(transposed_dense()).raw
    sch.trace.to_tvm_trace(strict=True).apply_to_schedule(made, remove_postproc=False)
    assert structurally_equal(made.mod, sch.mod)


def test_without_weights_the_proposals_are_those_of_before() -> None:
    plain = from_prim_func(transposed_dense().func.without_attr("layout_free_buffers"), "plain")
    sch = SPACE.sample(plain, seed=0)
    assert not any("ahead" in site for site in sch.trace.choices)


def test_a_weight_that_is_read_at_two_places_stays() -> None:
    x, w = te.placeholder((8, 16), name="X"), te.placeholder((16, 16), name="W")
    k = te.reduce_axis((0, 16), name="k")
    y = te.compute((8, 16), lambda i, j: te.sum(x[i, k] * (w[k, j] + w[j, k]), axis=k), name="Y")
    workload = weighted(from_te([x, w, y]), 1)
    sch = sampled(workload, TILE)
    assert "pack_ahead" not in str(sch.trace)
    assert_same_numbers(sch.mod, workload, sch.trace)


def test_the_instruction_on_its_own() -> None:
    """Parts that do not divide their extents count as 1; any operand will do."""
    sch = Schedule(workloads.matmul(8, 12, 6))
    pack_ahead(sch, sch.get_block("C"), 0, [0, 2, 1], [4, 5, 3])
    assert buffer_shape(sch, sch.get_block("C"), "read", 0) == (2, 2, 3, 4)
    pack_ahead(sch, sch.get_block("C"), 1, [0, 2, 1], [4, 5, 3])
    assert buffer_shape(sch, sch.get_block("C"), "read", 1) == (12, 2, 3)
    assert_same_numbers(sch.mod, sch.workload, sch.trace)


def test_an_element_that_steps_share_is_packed_once() -> None:
    """Two weights of 4 bits in a byte, and a scale for 8 of them, in tiles of 3 columns."""
    workload = workloads.quantized_matmul(4, 12, 32, group=8)
    sch = Schedule(workload)
    block = sch.get_block("C")
    for index, shape in ((1, (4, 4, 4, 3)), (2, (4, 4, 3))):
        pack_ahead(sch, block, index, [0, 1, 2], [2, 3, 8])
        assert buffer_shape(sch, sch.get_block("C"), "read", index) == shape
    assert_same_numbers(sch.mod, workload, sch.trace)
    split = split_packing(sch.mod["main"])
    assert split is not None
    assert [one.shape for one in split.packings] == [(4, 4, 4, 3), (4, 4, 3)]


def test_low_bit_weights_are_packed_ahead_and_keep_their_size() -> None:
    workload = workloads.quantized_matmul(2, 64, 96, group=32, zero_points=True)
    packed = 0
    for seed in range(6):
        sch = SPACE.sample(workload, seed=seed)
        split = split_packing(sch.mod["main"])
        for one in () if split is None else split.packings:
            packed += 1
            [weight] = one.weights
            assert math.prod(one.shape) == math.prod(workload.args[weight].shape)
        assert_same_numbers(sch.mod, workload, sch.trace)
    assert packed >= 6


def test_large_weights_are_read_by_all_rows_before_the_next_part() -> None:
    workload = weighted(workloads.matmul(64, 64, 64), 1)

    def most_probable(cache_bytes: int) -> tuple[Any, Any]:
        module = register_tile(lanes=8, registers=16, cache_bytes=cache_bytes)
        sch = sampled(workload, module, decisions={"register_tile_of:C": (4, 16)})
        panels = (sch.trace.distributions[f"panel:C:{axis}"] for axis in "ij")
        return tuple(panel.origin() for panel in panels)

    assert most_probable(cache_bytes=1024) == ((1, 16), (4, 1))
    plain = from_prim_func(workload.func.without_attr("layout_free_buffers"), "plain")
    one, other = (
        sampled(one, TILE, seed=3).trace.distributions["panel:C:i"] for one in (workload, plain)
    )
    assert one == other


def test_an_estimate_leaves_out_what_runs_ahead() -> None:
    target = CPUTarget("cpu", cores=2, vector_bits=256)
    workload = weighted(workloads.matmul(4, 64, 64), 1)
    sch = sampled(workload, TILE, choices={"pack_ahead:C:1": True})
    plain = sch.mod["main"].without_attr("layout_free_buffers")
    assert target.estimate(sch.mod) < 0.9 * target.estimate(IRModule({"main": plain}))


def _depends(indices: Any, var: Any) -> bool:
    found: list[Any] = []
    for index in indices:
        structural_walk(index, (tirx.Var, found.append))
    return any(one.same_as(var) for one in found)


def _reduction(sch: Schedule) -> str:
    [name] = [
        str(node.block.name_hint)
        for node in block_realizes(sch.mod["main"])
        if node.block.init is not None
    ]
    return name
