"""Tensor intrinsics of wgmma: a tile of a warpgroup's result, and its initial value.

The texts of the intrinsics contain where wgmma expects the elements of its operands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from schedlang.analysis.intrinsics import define_family

# -- Operands: where wgmma expects elements, and the text that reads them -------------------------

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
class WgmmaOperand:
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


_SHORT = {"float16": "f16", "bfloat16": "bf16"}
DTYPES = tuple((name, name, "float32") for name in _SHORT)
"""Types of A, B and the result."""
_LONG = {short: long for long, short in _SHORT.items()}
_BARRIER = f"T.evaluate(T.tvm_storage_sync({SHARED!r}))"
_PREFIX = "schedlang.wgmma_"


@dataclass(frozen=True, slots=True)
class WgmmaTile:
    """What a warpgroup multiplies at a time: ``rows`` x ``terms`` by ``terms`` x ``columns``.

    Attributes
    ----------
    rows, columns, terms: multiples of 64, 8 and 16. Where operands are swizzled, ``terms`` is one
        of 64, and so is ``columns`` unless B is transposed.
    dtype: of A and B, ``"float16"`` or ``"bfloat16"``; the result is float32.
    transposed: whether B is stored as ``B[n, k]``.
    swizzled: whether operands lie in rows of 128 bytes; see ``operand_layout``.
    """

    rows: int
    columns: int
    terms: int
    dtype: str
    transposed: bool
    swizzled: bool

    @property
    def product(self) -> str:
        """Name of the intrinsic that adds the product of two tiles to a result."""
        order = "nk" if self.transposed else "kn"
        layout = "swizzled" if self.swizzled else "plain"
        shape = f"{self.rows}x{self.columns}x{self.terms}"
        return f"{_PREFIX}{shape}_{_SHORT[self.dtype]}_{order}_{layout}"

    @property
    def fill(self) -> str:
        """Name of the intrinsic that sets a result to 0."""
        return f"{_PREFIX}fill_{self.rows}x{self.columns}"

    @property
    def operands(self) -> tuple[WgmmaOperand, WgmmaOperand]:
        """A and B as they lie in shared memory."""
        m, n, k = self.rows, self.columns, self.terms
        right = (n, k) if self.transposed else (k, n)
        return (
            WgmmaOperand("A", m, k, self.dtype, swizzled=self.swizzled, sums_along_rows=True),
            WgmmaOperand(
                "B", *right, self.dtype, swizzled=self.swizzled, sums_along_rows=self.transposed
            ),
        )


def product(tile: WgmmaTile) -> tuple[str, str]:
    """Return what multiplying two tiles computes, and how."""
    left, right = tile.operands
    result = [tile.rows // ROWS, tile.columns // 2]
    head = (
        "@T.prim_func(s_tir=True)\ndef intrinsic(a: T.handle, b: T.handle, c: T.handle) -> None:\n"
        + left.declaration
        + right.declaration
        + _result(result)
        + "    with T.sblock('root'):\n"
        + f"        T.reads({whole('C', result)}, {left.whole}, {right.whole})\n"
        + f"        T.writes({whole('C', result)})\n"
    )
    columns = ("vj", "vk") if tile.transposed else ("vk", "vj")
    loop = f"""\
        for i, j, k in T.grid({tile.rows}, {tile.columns}, {tile.terms}):
            with T.sblock("multiply"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                {_TOTAL} = {_TOTAL} + (
                    T.cast({left.at("vi", "vk")}, "float32")
                    * T.cast({right.at(*columns)}, "float32"))
"""
    return head + loop, head + _calls(tile)


def fill(rows: int, columns: int) -> tuple[str, str]:
    """Return what setting a result to 0 computes, and how."""
    result = [rows // ROWS, columns // 2]
    head = (
        "@T.prim_func(s_tir=True)\ndef intrinsic(c: T.handle) -> None:\n"
        + _result(result)
        + f"    with T.sblock('root'):\n        T.reads()\n        T.writes({whole('C', result)})\n"
    )
    loop = f"""\
        for i, j in T.grid({rows}, {columns}):
            with T.sblock("fill"):
                vi, vj = T.axis.remap("SS", [i, j])
                {_TOTAL} = T.float32(0)
"""
    threads = f"""\
        for tx in T.thread_binding({WARPGROUP}, "threadIdx.x"):
            for i, r in T.grid({result[0]}, {result[1]}):
                C[i, r] = T.float32(0)
"""
    return head + loop, head + threads


_TOTAL = f"C[{', '.join(map(str, result_layout(Text('vi'), Text('vj'))))}]"


def _result(shape: list[int]) -> str:
    return f"    C = T.match_buffer(c, {shape}, 'float32', offset_factor=1, scope='local')\n"


def _calls(tile: WgmmaTile) -> str:
    left, right = tile.operands
    short = _SHORT[tile.dtype]
    call = f"wgmma.mma_async.sync.aligned.m{ROWS}n{tile.columns}k{TERMS}.f32.{short}.{short}"
    lines = [
        # What a thread wrote becomes visible to tensor cores, then to those of all threads.
        "T.ptx.fence.proxy.async_.shared__cta()",
        _BARRIER,
        "T.ptx.wgmma.fence.sync.aligned()",
    ]
    for row in range(tile.rows // ROWS):
        # TVM's parser takes milliseconds for each expression that it takes apart; it has Python
        # evaluate a list as a whole.
        registers = f"*[C[{row}, r] for r in range({tile.columns // 2})]"
        for term in range(0, tile.terms, TERMS):
            lines += [
                left.descriptor("left", ROWS * row, term),
                right.descriptor("right", 0, term),
                f'T.ptx["{call}"]({registers}, left, right, T.bool(True), 1, 1, 0, '
                f"{int(not tile.transposed)})",
            ]
    lines += [
        "T.ptx.wgmma.commit_group.sync.aligned()",
        "T.ptx.wgmma.wait_group.sync.aligned(0)",
        # No thread writes the next tiles while the tensor cores of others read these.
        _BARRIER,
    ]
    # A pass for pipelines takes bare statements for stages, but not a loop.
    head = f"""\
        for tx in T.thread_binding({WARPGROUP}, "threadIdx.x"):
            for whole in T.serial(1):
                left: T.uint64
                right: T.uint64
"""
    return head + "".join(f"                {line}\n" for line in lines)


def _of_name(name: str) -> tuple[str, str]:
    shape = r"(?P<m>\d+)x(?P<n>\d+)"
    if (found := re.fullmatch(f"{re.escape(_PREFIX)}fill_{shape}", name)) is not None:
        return fill(int(found["m"]), int(found["n"]))
    rest = rf"x(?P<k>\d+)_(?P<type>{'|'.join(_LONG)})_(?P<order>nk|kn)_(?P<way>swizzled|plain)"
    if (found := re.fullmatch(f"{re.escape(_PREFIX)}{shape}{rest}", name)) is None:
        raise ValueError(f"no tensor intrinsic {name!r} is known; WgmmaTile.product makes names")
    m, n, k = (int(found[one]) for one in "mnk")
    flags = found["order"] == "nk", found["way"] == "swizzled"
    return product(WgmmaTile(m, n, k, _LONG[found["type"]], *flags))


define_family(_PREFIX, _of_name)
