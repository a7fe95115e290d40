"""Operands of wgmma: where it expects elements, and the text of an intrinsic that reads them.

Sources: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", sections
"Register Fragments" and "Shared Memory Matrix Layout"; CUTLASS, ``mma_traits_sm90_gmma.hpp``.
"""

from __future__ import annotations

from dataclasses import dataclass
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


SHARED = "shared.dyn"
_PLAIN, _SWIZZLE_128 = 0, 3


class Text:
    """An index as text, for the layouts."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        """Return the expression."""
        return self._text

    def __floordiv__(self, other: Any) -> Text:
        return Text(f"({self} // {other})")

    def __mod__(self, other: Any) -> Text:
        return Text(f"({self} % {other})")

    def __mul__(self, other: Any) -> Text:
        return Text(f"({self} * {other})")

    def __add__(self, other: Any) -> Text:
        return Text(f"({self} + {other})")


def whole(name: str, shape: list[int]) -> str:
    """Return the region of a whole buffer: ``A[0:8, 0:64]``."""
    return f"{name}[{', '.join(f'0:{extent}' for extent in shape)}]"


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in shared memory, in the layout ``operand_layout``.

    Attributes
    ----------
    name: of its buffer: ``"A"``.
    rows, columns: as it is stored.
    dtype: of its elements, which have 16 bits.
    swizzled: in which layout.
    sums_along_rows: whether products are summed along its rows (K-major), or its columns.
    """

    name: str
    rows: int
    columns: int
    dtype: str
    swizzled: bool
    sums_along_rows: bool

    @property
    def shape(self) -> list[int]:
        """The shape of the buffer: columns, rows, and elements of a row of a column."""
        width = ATOM if self.swizzled else CHUNK
        return [self.columns // width, self.rows, width]

    @property
    def declaration(self) -> str:
        """The lines that match the buffer; the text has 4 spaces in front."""
        steps = [f"{self.name}{n}" for n in range(len(self.shape))]
        return "".join(f"    {step} = T.int32()\n" for step in steps) + (
            f"    {self.name} = T.match_buffer({self.name.lower()}, {self.shape}, {self.dtype!r}, "
            f"align=64, offset_factor={CHUNK}, scope={SHARED!r}, strides=[{', '.join(steps)}])\n"
        )

    @property
    def whole(self) -> str:
        """The region of all elements."""
        return whole(self.name, self.shape)

    def at(self, row: str, column: str) -> str:
        """Return the access to an element."""
        places = operand_layout(Text(row), Text(column), swizzled=self.swizzled)
        return f"{self.name}[{', '.join(map(str, places))}]"

    def descriptor(self, variable: str, line: int, term: int) -> str:
        """Return the statement that writes a descriptor of the part that starts at ``line``.

        ``line`` is a row of A or a column of B; ``term`` the first product that is summed.
        Distances count 16 bytes. (PTX ISA, "Matrix Descriptor Format"; "leading" and "stride" are
        those of CUTLASS's ``make_gmma_desc``.)
        """
        row, column = (line, term) if self.sums_along_rows else (term, line)
        beside = f"{self.name}0 // {CHUNK}"  # from a column of the buffer to the next one
        if self.swizzled:
            distances = ["1" if self.sums_along_rows else beside, "64"]
            mode = _SWIZZLE_128
        else:
            distances = [beside, "8"] if self.sums_along_rows else ["8", beside]
            mode = _PLAIN
        start = operand_layout(row, column, swizzled=self.swizzled)
        steps = enumerate(start)
        offset = " + ".join(f"{index} * {self.name}{n}" for n, index in steps)
        # An access pointer counts as a use, unlike an address: TVM would let operands share memory.
        return (
            f"T.cuda.wgmma.encode_matrix_descriptor(T.address_of({variable}), "
            f'{self.name}.access_ptr("r", offset={offset}), {", ".join(distances)}, {mode})'
        )
