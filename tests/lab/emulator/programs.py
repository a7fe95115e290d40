"""Small scheduled programs for GPUs, and ways to plant faults into the code of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.testing.tir import mma_schedule

import schedlang as sl
from schedlang.lab.emulator import Emulation, EmulationError, expected_of, judge
from schedlang.lab.emulator_runs import execute, find_compiler
from schedlang.tvm.codegen.cuda_source import CUDASource, GlobalBuffer, Launch, cuda_source
from schedlang.tvm.schedule.intrinsics import register_all
from schedlang.workloads.construct import as_workload

C_TYPES = {
    "float32": "float",
    "int32": "int",
    "int8": "signed char",
    "float16": "half",
    "bfloat16": "nv_bfloat16",
}


def missing() -> str:
    """Say why nothing can be emulated here; empty where it can."""
    try:
        find_compiler()
    except EmulationError as error:
        return str(error)
    return ""


needs_compiler = pytest.mark.skipif(bool(missing()), reason=missing() or "there is one")


@dataclass(frozen=True)
class Scheduled:
    """A scheduled program and the workload that it was made from."""

    mod: Any
    workload: sl.Workload

    def source(self) -> CUDASource:
        """Return its code for compute capability 9.0."""
        return cuda_source(self.mod, sl.Target("cuda", arch="sm_90").tvm_target())

    def emulate_edited(self, old: str, new: str, **options: Any) -> Emulation:
        """Run it with an edited source; the text to replace must be there."""
        source = self.source()
        assert old in source.text
        edited = replace(source, text=source.text.replace(old, new))
        expected = expected_of(self.workload, None, 0, runs=True)
        return judge(execute(edited, expected.inputs, **options), expected)


def run_kernel(
    body: str,
    output: np.ndarray[Any, Any],
    *inputs: np.ndarray[Any, Any],
    threads: int = 32,
    blocks: int = 1,
    dynamic: int = 0,
    **options: Any,
) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Run a kernel of one's own: the output after the first order, and the kinds of the faults.

    It takes ``out`` and the inputs ``in0``, ``in1``, ...; ``output`` says its type and shape.
    """
    arrays = [output, *inputs]
    names = ["out", *(f"in{n}" for n in range(len(inputs)))]
    types = [C_TYPES[array.dtype.name] for array in arrays]
    parameters = ", ".join(f"{kind}* {name}" for kind, name in zip(types, names, strict=True))
    text = (
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <mma.h>\n"
        "#define uchar unsigned char\n"
        f'extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}\n'
    )
    memories = tuple(
        GlobalBuffer(name, array.dtype.name, array.shape, place)
        for place, (name, array) in enumerate(zip(names, arrays, strict=True))
    )
    launch = Launch("kernel", tuple(range(len(arrays))), (blocks, 1, 1), (threads, 1, 1), dynamic)
    run = execute(CUDASource(text, (launch,), memories), arrays, **options)
    kinds = [fault.kind for fault in run.faults]
    return (run.contents[0][0] if run.contents else output), kinds


def product(n: int, m: int, k: int, read: str, kept: str, transposed: bool = False) -> Any:
    """A matrix product of ``read`` numbers, added up in ``kept`` ones."""
    a = te.placeholder((n, k), read, name="A")
    b = te.placeholder((m, k) if transposed else (k, m), read, name="B")
    r = te.reduce_axis((0, k), "k")

    def cast(value: Any) -> Any:
        return value if read == kept else value.astype(kept)

    c = te.compute(
        (n, m),
        lambda i, j: te.sum(cast(a[i, r]) * cast(b[j, r] if transposed else b[r, j]), axis=r),
        name="C",
    )
    return te.create_prim_func([a, b, c]).with_attr("global_symbol", "main")


def shared_product(n: int = 32, pipelined: bool = False) -> Scheduled:
    """A float32 product whose operands are staged in shared memory by 64 threads.

    With ``pipelined``, cp.async copies them two rounds ahead.
    """
    function = product(n, n, n, "float32", "float32")
    sch = tvm.s_tir.Schedule(tvm.IRModule({"main": function}))
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 8])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, i1, j1, k0, k1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j1, "threadIdx.x")
    for place in range(2):
        copy = sch.cache_read(block, place, "shared")
        sch.compute_at(copy, k0)
        y, x = sch.get_loops(copy)[-2:]
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    if pipelined:
        sch.annotate(k0, "software_pipeline_stage", [0, 0, 2])
        sch.annotate(k0, "software_pipeline_order", [0, 1, 2])
        sch.annotate(k0, "software_pipeline_async_stages", [0])
    return Scheduled(sch.mod, as_workload(function))


def softmax(rows: int = 4, columns: int = 100) -> Scheduled:
    """A softmax of four kernels, whose sums go through shuffles and shared memory."""
    a = te.placeholder((rows, columns), "float32", name="A")
    k, r = (te.reduce_axis((0, columns), name) for name in "kl")
    m = te.compute((rows,), lambda i: te.max(a[i, k], axis=k), name="m")
    e = te.compute((rows, columns), lambda i, j: te.exp(a[i, j] - m[i]), name="e")
    s = te.compute((rows,), lambda i: te.sum(e[i, r], axis=r), name="s")
    out = te.compute((rows, columns), lambda i, j: e[i, j] / s[i], name="out")
    function = te.create_prim_func([a, out])
    sch = tvm.s_tir.Schedule(tvm.IRModule({"main": function}))
    for name, threads in (("m", 32), ("s", 64)):
        i, j = sch.get_loops(sch.get_sblock(name))
        _, lane = sch.split(j, [None, threads])
        sch.bind(i, "blockIdx.x")
        sch.bind(lane, "threadIdx.x")
    for name in ("e", "out"):
        fused = sch.fuse(*sch.get_loops(sch.get_sblock(name)))
        outer, lane = sch.split(fused, [None, 64])
        sch.bind(outer, "blockIdx.x")
        sch.bind(lane, "threadIdx.x")
    return Scheduled(sch.mod, as_workload(function))


def warp_product(
    read: str = "float16",
    kept: str = "float32",
    transposed: bool = False,
    scope: str = "shared.dyn",
    k: int = 64,
) -> Scheduled:
    """A 64 x 64 product of mma.sync and ldmatrix, as TVM's own example schedules it."""
    register_all()
    intrinsics = import_module("tvm.s_tir.tensor_intrin.cuda")
    inner = 32 if read == "int8" else 16

    def tiled(rows: int, columns: int, shape: str, fragment: str) -> Any:
        layout = getattr(intrinsics, f"shared_{shape}_to_ldmatrix_{fragment}_layout")
        return lambda i, j: (i // rows, j // columns, *layout(i % rows, j % columns))

    if read == "int8":
        map_a, map_c = tiled(16, 32, "16x32", "32x16"), tiled(16, 16, "16x16", "32x8")
        map_b = map_a if transposed else tiled(32, 16, "32x16", "32x16")
    else:
        map_a = map_b = map_c = tiled(16, 16, "16x16", "32x8")
    names = intrinsics.get_mma_intrin_group(
        scope, "global", read, kept, False, transposed, not_use_mma_store_intrinic=False
    )
    function = product(64, 64, k, read, kept, transposed)
    sch = mma_schedule(
        function,
        inner,
        read,
        transposed,
        [1, 1, 1, 2, 2],
        [1, 1, 2, 1, 2],
        [k // inner // 2, 2, 1],
        map_a,
        map_b,
        map_c,
        names["load_a"],
        names["load_b"],
        names["compute"],
        names["init"],
        names["store"],
        scope,
    )
    return Scheduled(sch.mod, as_workload(function))
