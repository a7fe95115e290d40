"""Machine code for CPUs that assumes no alignment of the arrays it is called with.

TVM assumes that every argument starts at a multiple of 64 bytes, does not check it, and loads
vectors with instructions that fault elsewhere; numpy aligns to 16 bytes. Without the assumption
LLVM takes the instructions for unaligned vectors, which are as fast on aligned data.

Pragmas that mean nothing to the code generator go too: it would warn of each on standard error, as
of the ``pragma_scope`` with which TVM's own operators (``scatter``, ``index_put``) put statements
in a row.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.target import Target as TVMTarget
from tvm.tirx import AttrStmt, compilation_pipeline
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_map

from schedlang.tvm.codegen import broadcasts
from schedlang.tvm.codegen.pipeline import default_pipeline

_OTHERS = "schedlang_others"
_NAME = "schedlang"
_LOWERED = "schedlang_lowered"
_ASSUMPTION = "storage_alignment"
_PRAGMA = "pragma_"
# Pragmas that the code generator for CPUs reads.
_MEANT = ("pragma_import_llvm", "pragma_parallel_")


def pipeline_name(target: TVMTarget) -> str:
    """Return the name of the lowering pipeline of ``target``, for ``tvm.compile``."""
    return _NAME if target.kind.name == "llvm" else _OTHERS


def lower(mod: IRModule, target: TVMTarget) -> tuple[IRModule, str]:
    """Lower a program for a CPU up to code generation; return it with the pipeline of the rest."""
    bound = tvm.tirx.transform.BindTarget(target.with_host(target))(mod)
    return _pipeline()[0](bound), _LOWERED


def _assume_no_alignment(func: PrimFunc, _mod: IRModule, _context: Any) -> PrimFunc:
    """Lower TVM's statements about the alignment of parameters to one byte; drop idle pragmas."""

    def weaken(statement: AttrStmt) -> Any:
        key = str(statement.attr_key)
        if key.startswith(_PRAGMA) and not key.startswith(_MEANT):
            return statement.body
        if key != _ASSUMPTION:
            return statement
        return AttrStmt(statement.node, _ASSUMPTION, 1, statement.body)

    return func.with_body(structural_map(func.body, (AttrStmt, weaken), order="post"))


def _pipeline() -> tuple[Any, Any, Any]:
    """Return TVM's own pipeline between two passes of ours, and TVM's last passes."""
    lower, finish_host, finish_device = default_pipeline()
    weaken = tvm.tirx.transform.prim_func_pass(_assume_no_alignment, opt_level=0)
    passes = [broadcasts.LEGALIZE, lower, weaken]
    return tvm.transform.Sequential(passes), finish_host, finish_device


def _rest_of_pipeline() -> tuple[Any, Any, Any]:
    """Return what follows ``lower``."""
    _, finish_host, finish_device = _pipeline()
    return tvm.transform.Sequential([]), finish_host, finish_device


compilation_pipeline.register_tir_pipeline(_NAME, _pipeline)
compilation_pipeline.register_tir_pipeline(_OTHERS, default_pipeline)
compilation_pipeline.register_tir_pipeline(_LOWERED, _rest_of_pipeline)
