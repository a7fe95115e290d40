"""UseTensorCore contains MetaSchedule's sketches for tensor cores.

The installed TVM generates them, with its rules ``"cuda-tensorcore"``. A program of each sketch,
finished by its post-processors, must be one of ours, with the same decisions. Left out are vectors
that do not lie together in memory: MetaSchedule draws them, and nvcc refuses the wide ones. Its
default rules never give sketches with mma.sync.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import pytest
from tvm.ir import IRModule
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.meta_schedule import _ffi_api
from tvm.s_tir.meta_schedule.space_generator import PostOrderApply
from tvm.s_tir.meta_schedule.tune_context import TuneContext
from tvm.s_tir.schedule import Trace
from tvm.target import Target
from tvm_ffi import structural_walk

import schedlang as sl
from schedlang.modules import UseTensorCore
from schedlang.tvm.schedule.intrinsics import require_intrinsic
from tests.expressiveness.metaschedule_cuda import LIMITS
from tests.expressiveness.programs import same_program, without_notes


def sketches(workload: IRModule) -> tuple[list[Trace], list[Any]]:
    """MetaSchedule's traces that use wmma, and its post-processors but for the check of limits."""
    require_intrinsic("wmma_sync_16x16x16_f16f16f32")
    rules = "cuda-tensorcore"
    generator = PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules)
    context = TuneContext.__new__(TuneContext)
    target = Target({"kind": "cuda", "arch": "sm_80", **LIMITS})
    context.__init_handle_by_constructor__(
        _ffi_api.TuneContext, workload, target, generator, None, "main", 1, 1, None
    )
    _ffi_api.TuneContextInitialize(context)
    steps = [step for step in generator.postprocs if "VerifyGPUCode" not in type(step).__name__]
    traces = [sch.trace for sch in generator.generate_design_space(workload)]
    return [trace for trace in traces if "wmma" in str(trace)], steps


def draw(workload: IRModule, trace: Trace, steps: list[Any], widths: Sequence[int]) -> Any:
    """An unrolled program of a sketch whose vectors divide ``widths``, and its decisions."""
    for seed in range(1, 200):
        sch = Schedule(workload, seed=seed)
        Trace(trace.insts, {}).apply_to_schedule(sch, True, None)
        tiles, drawn = [], []
        for instruction in sch.trace.insts:
            decision = sch.trace.get_decision(instruction)
            if instruction.kind.name == "SamplePerfectTile":
                tiles.append([int(factor) for factor in decision])
            elif instruction.kind.name == "SampleCategorical":
                drawn.append(int(instruction.attrs[0][int(decision)]))
        if not drawn[3] or any(most % width for most, width in zip(widths, drawn, strict=False)):
            continue
        sch.enter_postproc()
        if all(step.apply(sch) for step in steps):
            return _without_warps(without_notes(sch)), tiles, drawn
    raise AssertionError("MetaSchedule itself finishes none of its programs")


def _without_warps(mod: IRModule) -> IRModule:
    """Remove a note for another post-processor; code generation does not know it."""
    found: list[str] = []
    key = "warp_execution"
    names = (SBlock, lambda b: found.append(str(b.name_hint)) if key in b.annotations else None)
    structural_walk(mod["main"].body, names)
    sch = Schedule(mod)
    for name in found:
        sch.unannotate(sch.get_sblock(name), key)
    return sch.mod


def decisions(block: str, tiles: list[list[int]], drawn: list[int]) -> dict[str, Any]:
    """The same decisions for the sites of UseTensorCore, which draws one factor at a time."""
    found: dict[str, Any] = {}
    for side, (a, b, c, d, e) in zip(("row", "column"), tiles[:2], strict=True):
        found[f"{side}s_inner:{block}"] = (a * b * c * d, e)
        found[f"{side}s_outer:{block}"] = (a * b * c, d)
        found[f"{side}_warps:{block}"] = (a * b, c)
        found[f"{side}_blocks:{block}"] = (a, b)
    a, b, c = tiles[2]
    found[f"terms_inner:{block}"] = (a * b, c)
    found[f"terms:{block}"] = (a, b)
    found |= {f"vector:{block}:{side}": width for side, width in zip("CAB", drawn, strict=False)}
    return found | {"unroll": drawn[3], "unroll_explicit": 1}


@pytest.mark.parametrize(
    ("workload", "block", "widths"),
    [
        (sl.workloads.GMM(64, 64, 64, dtype="float16", out_dtype="float32"), "C", (4, 8, 8)),
        (sl.workloads.C2D(8, 8, 16, 32, 3, 2, 1, dtype="float16"), "conv2d", (8, 8, 8)),
    ],
    ids=["GMM", "C2D"],
)
def test_sketches_of_metaschedule(workload: sl.Workload, block: str, widths: Any) -> None:
    limits = {"max_fragments": 256, "max_warps": 1024, "shared_bytes": 2**30}
    space = sl.default_space(sl.Target("cuda", arch="sm_80")) + UseTensorCore(
        via=["wmma"], depths=[1], **limits
    )
    traces, steps = sketches(workload.mod)
    assert len(traces) == 2
    for trace in traces:
        transposed = re.search(r"wmma_sync_\w+_trans", str(trace)) is not None
        allowed = (*widths[:2], 1) if transposed else widths
        peer, tiles, drawn = draw(workload.mod, trace, steps, allowed)
        way = "wmma_trans" if transposed else "wmma"
        ours = next(
            sch
            for seed in range(100)
            if way in (sch := space.sample(workload, seed=seed)).trace.choices.values()
            and "unroll_explicit" in sch.trace.decisions
        )
        followed = ours.trace.with_decisions(
            {**ours.trace.decisions, **decisions(block, tiles, drawn)}
        )
        assert same_program(followed.replay().mod, peer)
        assert followed.replay().trace.log_prob() > -math.inf
