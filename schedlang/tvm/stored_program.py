"""Reading a program that a file kept, as what it says may be damaged or hostile."""

from __future__ import annotations

import tvm
from tvm.ir import IRModule
from tvm.s_tir.analysis import verify_well_formed

from schedlang.errors import WorkloadError
from schedlang.tvm.graph.node_graph import GraphError, check_graph


def read_stored_program(text: str) -> IRModule:
    """A module of TVM's JSON text; runs no code.

    What TVM declares of its nodes is checked before it reads them: its reader, written in C++,
    follows references as they come, and ends the process for one that leads to itself.
    WorkloadError for what is no sound program.
    """
    try:
        check_graph(text, "ir.IRModule")
    except GraphError as error:
        raise _refused(str(error)) from None
    try:
        mod = tvm.ir.load_json(text)
        mod.script()  # a program that TVM cannot print ends the process in one of its messages
        verify_well_formed(mod)
    except Exception as error:  # TVM's errors have many types
        raise _refused(str(error).strip().splitlines()[-1][:200]) from None
    return mod


def _refused(reason: str) -> WorkloadError:
    return WorkloadError(
        f"a stored program cannot be read: {reason}; it is damaged, or of another TVM: tune its "
        "workload again"
    )
