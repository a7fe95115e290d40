"""Every instruction that a trace of TVM holds comes back from TVM's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlang.errors import TraceFormatError
from schedlang.metaschedule.reading import read_trace, rows
from schedlang.targets import as_target
from schedlang.tvm.metaschedule import DatabaseWriter
from schedlang.tvm.program import structurally_equal
from tests.language.primitives.case import Case, scheduled
from tests.language.primitives.groups import CASES, each_case


@each_case
def test_what_tvm_writes_is_read(case: Case, tmp_path: Path) -> None:
    if case.no_tvm_trace:
        return
    sch = scheduled(case)
    target = as_target("cpu").tvm_target()
    if case.no_tvm_file:
        with pytest.raises((TypeError, TraceFormatError), match=case.no_tvm_file):
            stored = DatabaseWriter(tmp_path).add(
                sch.trace.to_tvm_trace(), sch.workload.mod, [1.0], target
            )
            read_trace(stored, sch.workload)
        return
    stored = DatabaseWriter(tmp_path).add(sch.trace.to_tvm_trace(), sch.workload.mod, [1.0], target)
    read = read_trace(stored, sch.workload)
    assert structurally_equal(read.replay().mod, sch.mod)


def test_each_instruction_that_is_read_has_a_case() -> None:
    read = rows()
    used = {
        instruction.kind.name
        for case in CASES
        if not (case.no_tvm_trace or case.no_tvm_file)
        for instruction in scheduled(case).trace.instructions
    }
    assert {row.kind.name for row in read.values()} <= used
    assert len(read) == 50


def test_an_instruction_with_an_argument_that_tvm_does_not_store_is_not_read() -> None:
    assert "AnnotateBufferAccess" not in rows()
    stored = [[["AnnotateBufferAccess", [], [], []]], []]
    with pytest.raises(TraceFormatError, match="schedlang has no instruction"):
        read_trace(stored, scheduled(CASES[0]).workload)
