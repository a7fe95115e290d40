from __future__ import annotations

import json
import math
from typing import Any

import pytest

import schedlang as sl
from schedlang.analysis import condition_strides
from schedlang.distributions import RegisterTile
from schedlang.errors import SpaceError
from schedlang.modules.cpu.finish import parallel_vectorize_unroll
from schedlang.modules.cpu.pack_ahead import pack_read
from schedlang.modules.cpu.register_tile import register_tile
from schedlang.modules.inlining import auto_inline
from schedlang.targets import LocalCPU
from schedlang.workloads import from_script
from tests.language.primitives.test_golden import script
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled

PLAIN = {"pack:C:0": False, "pack:C:1": False, "panel_order:C": "rows"}
TILED = {
    "register_tile_of:C": (4, 32),
    "panel:C:i": (2, 2),
    "panel:C:j": (1, 2),
    "repeat:C:k": (8, 2),
}


def product(k: int = 16) -> sl.Workload:
    return sl.workloads.matmul(16, 64, k)


def test_a_product(golden: Golden) -> None:
    sch = sampled(product(), register_tile(lanes=16), choices=PLAIN, decisions=TILED)
    assert_golden(golden, "register_tile", sch)


def test_packed_operands(golden: Golden) -> None:
    choices = {"pack:C:0": True, "pack:C:1": True, "panel_order:C": "columns"}
    sch = sampled(product(), register_tile(lanes=16), choices=choices, decisions=TILED)
    assert_golden(golden, "register_tile_packed", sch)


def test_an_elementwise_consumer_takes_the_place_of_the_cache() -> None:
    workload = sl.workloads.CBR(8, 8, 4, 32, 3, 1, 1)
    sch = sampled(workload, auto_inline, register_tile(lanes=16))
    assert "conv2d_global" not in script(sch.mod)


def test_a_large_operand_is_more_likely_packed() -> None:
    def prior(cache_bytes: int) -> str:
        sch = sampled(product(), register_tile(cache_bytes=cache_bytes))
        return next(line for line in str(sch.trace).splitlines() if "pack:C:1" in line)

    assert "0.05]" in prior(1 << 20) and "0.5]" in prior(1 << 8)


def test_packing_keeps_what_is_not_tiled_in_order() -> None:
    sch = sl.Schedule(product(), seed=0)
    pack_read(sch, sch.get_block("C"), 1, [1, 16], [False, True])
    text = script(sch.mod)
    assert "B_global = T.sblock_alloc_buffer((4, 16, 16))" in text
    assert "T.vectorized(16)" in text


