"""A table of a CUDA target's properties, with the source of each value."""

from __future__ import annotations

from schedlang.targets.cuda.machine import CUDAMachine
from schedlang.targets.description import table

_NUMBERS = (
    "sms",
    "warp_size",
    "max_threads_per_block",
    "max_threads_per_sm",
    "max_blocks_per_sm",
    "registers_per_block",
    "registers_per_sm",
    "max_registers_per_thread",
)
_SIZES = (
    "shared_bytes",
    "shared_bytes_optin",
    "shared_bytes_per_sm",
    "reserved_shared_bytes",
    "l2_bytes",
)
_RATES = ("memory_bytes_per_second", "peak_flops", "peak_matrix_flops")
_KIB = 1 << 10


def describe(target: CUDAMachine) -> str:
    """Write the key, then a line for each attribute: name, value and source."""
    values = {"arch": target.arch}
    values |= {key: str(getattr(target, key)) for key in _NUMBERS}
    values |= {key: f"{getattr(target, key) // _KIB} KiB" for key in _SIZES}
    values |= {key: f"{getattr(target, key):.3g}" for key in _RATES}
    return table(target.key, values, target.sources)
