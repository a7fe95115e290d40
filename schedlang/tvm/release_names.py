"""The names of TVM's that differ between releases: what each is, and where it is used.

Public modules move with a release (``tirx`` was ``tir``, ``s_tir`` and ``sym`` are new); private
names come and go without notice. An upgrade starts with ``moved()``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import tvm_ffi


@dataclass(frozen=True)
class ReleaseName:
    """A name that a release of TVM may move.

    Attributes
    ----------
    path: module and attribute, ``"tvm.relax.vm_build:_vmcodegen"``, or a module alone;
        ``"ffi:name"`` is a function that TVM's libraries register.
    what: what it is used for.
    used_in: file of ``schedlang/tvm/`` that uses it, or the folder where many do.
    needs: an optional package that TVM imports beside it; empty where it needs none.
    """

    path: str
    what: str
    used_in: str
    needs: str = ""

    def can_be_seen(self) -> bool:
        """Tell whether the package that it needs is installed."""
        return not self.needs or find_spec(self.needs) is not None

    def exists(self) -> bool:
        """Tell whether the installed TVM has it."""
        module, _, attributes = self.path.partition(":")
        if module == "ffi":
            return tvm_ffi.get_global_func(attributes, allow_missing=True) is not None
        try:
            found = import_module(module)
            for attribute in filter(None, attributes.split(".")):
                found = getattr(found, attribute)
        except (ImportError, AttributeError):
            return False
        return True


_Name = ReleaseName
NAMES = (
    _Name("tvm.tirx", "programs' statements and expressions; tvm.tir before", "program.py"),
    _Name("tvm.tirx:BufferType", "the type of a tensor's variable", "program.py"),
    _Name("tvm.s_tir", "blocks and schedules; tvm.tir before", "program.py"),
    _Name("tvm.s_tir:SBlockRealize", "a block at its place; tir.BlockRealize before", "program.py"),
    _Name("tvm.s_tir:renew_defs", "fresh variables for a copied function", "packing.py"),
    _Name("tvm.sym:Analyzer", "proofs about integers; tvm.arith before", "analysis"),
    _Name("tvm.sym.iter_affine_map", "iterator maps; tvm.arith before", "analysis/concurrency.py"),
    _Name("tvm.ir:TensorLoad", "a read of an element; tir.BufferLoad before", "analysis"),
    _Name("tvm.ir:GenericConst", "a constant tensor; relax.Constant before", "relax"),
    _Name(
        "tvm.script.parser.core.entry:_default_globals",
        "the names that a text may use",
        "program_text.py",
    ),
    _Name("tvm.s_tir.meta_schedule", "TVM's own records and features", "metaschedule.py"),
    _Name(
        "tvm.s_tir.meta_schedule.tune_context:_normalize_mod",
        "a module as MetaSchedule's databases hold it",
        "metaschedule.py",
    ),
    _Name("tvm.s_tir.schedule:_ffi_api", "schedules without TVM's own checks", "schedule/ffi.py"),
    _Name("tvm.tirx.analysis:_ffi_api", "variables that an expression leaves free", "values.py"),
    _Name("tvm.tirx.build:split_host_device_mods", "a GPU's part of a program", "codegen/cuda.py"),
    _Name("tvm.tirx.build:tir_to_runtime", "code of both parts", "codegen/cuda.py"),
    _Name("tvm.tirx:compilation_pipeline", "lowering, pass by pass", "codegen/pipeline.py"),
    _Name("tvm.runtime:Tensor._create_view", "another shape of memory", "codegen/runtime.py"),
    _Name("tvm.runtime:Tensor.__chandle__", "the memory of a tensor's head", "codegen/runtime.py"),
    _Name(
        "tvm.relax.expr:_update_type",
        "the type of a changed expression",
        "relax/network_program.py",
    ),
    _Name("tvm.relax.vm_build:_vmcodegen", "instructions of a network", "relax/executable.py"),
    _Name("tvm.relax.vm_build:_ffi_api.VMLink", "one module of it all", "relax/executable.py"),
    _Name(
        "tvm.relax.frontend.onnx.onnx_frontend:_get_convert_map",
        "the operators that TVM reads from ONNX",
        "relax/front_ends.py",
        "onnx",
    ),
    _Name(
        "tvm.relax.frontend.torch.exported_program_translator:ExportedProgramImporter"
        "._retrieve_args",
        "a call's arguments as Relax expressions",
        "relax/torch_arguments.py",
        "torch",
    ),
    _Name(
        "tvm_ffi.core:_lookup_or_register_type_info_from_type_key",
        "the fields of a node",
        "stored_program.py",
    ),
    _Name("ffi:runtime.config_threadpool", "CPUs of the threads", "codegen/runtime.py"),
    _Name("ffi:runtime.NumThreads", "number of the threads", "codegen/runtime.py"),
)


def moved() -> list[ReleaseName]:
    """Return the names that the installed TVM does not have, of those that can be seen here."""
    return [name for name in NAMES if name.can_be_seen() and not name.exists()]
