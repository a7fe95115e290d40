"""Reading of stored programs, whose text may be damaged or hostile."""

from __future__ import annotations

import tvm
from tvm.ir import IRModule
from tvm.s_tir.analysis import verify_well_formed

from schedlang.errors import WorkloadError
from schedlang.tvm.graph.node_graph import GraphError, checked_graph


def read_stored_program(text: str) -> IRModule:
    """Read a module from TVM's JSON text; runs no code.

    The nodes are checked against TVM's declarations before TVM reads them: its C++ reader follows
    references without checks and crashes the process on a cycle. Source positions, which programs
    stored by earlier versions have, are left out. WorkloadError if the program is invalid.
    """
    try:
        checked = checked_graph(text, "ir.IRModule")
    except GraphError as error:
        raise _refused(str(error)) from None
    try:
        mod = tvm.ir.load_json(checked)
        mod.script()  # raises if TVM cannot print the program; a later error message would crash
        verify_well_formed(mod)
    except Exception as error:  # TVM's errors have many types
        raise _refused(str(error).strip().splitlines()[-1][:200]) from None
    return mod


def _refused(reason: str) -> WorkloadError:
    return WorkloadError(
        f"a stored program cannot be read: {reason}; it is damaged or from another TVM version: "
        "tune its workload again"
    )
