"""Many scheduled programs compiled together and compared with numpy."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.ir import GlobalVar, IRModule

import schedlang as sl
from schedlang.errors import SchedlangError
from schedlang.tvm.codegen.compiler import compile_functions
from schedlang.tvm.codegen.runtime import borrow_array
from schedlang.tvm.program import MAIN
from tests.tvm.indices.programs import Program, random_program
from tests.tvm.indices.schedules import DEFAULT, SCHEDULES, UNSCHEDULED, scheduled

REFUSED, NOT_COMPILED, RIGHT, WRONG = OUTCOMES = "refused", "not compiled", "right", "wrong"
_BATCH = 256


@dataclass(frozen=True)
class Case:
    """A program with a schedule, and its outcome, one of ``OUTCOMES``."""

    seed: int
    number: int
    program: str
    indices: str
    schedule: str
    outcome: str


@dataclass(frozen=True)
class _Scheduled:
    number: int
    name: str
    program: Program
    function: Any


def cases(seed: int, numbers: Iterable[int], schedules: int | None = None) -> Iterator[Case]:
    """Check programs unscheduled, with some random schedules, and with one of the default space.

    ``schedules`` is the number of the random ones; None takes all.
    """
    waiting: list[_Scheduled] = []
    others = [name for name in SCHEDULES if name != UNSCHEDULED]
    for number in numbers:
        program = random_program(seed, number)
        chosen = random.Random(number).sample(
            others, len(others) if schedules is None else schedules
        )
        for name in (UNSCHEDULED, *chosen, DEFAULT):
            try:
                sch = scheduled(program.workload, name, number)
            except (SchedlangError, IndexError):
                yield _case(seed, number, program, name, REFUSED)
            else:
                waiting.append(_Scheduled(number, name, program, sch.mod[MAIN]))
        if len(waiting) >= _BATCH:
            yield from _run(seed, waiting)
            waiting = []
    yield from _run(seed, waiting)


def _run(seed: int, batch: list[_Scheduled]) -> Iterator[Case]:
    functions = {
        GlobalVar(f"f{place}"): one.function.with_attr("global_symbol", f"f{place}")
        for place, one in enumerate(batch)
    }
    try:
        code: Any = compile_functions(IRModule(functions), sl.Target("cpu").tvm_target())
    except Exception:  # TVM raises errors of every type
        if len(batch) == 1:
            yield _case(seed, batch[0].number, batch[0].program, batch[0].name, NOT_COMPILED)
        else:
            half = len(batch) // 2
            yield from _run(seed, batch[:half])
            yield from _run(seed, batch[half:])
        return
    for place, one in enumerate(batch):
        arrays = one.program.arguments()
        code.get_function(f"f{place}", True)(*map(borrow_array, arrays))
        right = np.array_equal(arrays[-1], one.program.expected)
        yield _case(seed, one.number, one.program, one.name, RIGHT if right else WRONG)


def _case(seed: int, number: int, program: Program, name: str, outcome: str) -> Case:
    text = f"{program.kind} {program.dtype}"
    return Case(seed, number, text, program.indices, name, outcome)
