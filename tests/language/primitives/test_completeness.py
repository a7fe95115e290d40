"""No instruction goes untested, and no primitive of TVM is left out unnoticed."""

from __future__ import annotations

import inspect

import pytest
import tvm.s_tir

from schedlang.instructions.instruction import KINDS, InstructionKind
from tests.language.primitives.case import scheduled
from tests.language.primitives.groups import CASES, MISUSES

# What TVM's Schedule has besides instructions, and why ours has no instruction for it.
_NOT_INSTRUCTIONS = {
    "mod": "a property of ours too",
    "state": "TVM's own bookkeeping",
    "trace": "a property of ours too",
    "func_working_on": "a workload has one function",
    "work_on": "a workload has one function",
    "copy": "a method of ours too, not recorded",
    "seed": "a schedule of ours is seeded when it is made",
    "fork_seed": "a schedule of ours is seeded when it is made",
    "show": "a method of ours too, not recorded",
    "get": "a method of ours too, not recorded",
    "get_sref": "TVM's own bookkeeping",
    "remove_rv": "TVM's own bookkeeping",
    "can_decompose_padding": "a question, not a step: schedlang.analysis has it",
    "enter_postproc": "there is no hidden post-processing: finishing steps are instructions",
}


def method_kinds() -> list[InstructionKind]:
    """Every instruction that is a method of ``Schedule``; other tests register private ones."""
    return [kind for kind in KINDS.values() if kind.is_method and kind.name[0] != "_"]


@pytest.mark.parametrize("name", sorted(kind.name for kind in method_kinds()))
def test_each_instruction_has_a_golden_text_and_a_misuse(name: str) -> None:
    named = [case for case in CASES if case.name == name]
    assert named, f"no golden case is called {name}"
    used = [instruction.kind.name for instruction in scheduled(named[0]).trace.instructions]
    assert name in used
    if KINDS[name].parameters:
        assert any(misuse.instruction == name for misuse in MISUSES), f"no misuse of {name}"


def test_each_primitive_of_tvm_has_its_instruction() -> None:
    theirs = {name for name in vars(tvm.s_tir.Schedule) if not name.startswith("_")}
    theirs -= {name for name in theirs if inspect.isclass(vars(tvm.s_tir.Schedule)[name])}
    theirs -= {"PrimAnnotationValueT", "AnnotationValueT"}  # types of arguments
    ours = {getattr(kind, "tvm_method", kind.name) for kind in method_kinds()}
    assert theirs - ours == set(_NOT_INSTRUCTIONS)
    assert not set(_NOT_INSTRUCTIONS) & ours
