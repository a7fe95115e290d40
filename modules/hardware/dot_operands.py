"""The operands of AVX-512 dot-product instructions and the layout they need.

Such an instruction multiplies a few neighbours along k of one operand with each of 16 columns of
the other. It needs these neighbours next to each other in memory: ``B[j/16, k/4, 16, 4]``.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection

from schedlang.analysis import block_facts, has_trivial_binding, require
from schedlang.analysis.intrinsics import (
    Access,
    block_axes,
    block_reads,
    block_writes,
    host_features,
)
from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule

LANES = 16


def require_feature(module: str, feature: str, features: Collection[str] | None) -> None:
    """Raise NotApplicable unless ``feature`` is in ``features`` (None: this machine's).

    For this machine a UserWarning says so, too: the user has put the module into the space.
    """
    if isinstance(features, str):
        names = f"a set of names such as {{{feature!r}}}"
        raise SpaceError(f"{module}(features={features!r}): give {names}")
    if feature in (host_features() if features is None else features):
        return
    if features is None:
        warnings.warn(
            f"{module}: this machine's CPU has no {feature}, so its blocks are left to the other "
            "modules; for another machine give features=...",
            stacklevel=2,
        )
    require(False, f"the CPU has no {feature}")


def pack_operand_of_dots(
    sch: Schedule, block: BlockRV, dtypes: tuple[str, str, str], depth: int
) -> None:
    """Copy the second operand of ``C[.., j] += A[.., k] * B[k, j]`` for dot-product instructions.

    ::

        C reads B[k, j]   ->   parallel j0: for k0: unrolled j1, k1: P[j0, k0, j1, k1]; C reads P

    ``dtypes`` are those of A, B and C. An operand that is not indexed by plain variables is packed
    already and stays as it is. Raises NotApplicable with the condition that does not hold.
    """
    facts = block_facts(sch, block)
    reads, writes = block_reads(sch, block), block_writes(sch, block)
    require(facts.reads == 2 and facts.writes == 1 and facts.has_init, "it is no sum of products")
    found = (reads[0].dtype, reads[1].dtype, writes[0].dtype)
    names = [" x ".join(kinds[:2]) + " -> " + kinds[2] for kinds in (dtypes, found)]
    require(found == dtypes, f"it computes {names[1]}, not {names[0]}")
    require(has_trivial_binding(sch, block), "it is scheduled already")
    axes = block_axes(sch, block)
    j, k = writes[0].dims[-1], reads[0].dims[-1]
    require(j is not None and k is not None, "its last dimensions are not plain variables")
    assert j is not None and k is not None
    require(axes[k][0] == "R", "its first operand's last dimension is not summed over")
    require(j not in reads[0].variables and {j, k} <= reads[1].variables, "it is no matrix product")
    columns, steps = axes[j][1], axes[k][1]
    require(columns % LANES == 0, f"{columns} columns are no multiple of {LANES}")
    require(steps % depth == 0, f"{steps} steps are no multiple of {depth}")
    if {j, k} <= set(reads[1].dims):
        _pack(sch, block, reads[1], j, k, depth)


def _pack(sch: Schedule, block: BlockRV, read: Access, j: int, k: int, depth: int) -> None:
    column, step = read.dims.index(j), read.dims.index(k)
    rest = [d for d in range(len(read.dims)) if d not in (column, step)]
    copy = sch.cache_read(block, 1, "global")
    sch.transform_layout(
        copy,
        ("write", 0),
        lambda *x: (
            *(x[d] for d in rest),
            x[column] // LANES,
            x[step] // depth,
            x[column] % LANES,
            x[step] % depth,
        ),
    )
    loops = sch.get_loops(copy)
    columns, lane = sch.split(loops[column], [None, LANES])
    steps, part = sch.split(loops[step], [None, depth])
    outer = [loops[d] for d in rest]
    sch.reorder(*outer, columns, steps, lane, part)
    sch.parallel(sch.fuse(*outer, columns) if outer else columns)
    sch.unroll(lane)
    sch.unroll(part)