SMALL = [
    product(),
    sl.workloads.matmul(7, 13, 5),
    sl.workloads.TBG(16, 2, 16),
    sl.workloads.C2D(8, 8, 4, 32, 3, 1, 1),
    sl.workloads.C2D(11, 11, 4, 32, 1, 1, 0),
    sl.workloads.DEP(8, 8, 32, 3, 2, 1),
    sl.workloads.T2D(4, 4, 8, 32, 4, 2, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("workload", SMALL, ids=lambda w: f"{w.name}{w.args[-1].shape}")
def test_samples_compute_the_same(workload: sl.Workload) -> None:
    """Each sketch once, compared with the unscheduled program."""
    space = sl.Space([register_tile(lanes=16, registers=32), parallel_vectorize_unroll(cores=2)])
    candidates = [
        sl.Candidate(number, space.sample(workload, seed=number).mod) for number in range(8)
    ]
    with LocalCPU(workload, "cpu", verify="all") as measurer:
        measured = list(measurer.measure(candidates))
    assert [m.status for m in measured] == ["ok"] * len(candidates), [m.message for m in measured]


@pytest.mark.parametrize(
    ("workload", "block", "reason"),
    [
        (sl.workloads.SFM(16, 16), "exponent", "no single-output reduction"),
        (sl.workloads.SFM(16, 16), "row_sum", "no data are used twice"),
    ],
)
def test_where_it_does_not_apply(workload: sl.Workload, block: str, reason: str) -> None:
    assert_not_applicable(register_tile, workload, block, reason)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lanes": 0}, r"register_tile\(lanes=0\): it takes an integer of at least 1"),
        ({"registers": -1}, r"register_tile\(registers=-1\): it takes an integer of at least 1"),
        ({"prob": 0.0}, r"register_tile\(prob=0.0\): give more than 0 and at most 1"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    sch = sl.Schedule(product(), seed=0)
    with pytest.raises(SpaceError, match=message):
        register_tile(**options)(sch, sch.get_block("C"))


def test_it_can_leave_the_block_to_others() -> None:
    choices = {"register_tile:C": False}
    sch = sampled(product(), register_tile(prob=0.5), choices=choices)
    assert script(sch.mod) == script(product().mod)


def test_a_transposed_convolution_is_tiled_so_that_its_conditions_are_known() -> None:
    """The value is 0 unless (h + rh) % 2 == 0: both loops are unrolled by multiples of 2."""
    workload = sl.workloads.T2D(4, 4, 8, 32, 4, 2, 1)
    tiled = sl.Schedule(workload, seed=0)
    block = tiled.get_block("conv2d_transpose")
    assert condition_strides(tiled, block) == [1, 2, 2, 1, 2, 2, 1]
    sch = sampled(workload, register_tile(lanes=16, registers=32))
    tile = sch.trace.distributions["register_tile_of:conv2d_transpose"]
    assert isinstance(tile, RegisterTile) and tile.strides == (1, 2, 2, 1)
    repeat = sch.trace.distributions["repeat:conv2d_transpose:rh"]
    likely = {decision: repeat.log_prob(decision) for decision in repeat.support()}
    assert likely[2, 2] == likely[1, 4] > likely[4, 1] + math.log(1.9)


def test_where_no_condition_is_strided_nothing_is() -> None:
    sch = sampled(product(), register_tile(lanes=16), choices=PLAIN, decisions=TILED)
    tile = sch.trace.distributions["register_tile_of:C"]
    assert isinstance(tile, RegisterTile) and tile.strides == ()
    padded = sl.Schedule(sl.workloads.CBR(8, 8, 4, 32, 3, 1, 1), seed=0)
    assert condition_strides(padded, padded.get_block("conv2d")) == [1] * 7


def conditional(value: str) -> list[int]:
    """Strides of a sum over ``k`` of what a condition on ``i`` and ``k`` leaves."""
    script = f"""
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16,), "float32")):
    T.func_attr({{"tirx.noalias": True}})
    for i, k in T.grid(16, 16):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + {value}
"""
    sch = sl.Schedule(from_script(script), seed=0)
    return condition_strides(sch, sch.get_block("C"))


@pytest.mark.parametrize(
    ("condition", "strides"),
    [
        ("(vi + vk) % 3 == 0", [3, 3]),
        ("(vi + vk) % 2 == 0 and vi < 12", [2, 2]),
        ("0 == (4 * vi + vk) % 6", [3, 6]),
        ("vi % 2 == 0 and (vi + vk) % 3 == 1", [6, 3]),
        ("(vi % 4) < 3", [1, 1]),
        ("vi % 2 == 0 or vk % 2 == 0", [1, 1]),
        ("1 <= (vi // 3) % 3 + vk", [1, 1]),
        ("(vi * vk) % 2 == 0", [1, 1]),
        ("vi < 12", [1, 1]),
    ],
)
def test_strides_are_those_of_equations_without_which_the_value_is_zero(
    condition: str, strides: list[int]
) -> None:
    assert conditional(f"T.if_then_else({condition}, A[vi, vk], T.float32(0))") == strides
    assert conditional(f"T.if_then_else({condition}, A[vi, vk], T.float32(1))") == [1, 1]
    assert conditional(f"T.Select({condition}, A[vi, vk], T.float32(0))") == strides


def test_a_trace_from_before_strides_still_loads() -> None:
    trace = sampled(product(), register_tile(lanes=16), choices=PLAIN, decisions=TILED).trace
    stored = json.loads(trace.to_json())
    taken = [
        part.pop("strides", None)
        for instruction in stored["instructions"]
        for part in (instruction["args"], instruction.get("distribution", {}))
        if instruction["kind"] == "sample_register_tile"
    ]
    assert len(taken) == 2
    loaded = sl.Trace.from_json(json.dumps(stored), product())
    assert loaded == trace and loaded.replay().trace == trace


def test_the_repeated_part_covers_steps_that_share_an_element() -> None:
    """Two weights are in a byte; the scale of 64 of them is longer than a repeated part."""
    workload = sl.workloads.quantized_matmul(4, 32, 512, group=64)
    repeat = sampled(workload, register_tile).trace.distributions["repeat:C:k"]
    likely = {decision: repeat.log_prob(decision) for decision in repeat.support()}
    assert likely[256, 2] == likely[128, 4] == likely[64, 8] > likely[512, 1] + math.log(1.9)
