"""Where wgmma expects elements: operands in shared memory, results in the registers of a warpgroup.

Sources: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", sections
"Register Fragments" and "Shared Memory Matrix Layout"; CUTLASS, ``mma_traits_sm90_gmma.hpp``.
"""

from __future__ import annotations

from typing import Any

WARPGROUP = 128
"""Threads of a warpgroup: four warps, each of which has 16 rows of the result."""
ROWS, TERMS = 64, 16
"""Rows of the result of one wgmma, and products that it sums."""
CHUNK = 8
"""Elements of 16 bits that lie together: 16 bytes."""
ATOM = 64
"""Elements of a row of 128 bytes, the width of the swizzle; its pattern repeats after 8 rows."""


def operand_layout(row: Any, column: Any, *, swizzled: bool) -> list[Any]:
    """Return the place of an element of a stored matrix.

    Plain: columns of 16 bytes: ``[column // 8, row, column % 8]``. A wgmma reads 8 rows of such a
    column at a time. Swizzled: columns of 128 bytes; of each row, the eight parts of 16 bytes are
    exchanged when code is generated: part p of row r becomes number ``p xor r % 8``.
    """
    width = ATOM if swizzled else CHUNK
    return [column // width, row, column % width]


def result_layout(row: Any, column: Any) -> list[Any]:
    """Return the register of an element of a result, of the thread that has it.

    Thread t of the warpgroup has the columns 2 * (t % 4) and the next one, of each 8, in the rows
    t // 4 % 8 and 8 further on, of the 16 rows of its warp.
    """
    return [row // ROWS, column // 8 * 4 + row % 16 // 8 * 2 + column % 2]
