"""What goes out to TVM: its draws with their decisions, numbers for drawn values, no dicts."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import te
from tvm.s_tir import Schedule as TVMSchedule
from tvm.s_tir.schedule import Trace as TVMTrace

import schedlang as sl
from schedlang.modules import UseVNNI, random_compute_location
from schedlang.tvm.program import structurally_equal
from tests.language.primitives.programs import chain, elementwise, matmul

WORKLOAD = sl.workloads.matmul(30, 30, 30)


@sl.module(at="root")
def pad_by_a_draw(sch: sl.Schedule) -> None:
    """Pads every axis of the matmul to a multiple of a drawn number."""
    block = sch.get_block("C")
    multiple = sch.sample_categorical([8, 16], [0.5, 0.5])
    sch.pad_einsum(block, [multiple, multiple, multiple])


def made_by(trace: Any, workload: sl.Workload) -> Any:
    """Return the program that a trace of TVM makes."""
    theirs = TVMSchedule(workload.mod)
    trace.apply_to_schedule(theirs, remove_postproc=False)
    return theirs.mod


def test_drawn_values_become_numbers() -> None:
    for seed in range(3):
        sch = sl.Space([pad_by_a_draw]).sample(WORKLOAD, seed=seed)
        assert structurally_equal(made_by(sch.trace.to_tvm_trace(), WORKLOAD), sch.mod)
        scope: dict[str, object] = {}
        exec(sch.trace.as_tvm_python(), scope)
        assert structurally_equal(scope["sch"].mod, sch.mod)  # type: ignore[attr-defined]


@pytest.mark.parametrize("location", [-2, -1, 0, 1])
def test_each_drawn_location_stays_a_draw(location: int) -> None:
    space = sl.Space([random_compute_location])
    sch = space.sample(chain(), decisions={"location:B": location})
    trace = sch.trace.to_tvm_trace()
    assert [int(decision) for decision in trace.decisions.values()] == [location]
    kinds = [str(one.kind.name) for one in trace.insts]
    assert kinds[-2:] == ["SampleComputeLocation", "ComputeAt"]
    assert structurally_equal(made_by(trace, chain()), sch.mod)


def test_a_location_that_tvm_would_replace_is_no_draw_there() -> None:
    """TVM draws only locations at which it can compute the block."""
    sch = sl.Schedule(matmul())
    init = sch.decompose_reduction("C", sch.get_loops("C")[0])
    sch.sample_compute_location(init, decision=0)
    sch.unroll(sch.get_loops(init)[0])
    trace = sch.trace.to_tvm_trace(strict=True)
    assert not trace.decisions
    assert structurally_equal(made_by(trace, matmul()), sch.mod)


def test_locations_are_drawn_after_tensorize_too() -> None:
    x, w = te.placeholder((16, 32), "uint8", "X"), te.placeholder((32, 64), "int8", "W")
    zero = te.const(0, "uint8")
    padded = te.compute((16, 32), lambda i, k: te.if_then_else(k >= 2, x[i, k - 2], zero), "padded")
    r = te.reduce_axis((0, 32), "r")

    def dot(i: Any, j: Any) -> Any:
        return te.sum(padded[i, r].astype("int32") * w[r, j].astype("int32"), r)

    product = te.compute((16, 64), dot, "C")
    workload = sl.workloads.from_te([x, w, product])
    vnni = UseVNNI(features=frozenset({"avx512vnni"}))
    space = sl.default_space("cpu").after("auto_inline", vnni)
    for location in (-1, 0):
        sch = space.sample(workload, seed=3, decisions={"location:padded": location})
        assert "tensorize" in str(sch.trace)
        trace = sch.trace.to_tvm_trace(strict=True)
        drawn = [one for one in trace.insts if one.kind.name == "SampleComputeLocation"]
        assert [int(trace.get_decision(one)) for one in drawn] == [location]
        assert structurally_equal(made_by(trace, workload), sch.mod)
        assert structurally_equal(sch.copy().mod, sch.mod)


def test_a_list_that_holds_a_dict_is_left_out() -> None:
    sch = sl.Schedule(elementwise())
    sch.annotate("B", "notes", [1, {"a": 1}])
    sch.unroll(sch.get_loops("B")[0])
    with pytest.warns(
        sl.PartialTraceWarning, match="TVM applies a dict from a trace's JSON text only"
    ):
        trace = sch.trace.to_tvm_trace()
    assert "T.unroll" in made_by(trace, elementwise()).script()


def test_tvm_applies_a_dict_from_text_only() -> None:
    """Why a dict is left out: TVM's passes apply traces in memory."""
    workload = elementwise()
    theirs = TVMSchedule(workload.mod)
    theirs.annotate(theirs.get_sblock("B"), "note", {"a": 1})
    again = TVMSchedule(workload.mod)
    TVMTrace.apply_json_to_schedule(theirs.trace.as_json(), again)
    assert structurally_equal(again.mod, theirs.mod)
    with pytest.raises(TypeError, match="Cannot recognize the type of an input random variable"):
        made_by(theirs.trace, workload)
