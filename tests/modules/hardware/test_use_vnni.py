"""``UseVNNI``: the program, its machine code, exact sums, and where it has nothing to do."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from tvm import te

import schedlang as sl
from schedlang.analysis.intrinsics import host_features
from schedlang.modules.cpu.dot_products import UseVNNI, dot_tile
from tests.modules.dot_products import (
    Array,
    assert_in_registers,
    assert_right_numbers,
    machine_code,
    product,
)
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled

DTYPES = ("uint8", "int8", "int32")
FEATURES = frozenset({"avx512vnni"})
needs_vnni = pytest.mark.skipif(
    "avx512vnni" not in host_features(), reason="this CPU has no AVX-512 VNNI"
)
use_vnni = UseVNNI(features=FEATURES)


@functools.cache
def small() -> sl.Workload:
    return product(16, 64, 32, DTYPES)


def test_the_program_before_and_after(golden: Golden) -> None:
    decisions = {"registers:C_o": (4, 2), "rows:C_o": (2, 2), "vectors:C_o": (2, 1)}
    assert_golden(golden, "use_vnni", sampled(small(), use_vnni, decisions=decisions))


@pytest.mark.parametrize("tile", [(8, 2), (4, 4), (16, 1)], ids=str)
def test_accumulators_stay_in_registers(tile: tuple[int, int]) -> None:
    sch = sampled(product(64, 128, 64, DTYPES), use_vnni, decisions={"registers:C_o": tile})
    assert_in_registers(machine_code(sch.mod), "vpdpbusd", tile[0] * tile[1])


def test_four_bytes_are_spread_from_memory() -> None:
    sch = sampled(product(64, 128, 64, DTYPES), use_vnni, decisions={"registers:C_o": (8, 2)})
    assert re.search(r"vpbroadcastd\s+[-\d]*\(.*, %zmm", machine_code(sch.mod))


@needs_vnni
@pytest.mark.parametrize("layout", ["kj", "jk", "packed"])
@pytest.mark.parametrize("batch", [0, 3])
def test_the_numbers(layout: str, batch: int) -> None:
    for seed in range(2):
        assert_right_numbers(
            sampled(product(24, 48, 40, DTYPES, layout, batch), use_vnni, seed=seed)
        )


@needs_vnni
def test_a_convolution_of_channels_is_one_too() -> None:
    x = te.placeholder((2, 8, 8, 16), "uint8", "X")
    w = te.placeholder((3, 3, 16, 32), "int8", "W")
    kh, kw = te.reduce_axis((0, 3), "kh"), te.reduce_axis((0, 3), "kw")
    c = te.reduce_axis((0, 16), "c")
    y = te.compute(
        (2, 6, 6, 32),
        lambda n, h, v, o: te.sum(
            x[n, h + kh, v + kw, c].astype("int32") * w[kh, kw, c, o].astype("int32"), [kh, kw, c]
        ),
        "Y",
    )
    for seed in range(2):
        sch = sampled(sl.workloads.from_te([x, w, y]), use_vnni, seed=seed)
        assert "vpdpbusd" in sch.mod.script()
        assert_right_numbers(sch)


@needs_vnni
@pytest.mark.parametrize(("a", "b"), [(255, 127), (255, -128)])
def test_the_largest_sums_are_exact(a: int, b: int) -> None:
    """Four products of 255 x 127 are beyond 16 bits, where other instructions saturate."""

    def fill(given: list[Array]) -> None:
        given[0][...], given[1][...] = a, b

    sch = sampled(product(16, 64, 512, DTYPES), use_vnni)
    assert_right_numbers(sch, fill)
    arrays = [np.full((16, 512), a, "uint8"), np.full((512, 64), b, "int8")]
    out = np.zeros((16, 64), "int32")
    sl.targets.build_callable(sch.mod)(*arrays, out)
    assert (out == a * b * 512).all()


def test_an_operand_with_a_layout_of_its_own_is_not_copied() -> None:
    packed = sampled(product(16, 64, 32, DTYPES, "packed"), use_vnni)
    assert "B_global" not in packed.mod.script()
    assert "vpdpbusd" in packed.mod.script()


@needs_vnni
def test_one_line_composes_it_with_the_default_space() -> None:
    space = sl.default_space("cpu").after("auto_inline", UseVNNI())
    for seed in range(3):
        sch = space.sample(small(), seed=seed)
        assert "vpdpbusd" in sch.mod.script()
        assert_right_numbers(sch)
    plain = sl.workloads.matmul(16, 64, 32)
    assert "use_vnni" not in str(space.sample(plain, seed=0).trace)


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (product(16, 64, 32, ("int8", "int8", "int32")), "int8 x int8 -> int32, not uint8 x int8"),
        (product(16, 64, 32, ("uint8", "int8", "float32")), "int8 -> float32, not uint8 x int8"),
        (product(16, 40, 32, DTYPES), "40 columns are no multiple of 16"),
        (product(16, 64, 30, DTYPES), "30 steps are no multiple of 4"),
        (sl.workloads.SFM(4, 8), "it is no sum of products"),
    ],
)
def test_where_it_has_nothing_to_do(workload: sl.Workload, reason: str) -> None:
    block = "C" if "C" in str(workload.script()) else "row_max"
    assert_not_applicable(use_vnni, workload, block, reason)


def test_a_scheduled_block_stays() -> None:
    sch = sl.Schedule(small())
    sch.split(sch.get_loops("C")[0], [None, 4])
    with pytest.raises(sl.NotApplicable, match="it is scheduled already"):
        use_vnni(sch, sch.get_block("C"))


def test_another_cpu_is_not_applicable() -> None:
    assert_not_applicable(UseVNNI(features={"avx2"}), small(), "C", "the CPU has no avx512vnni")


def test_the_user_of_a_machine_without_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedlang.modules.cpu.dot_products.host_features", frozenset)
    with pytest.warns(UserWarning, match="this machine's CPU has no avx512vnni"):
        sch = sampled(small(), UseVNNI())
    assert not sch.trace.decisions


def test_features_are_a_set_of_names() -> None:
    with pytest.raises(sl.SpaceError, match=r"UseVNNI\(features='avx512vnni'\): give a set"):
        sampled(small(), UseVNNI(features="avx512vnni"))


def test_a_tile_needs_lanes_and_registers() -> None:
    with pytest.raises(sl.SpaceError, match=r"dot_tile\(registers=0\): it takes an integer"):
        sampled(small(), dot_tile(registers=0))
