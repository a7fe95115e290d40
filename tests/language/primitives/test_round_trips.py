"""Every case's trace gives the same program again, whichever way it is written down."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import tvm.s_tir

from schedlang.errors import SpaceError
from schedlang.language.schedule import Trace
from schedlang.tvm.codegen.pipeline import written_for_tvm
from schedlang.tvm.program import structurally_equal, to_json
from tests.language.primitives.case import Case, scheduled
from tests.language.primitives.groups import CASES, each_case

pytestmark = pytest.mark.slow


def executed(program: str) -> Any:
    """``sch`` of a program that is run as a file of its own."""
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(program, "program.py", "exec"), namespace)
    return namespace["sch"]


@each_case
def test_replaying(case: Case) -> None:
    sch = scheduled(case)
    assert not structurally_equal(sch.mod, sch.workload.mod) or "root" in case.name
    again = sch.trace.replay()
    assert structurally_equal(again.mod, sch.mod)
    assert again.trace == sch.trace


@each_case
def test_json(case: Case) -> None:
    sch = scheduled(case)
    read = Trace.from_json(sch.trace.to_json())
    assert read == sch.trace
    assert read.to_json() == sch.trace.to_json()
    assert structurally_equal(read.replay(sch.workload).mod, sch.mod)


@each_case
def test_python(case: Case) -> None:
    sch = scheduled(case)
    again = executed(sch.trace.as_python())
    assert structurally_equal(again.mod, sch.mod)
    assert again.trace == sch.trace


@each_case
def test_simplifying(case: Case) -> None:
    sch = scheduled(case)
    assert structurally_equal(sch.trace.simplified().replay().mod, sch.mod)


@each_case
def test_python_for_tvm(case: Case) -> None:
    sch = scheduled(case)
    again = executed(sch.trace.as_tvm_python())
    assert isinstance(again, tvm.s_tir.Schedule)
    assert structurally_equal(again.mod, written_for_tvm(sch.mod))


@each_case
def test_trace_of_tvm(case: Case) -> None:
    sch = scheduled(case)
    if case.no_tvm_trace:
        with pytest.raises(SpaceError, match=case.no_tvm_trace):
            sch.trace.to_tvm_trace(strict=True)
        return
    again = tvm.s_tir.Schedule(sch.workload.mod)
    sch.trace.to_tvm_trace().apply_to_schedule(again, remove_postproc=False)
    assert structurally_equal(again.mod, sch.mod)


# Reads [[name, program, expected module], ...]; prints the names of those that came out otherwise.
_WITH_TVM_ALONE = """
import json, sys
import tvm, tvm_ffi
for name, program, expected in json.load(sys.stdin):
    namespace = {}
    exec(program, namespace)
    if not tvm_ffi.structural_equal(namespace["sch"].mod, tvm.ir.load_json(expected)):
        print(name)
assert "schedlang" not in sys.modules
print("done")
"""


def test_python_for_tvm_runs_where_schedlang_is_not() -> None:
    cases = [
        [
            case.name,
            scheduled(case).trace.as_tvm_python(),
            to_json(written_for_tvm(scheduled(case).mod)),
        ]
        for case in CASES
        if not case.name.startswith("tensorize")  # importing TVM's intrinsics takes 17 s
    ]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _WITH_TVM_ALONE],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["done"], done.stderr
