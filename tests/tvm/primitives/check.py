"""Random pairs and chains of primitives: what is accepted is compiled and compared with numpy."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import schedlang as sl
from schedlang.errors import SchedlangError
from schedlang.targets import build_callable
from tests.tvm.primitives.programs import random_program
from tests.tvm.primitives.steps import STEPS

REFUSED, NOT_COMPILED, RIGHT, WRONG = OUTCOMES = "refused", "not compiled", "right", "wrong"
ACCEPTED = "accepted"
_MOST_TRIES = 40


@dataclass
class Case:
    """A schedule and its outcome.

    Attributes
    ----------
    number: it and the seed make the schedule.
    program: what is scheduled.
    steps: the primitives that were accepted, in order.
    outcome: one of ``OUTCOMES``.
    tried: how often each primitive was accepted and refused, by ``"name accepted"``.
    code: the schedule as Python, where it is wrong.
    """

    number: int
    program: str
    steps: list[str] = field(default_factory=list)
    outcome: str = REFUSED
    tried: Counter[str] = field(default_factory=Counter)
    code: str = ""


def case(seed: int, number: int) -> Case:
    """Apply one to four primitives at random places, and run the result.

    The first is each primitive in turn; it gets several tries.
    """
    names = list(STEPS)
    rng = random.Random(f"{seed} {number}")
    wanted = rng.choice((1, 2, 2, 3, 4))
    for attempt in range(_MOST_TRIES):
        program = random_program(seed, number * _MOST_TRIES + attempt)
        sch = sl.Schedule(program.workload)
        found = Case(number, f"{program.kind} {program.dtype}")
        for place in range(_MOST_TRIES):
            if len(found.steps) == wanted:
                break
            name = names[number % len(names)] if place == 0 else rng.choice(names)
            try:
                STEPS[name](sch, rng)
            except (SchedlangError, IndexError, ValueError):  # or there is no such place
                found.tried[f"{name} {REFUSED}"] += 1
                if place == 0:
                    break
            else:
                found.tried[f"{name} {ACCEPTED}"] += 1
                found.steps.append(name)
        if found.steps:
            break
    else:
        return found
    try:
        run = build_callable(sch.mod)
    except Exception as error:  # TVM raises errors of every type
        found.outcome, found.code = NOT_COMPILED, f"{str(error).strip().splitlines()[-1]}"
    else:
        found.outcome = RIGHT if program.is_right(run) else WRONG
    if found.outcome != RIGHT:
        found.code += "\n" + program.text + sch.trace.as_python()
    return found
