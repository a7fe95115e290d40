"""TVM's code generator and run time."""

from schedlang.tvm.codegen.compiler import (
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
    target_attributes,
    toolchain,
    vector_bits,
    versions,
)
from schedlang.tvm.codegen.generator import CodeGenerator, target_json
from schedlang.tvm.codegen.host import compile_for_host
from schedlang.tvm.codegen.library import (
    ARCHIVE_SUFFIX,
    SHARED_SUFFIXES,
    find_text,
    has_linker,
    link_archive,
    load_library,
    write_library,
)

__all__ = [
    "ARCHIVE_SUFFIX",
    "SHARED_SUFFIXES",
    "CodeGenerator",
    "assembly",
    "compile_for_host",
    "compile_program",
    "cpu_features",
    "cpu_names",
    "find_text",
    "has_linker",
    "host_cpu",
    "host_triple",
    "is_cpu",
    "is_tvm_target",
    "link_archive",
    "llvm_target",
    "load_code",
    "load_library",
    "target_attributes",
    "target_json",
    "toolchain",
    "vector_bits",
    "versions",
    "write_library",
]
