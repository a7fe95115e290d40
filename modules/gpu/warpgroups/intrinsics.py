"""Tensor intrinsics of wgmma: a tile of a warpgroup's result, and its initial value."""

from __future__ import annotations

import re
from dataclasses import dataclass

from schedlang.analysis.intrinsics import define_family
from schedlang.modules.gpu.warpgroups.operand import (
    ROWS,
    SHARED,
    TERMS,
    WARPGROUP,
    Operand,
    Text,
    result_layout,
    whole,
)

_SHORT = {"float16": "f16", "bfloat16": "bf16"}
DTYPES = tuple((name, name, "float32") for name in _SHORT)
"""Types of A, B and the result."""
_LONG = {short: long for long, short in _SHORT.items()}
_BARRIER = f"T.evaluate(T.tvm_storage_sync({SHARED!r}))"
_PREFIX = "schedlang.wgmma_"


@dataclass(frozen=True, slots=True)
class Tile:
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
    def operands(self) -> tuple[Operand, Operand]:
        """A and B as they lie in shared memory."""
        m, n, k = self.rows, self.columns, self.terms
        right = (n, k) if self.transposed else (k, n)
        return (
            Operand("A", m, k, self.dtype, swizzled=self.swizzled, sums_along_rows=True),
            Operand(
                "B", *right, self.dtype, swizzled=self.swizzled, sums_along_rows=self.transposed
            ),
        )


def product(tile: Tile) -> tuple[str, str]:
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


def _calls(tile: Tile) -> str:
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
        raise ValueError(f"no tensor intrinsic {name!r} is known; Tile.product makes names")
    m, n, k = (int(found[one]) for one in "mnk")
    flags = found["order"] == "nk", found["way"] == "swizzled"
    return product(Tile(m, n, k, _LONG[found["type"]], *flags))


define_family(_PREFIX, _of_name)
