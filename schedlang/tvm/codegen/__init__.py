"""TVM's code generator and run time."""

from schedlang.tvm.codegen.compiler import (
    accessed_types,
    assembly,
    compile_program,
    cpu_features,
    cpu_names,
    host_cpu,
    host_triple,
    is_cpu,
    is_tvm_target,
    llvm_target,
    load_code,
    reduction_length,
    target_attributes,
    toolchain,
    vector_bits,
    versions,
    write_library,
)
from schedlang.tvm.codegen.generator import CodeGenerator, target_json

__all__ = [
    "CodeGenerator",
    "accessed_types",
    "assembly",
    "compile_program",
    "cpu_features",
    "cpu_names",
    "host_cpu",
    "host_triple",
    "is_cpu",
    "is_tvm_target",
    "llvm_target",
    "load_code",
    "reduction_length",
    "target_attributes",
    "target_json",
    "toolchain",
    "vector_bits",
    "versions",
    "write_library",
]
