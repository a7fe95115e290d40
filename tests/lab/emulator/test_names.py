"""Any name of a tensor or an axis: the generated code has its own."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import te

import schedlang as sl
from schedlang.targets.cuda import emulate, nvcc
from schedlang.tvm.codegen.cuda import own_name
from schedlang.tvm.codegen.cuda_source import cuda_source
from tests.lab.emulator.programs import needs_compiler
from tests.targets.cuda.compiled_together import resources_of
from tests.targets.odd_names import GROUPS

TARGET = sl.Target("cuda", arch="sm_80")


def sums(names: list[str]) -> sl.Schedule:
    """Inputs, intermediate results, axes and the result, all with these names, on threads."""
    inputs = [te.placeholder((32, 2), "float32", name=name) for name in names]
    axes = [te.reduce_axis((0, 2), name) for name in names]

    def row_sums(tensor: Any, axis: Any, name: str) -> Any:
        return te.compute((32,), lambda i: te.sum(tensor[i, axis], axis=axis), name=name)

    parts = [row_sums(*one) for one in zip(inputs, axes, names, strict=True)]

    def total(i: Any) -> Any:
        first, *others = [part[i] for part in parts]
        for other in others:
            first = first + other
        return first

    sch = sl.Schedule(sl.workloads.from_te([*inputs, te.compute((32,), total, name=names[0])]))
    *stages, last = sch.get_child_blocks(sch.get_block("root"))
    (loop,) = sch.get_loops(last)
    sch.bind(sch.add_unit_loop(loop), "blockIdx.x")
    sch.bind(loop, "threadIdx.x")
    for stage in reversed(stages):
        sch.compute_at(stage, loop)
        sch.set_scope(stage, 0, "local")
    return sch


def product(names: tuple[str, str, str]) -> sl.Schedule:
    """A product on tensor cores, through inline PTX."""
    a, b = (te.placeholder((16, 16), "float16", name=name) for name in names[:2])
    k = te.reduce_axis((0, 16), "k")
    c = te.compute(
        (16, 16),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name=names[2],
    )
    sch = sl.Schedule(sl.workloads.from_te([a, b, c]), seed=0)
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    sl.modules.UseTensorCore(via=["mma"], depths=[1])(sch, block)
    return sch


PRODUCTS = [("A", "B", "D"), ("B", "C", "A"), ("D", "A", "ABCD"), ("half", "min", "float4")]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("names", PRODUCTS, ids=" ".join)
def test_operands_of_inline_ptx(names: tuple[str, str, str]) -> None:
    sch = product(names)
    assert "mma.sync" in source(sch)
    found = emulate(sch, target=TARGET)
    assert found.verified is True, found.faults
    assert [arg.name for arg in sch.workload.args] == [*names]


@needs_compiler
@pytest.mark.parametrize("group", ["cuda", "odd"])
def test_tensors_and_axes(group: str) -> None:
    """The others are words of C++ only, which one compiler knows as well as another."""
    found = emulate(sums(GROUPS[group]), target=TARGET)
    assert found.verified is True, found.faults


@pytest.mark.skipif(nvcc.find() is None, reason="needs NVIDIA's compiler, nvcc")
def test_nvidias_compiler_takes_them() -> None:
    schedules = [*map(sums, GROUPS.values()), *map(product, PRODUCTS)]
    for resources in resources_of([source(sch) for sch in schedules], TARGET.arch):
        assert not isinstance(resources, nvcc.CompileError), resources
        assert resources


def test_a_name_is_a_word_of_c_without_the_letters_of_operands() -> None:
    for name in sum(GROUPS.values(), []):
        own = own_name(name)
        assert own.isascii() and own.isidentifier() and own == own.lower()


def source(sch: sl.Schedule) -> str:
    return cuda_source(sch.mod, TARGET.tvm_target()).text
