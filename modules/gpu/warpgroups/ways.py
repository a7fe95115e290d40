"""The ways in which operands of wgmma may lie in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.analysis import require
from schedlang.analysis.einsum import MatrixProduct
from schedlang.analysis.intrinsics import block_reads
from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.warpgroups.intrinsics import DTYPES

LAYOUTS = ("swizzled", "plain")
# Of B in the order in which memory has it: others are copied element by element.
_SAME_ORDER = 0.9


@dataclass(frozen=True, slots=True)
class Way:
    """How operands lie in shared memory.

    Attributes
    ----------
    swizzled: in rows of 128 bytes, see ``operand_layout``.
    transposed: B is stored as ``B[n, k]``.
    """

    swizzled: bool
    transposed: bool


def choose_way(
    sch: Schedule, block: BlockRV, product: MatrixProduct, name: str, layouts: Sequence[str]
) -> Way:
    """Choose among ``layouts`` and both orders of B; ``name`` is for the site.

    Raises NotApplicable where wgmma does not compute the types, SpaceError for an unknown layout.
    """
    if isinstance(layouts, str) or not layouts or set(layouts) - set(LAYOUTS):
        raise SpaceError(f"UseWGMMA(layouts={layouts!r}): it takes a list of some of {LAYOUTS}")
    left, right, result = product.dtypes
    require(product.dtypes in DTYPES, f"wgmma does not compute {left} x {right} -> {result}")
    last = block_reads(sch, block)[product.right].dims[-1]
    transposed = 0.5
    if last in (*product.columns, *product.terms):
        transposed = _SAME_ORDER if last in product.terms else 1 - _SAME_ORDER
    ways, probs = {}, []
    for layout in layouts:
        for order, prob in ((False, 1 - transposed), (True, transposed)):
            ways[layout + "_trans" * order] = Way(layout == "swizzled", order)
            probs.append(prob / len(layouts))
    return ways[sch.choose(f"wgmma:{name}", list(ways), probs)]
