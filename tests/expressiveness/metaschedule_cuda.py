"""MetaSchedule's side for GPUs: its sketches for CUDA, and programs drawn from them.

Its rules and post-processors for CUDA without tensor cores, of the installed TVM. The last
post-processor, which drops programs beyond a GPU's limits, is left out: it refuses nine in ten.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule import _ffi_api
from tvm.s_tir.meta_schedule.space_generator import PostOrderApply
from tvm.s_tir.meta_schedule.tune_context import TuneContext
from tvm.s_tir.schedule import Trace
from tvm.target import Target
from tvm.tirx import IterVar

from tests.expressiveness.metaschedule import MAX_ATTEMPTS, PeerProgram
from tests.expressiveness.programs import without_notes
from tests.expressiveness.sites import Key, first_block, key_of_draw, key_of_site

LIMITS = {
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
}
_CHECK = "VerifyGPUCode"


@dataclass(frozen=True)
class CUDASketch:
    """One of MetaSchedule's sketches."""

    workload: IRModule
    trace: Trace
    postprocessors: tuple[Any, ...]

    def programs(self, count: int) -> Iterator[PeerProgram]:
        """Yield programs with fresh decisions; fewer if post-processors refuse."""
        seeds = range(1, MAX_ATTEMPTS * count + 1)
        drawn = (program for seed in seeds if (program := self._draw(seed)) is not None)
        yield from itertools.islice(drawn, count)

    def _draw(self, seed: int) -> PeerProgram | None:
        sch = Schedule(self.workload, seed=seed)
        keys = _Keys(sch)
        Trace(self.trace.insts, {}).apply_to_schedule(sch, True, keys.note)
        decisions: dict[Key, Any] = dict(keys.fixed)
        for position, instruction in enumerate(sch.trace.insts):
            if position in keys.found:
                decision = sch.trace.get_decision(instruction)
                decisions[keys.found[position]] = _plain(instruction, decision)
        sch.enter_postproc()
        if not all(step.apply(sch) for step in self.postprocessors):
            return None  # loops whose extents are not constant
        return PeerProgram(without_notes(sch), decisions)


def sketches(workload: IRModule, arch: str) -> list[CUDASketch]:
    """MetaSchedule's design space of a workload for CUDA without tensor cores."""
    generator = PostOrderApply(sch_rules="cuda", postprocs="cuda", mutator_probs="cuda")
    context = TuneContext.__new__(TuneContext)
    target = Target({"kind": "cuda", "arch": arch, **LIMITS})
    context.__init_handle_by_constructor__(
        _ffi_api.TuneContext, workload, target, generator, None, "main", 1, 1, None
    )
    _ffi_api.TuneContextInitialize(context)
    kept = tuple(step for step in generator.postprocs if _CHECK not in type(step).__name__)
    assert len(kept) + 1 == len(generator.postprocs)
    return [
        CUDASketch(workload, sch.trace, kept) for sch in generator.generate_design_space(workload)
    ]


class _Keys:
    """The keys of draws, by the position of their instruction, while a trace is applied.

    Integers are drawn before MetaSchedule says what for: the key is found where one is used.

    Attributes
    ----------
    found: the key of a draw.
    fixed: what is drawn on our side and the same in all programs of the sketch.
    """

    def __init__(self, sch: Schedule) -> None:
        self._sch = sch
        self._position = -1
        self._integers: list[tuple[Any, int]] = []
        self._reductions: set[int] = set()
        self.found: dict[int, Key] = {}
        self.fixed: dict[Key, Any] = {}

    def note(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        self._position += 1
        kind = str(instruction.kind.name)
        if kind == "SamplePerfectTile":
            key = key_of_draw("sample_perfect_tile", self._sch.get(inputs[0]))
            self.found[self._position] = key
        elif kind == "SampleCategorical":
            self._integers.append((instruction.outputs[0], self._position))
        elif kind == "Annotate":
            self._annotation(instruction, inputs, str(attributes[0]))
        elif kind == "Split":
            self._threads(instruction, self._sch.get(inputs[0]))
        else:
            assert not kind.startswith("Sample"), f"{kind} is new: add it here"

    def _annotation(self, instruction: Any, inputs: Any, name: str) -> None:
        if name == "meta_schedule.cooperative_fetch":
            block = str(self._sch.get(inputs[0]).name_hint)
            self._use(instruction, ("vector", block, ""))
        elif name == "meta_schedule.unroll_explicit":
            self._use(instruction, ("unroll", "", ""))
        elif name == "software_pipeline_stage":
            self.fixed["depth", "", ""] = int(inputs[1][-1]) + 2

    def _threads(self, instruction: Any, loop: Any) -> None:
        """Name the threads of several splits after the first reduction among them."""
        block = first_block(loop)
        reduces = any(int(axis.iter_type) == IterVar.CommReduce for axis in block.iter_vars)
        for position in self._used_by(instruction):
            if position not in self.found or (reduces and position not in self._reductions):
                self.found[position] = ("threads", str(block.name_hint), "")
            if reduces:
                self._reductions.add(position)

    def _use(self, instruction: Any, key: Key) -> None:
        for position in self._used_by(instruction):
            self.found[position] = key

    def _used_by(self, instruction: Any) -> list[int]:
        used = [value for value in instruction.inputs if value is not None]
        return [p for drawn, p in self._integers if any(drawn.same_as(value) for value in used)]


def key_of_cuda_site(site: str | None) -> Key | None:
    """The same keys for the sites of the CUDA space; None for what MetaSchedule does not draw."""
    kind, _, rest = (site or "").partition(":")
    if kind == "tile":
        return ("sample_perfect_tile", *key_of_site(rest))
    if kind == "vector":
        return "vector", f"{rest.partition(':')[2]}_shared", ""
    if kind == "threads":
        return "threads", rest, ""
    if kind in ("unroll", "depth"):
        return kind, "", ""
    return None


def _plain(instruction: Any, decision: Any) -> Any:
    if instruction.kind.name == "SampleCategorical":
        return int(instruction.attrs[0][int(decision)])
    return tuple(int(factor) for factor in decision)
