"""Read a program from a file that may be damaged or hostile."""

from __future__ import annotations

import tvm
from tvm.ir import IRModule
from tvm.s_tir.analysis import verify_well_formed

from schedlang.errors import WorkloadError
from schedlang.tvm.graph.node_graph import GraphError, check_graph


def read_stored_program(text: str) -> IRModule:
    """Read a module from TVM's JSON text; runs no code.

    The nodes are checked against TVM's declarations first, because TVM's reader does not check
    them: a reference cycle crashes the process. WorkloadError if it is not a sound program.
    """
    try:
        check_graph(text, "ir.IRModule")
    except GraphError as error:
        raise _refused(str(error)) from None
    try:
        mod = tvm.ir.load_json(text)
        mod.script()  # TVM crashes when an error of its own prints a program that cannot be printed
        verify_well_formed(mod)
    except Exception as error:  # TVM's errors have many types
        raise _refused(str(error).strip().splitlines()[-1][:200]) from None
    return mod


def _refused(reason: str) -> WorkloadError:
    return WorkloadError(
        f"a stored program cannot be read: {reason}; it is damaged, or of another TVM: tune its "
        "workload again"
    )
