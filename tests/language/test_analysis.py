"""Questions about a program that ask what an instruction would do."""

from __future__ import annotations

import pytest

from schedlang import analysis
from schedlang.errors import InstructionError, SchedlangError
from schedlang.language.schedule import Schedule
from schedlang.workloads import C2D
from tests.language.primitives.programs import chain, padded


def test_can_decompose_padding_is_whether_it_applies() -> None:
    answers = []
    for workload, name in ((padded(), "B"), (chain(), "B"), (C2D(6, 6, 2, 8, 3, 1, 1), "padded")):
        sch = Schedule(workload)
        block = sch.get_block(name)
        consumer = (sch.get_consumers(block) or [block])[0]
        for loop in dict.fromkeys([*sch.get_loops(block), *sch.get_loops(consumer)]):
            before = len(sch.trace)
            answers.append(analysis.can_decompose_padding(sch, block, loop))
            assert len(sch.trace) == before
            trial = sch.copy()
            if answers[-1]:
                trial.decompose_padding(block, loop)
            else:
                with pytest.raises(InstructionError):
                    trial.decompose_padding(block, loop)
    assert True in answers and False in answers


def test_it_takes_handles_of_its_own_program_only() -> None:
    sch, other = Schedule(padded()), Schedule(padded())
    with pytest.raises(SchedlangError, match="is a handle of another schedule"):
        analysis.can_decompose_padding(sch, sch.get_block("B"), other.get_loops("B")[0])
