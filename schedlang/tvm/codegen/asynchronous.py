"""Programs that copy to shared memory asynchronously.

TVM generates such copies only under an option of its pass context. Without it, a program that asks
for them gets their barriers and synchronous copies.
"""

from __future__ import annotations

from tvm.ir import IRModule
from tvm.tirx import For
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_walk

_ANNOTATION = "software_pipeline_async_stages"
ASYNC_COPY = "tirx.use_async_copy"
"""The option of TVM's pass context."""


def copies_asynchronously(mod: IRModule) -> bool:
    """Return whether a loop of ``mod`` has asynchronous stages (``modules.gpu.pipeline``)."""
    found: list[bool] = []
    for function in mod.functions.values():
        if isinstance(function, PrimFunc):
            loops = (For, lambda loop: found.append(_ANNOTATION in loop.annotations))
            structural_walk(function.body, loops)
    return any(found)
