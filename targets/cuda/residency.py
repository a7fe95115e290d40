"""How many blocks of a kernel a multiprocessor holds at a time, and what limits them.

CUDA's occupancy calculator: registers are given to warps in units of 256, and four warps share a
register file; shared memory is given to blocks in units of 128 bytes (256 before sm_80).
"""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.targets.cuda.limits import registers_of_warp
from schedlang.targets.cuda.machine import CUDAMachine

_FILES = 4
_SHARED_UNIT, _OLD_SHARED_UNIT = 128, 256


@dataclass(frozen=True)
class Occupancy:
    """How full a multiprocessor is.

    Attributes
    ----------
    blocks: blocks that are resident on one multiprocessor at a time; 0 if none fits.
    warps: share of its warps that they use, from 0 to 1.
    limited_by: ``"threads"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``.
    """

    blocks: int
    warps: float
    limited_by: str


def occupancy(
    target: CUDAMachine, *, threads: int, registers: int = 0, shared_bytes: int = 0
) -> Occupancy:
    """Return the occupancy of a kernel.

    Parameters
    ----------
    threads: of a block.
    registers: of a thread; 0 if that is not known.
    shared_bytes: of a block, static and dynamic together.
    """
    warps = -(-threads // target.warp_size)
    most_warps = target.max_threads_per_sm // target.warp_size
    limits = {"threads": most_warps // warps, "blocks": target.max_blocks_per_sm}
    if registers:
        of_file = target.registers_per_sm // _FILES
        of_warp = registers_of_warp(registers, target.warp_size)
        limits["registers"] = of_file // of_warp * _FILES // warps
    if shared_bytes:
        unit = _SHARED_UNIT if target.compute_capability >= (8, 0) else _OLD_SHARED_UNIT
        taken = -(-(shared_bytes + target.reserved_shared_bytes) // unit) * unit
        limits["shared memory"] = target.shared_bytes_per_sm // taken
    limited_by = min(limits, key=lambda name: limits[name])
    blocks = limits[limited_by]
    return Occupancy(blocks, blocks * warps / most_warps, limited_by)
