"""Apply one module to a small program: the schedule, its golden text, or the reason against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tvm.ir import IRModule
from tvm.s_tir import SBlock, SBlockRealize

from schedlang.errors import NotApplicable
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.tvm.program import structurally_equal
from schedlang.workloads.workload import Workload
from tests.language.primitives.test_golden import script

Golden = Callable[[Path, str], None]
GOLDEN = Path(__file__).parent / "golden"


def sampled(
    workload: Workload,
    *modules: Module,
    seed: int = 0,
    choices: Mapping[str, Any] | None = None,
    decisions: Mapping[str, Any] | None = None,
) -> Schedule:
    """The schedule that a space of the modules draws."""
    return Space(modules).sample(workload, seed=seed, choices=choices, decisions=decisions)


def shown(sch: Schedule) -> str:
    """The program before, the instructions, and the program after."""
    parts = (script(sch.workload.mod), str(sch.trace), script(sch.mod))
    titles = ("before", "instructions", "after")
    return "\n".join(f"# {title}\n{part}\n" for title, part in zip(titles, parts, strict=True))


def assert_golden(golden: Golden, name: str, sch: Schedule) -> None:
    """The schedule's text is the golden one of this name; its trace replays from its text."""
    golden(GOLDEN / f"{name}.txt", shown(sch))
    again = type(sch.trace).from_json(sch.trace.to_json()).replay(sch.workload)
    assert script(again.mod) == script(sch.mod)


def assert_not_applicable(module: Module, workload: Workload, block: str, reason: str) -> None:
    """Assert that the module does not apply to a block of the unscheduled program, and why."""
    sch = Schedule(workload, seed=0)
    with pytest.raises(NotApplicable, match=reason):
        module(sch, sch.get_block(block))


def same_up_to_buffer_order(one: Any, other: Any) -> bool:
    """Whether two programs are equal up to the order of their intermediate buffers."""
    return structurally_equal(_ordered(one), _ordered(other))


def _ordered(mod: Any) -> Any:
    func = mod["main"]
    root = func.body.block
    buffers = sorted(root.alloc_buffers, key=lambda buffer: str(buffer.name))
    block = SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, root.body, root.init, buffers
    )
    body = SBlockRealize(func.body.iter_values, func.body.predicate, block)
    return IRModule({"main": func.with_body(body)})
