"""Structural keys: identify a program by what it computes, not by names or notation.

They are equal for programs that compute the same, or that may share schedules.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlang.errors import WorkloadError
from schedlang.tvm import program
from schedlang.tvm.canonical_graph import TermGraph, canonical_form
from schedlang.tvm.packing import LAYOUT_FREE, weight_positions
from schedlang.tvm.program_graph import ProgramGraph, program_graph, skeleton

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorFunction, TensorProgram


# Part of what is hashed: raise it when the rules change, so that old and new keys never meet.
RULES = "schedlang structure 1"
KIN_RULES = "schedlang kin 1"
# deplodock, rule 5: operators of one execution unit, and whether the operands then commute. The
# label of a value's operator begins with its name; operators in indices have other labels.
_CLUSTERS = {
    "add": ("add or sub", True),
    "sub": ("add or sub", True),
    "div": ("div or mod", False),
    "mod": ("div or mod", False),
    "floordiv": ("div or mod", False),
    "floormod": ("div or mod", False),
    "eq": ("compare", True),
    "ne": ("compare", True),
    "lt": ("compare", True),
    "le": ("compare", True),
}


@dataclass(frozen=True, slots=True)
class Structure:
    """The structural keys of a program.

    Attributes
    ----------
    exact: 32 hex digits. Names, the order of parameters, loops and dimensions of extent 1, the
        order of the operands of commutative operators, the order of the free axes of a nest and
        how indices are written do not count; all else does. Two programs with equal keys compute
        the same function of distinct tensors: parameter ``one.parameters[k]`` of one is parameter
        ``other.parameters[k]`` of the other, reshaped where they differ by dimensions of extent 1.
        Equal means every bit, except for what ``min`` and ``max`` return for NaN and for zeros of
        both signs, and where the compiler contracts one product of ``a * b + c * d``.
    family: as ``exact``, but operators of values that run on one execution unit count as one: add
        and sub; div and mod; comparisons. Which parameters are weights (``layout_free_buffers``)
        does not count. Programs of one family have the same loops, so they may
        share schedules, but compute different functions.
    kin: equal for programs with the same skeleton (``schedlang.tvm.program_graph``): extents,
        strides, padding and other numbers do not count, nor what an element-wise block computes of
        what it loads. The decisions of one such program can be carried over to another:
        convolutions of any sizes, 1x1 and 3x3, with and without padding. The order of axes counts,
        weights do not.
    parameters: positions in the signature, in canonical order.
    blocks: names of the blocks below the root, in program order.

    A program with a construct that is not analysed (``match_buffer``, ``while``, calls with
    effects, strided buffers, ...) has for all keys ``"tvm:"`` and TVM's structural hash, which
    disregards names only, and its parameters in the order of the signature.
    """

    exact: str
    family: str
    kin: str
    parameters: tuple[int, ...]
    blocks: tuple[str, ...]


def structure_of(func_or_mod: TensorFunction | TensorProgram) -> Structure:
    """The structure of a PrimFunc, or of the only one of a module."""
    func = _only_function(func_or_mod)
    blocks = tuple(str(realize.block.name_hint) for realize in program.block_realizes(func))
    found = program_graph(func)
    if found is None:
        key = f"tvm:{program.structural_key(program.as_main(func))}"
        return Structure(key, key, key, tuple(range(len(func.params))), blocks)
    form = canonical_form(found.graph, found.root)
    family = canonical_form(*_clustered(*_without_weights(func, found)))
    positions = range(len(found.parameters))
    order = sorted(positions, key=lambda position: form.ranks[found.parameters[position]])
    exact = _hash(f"{RULES}\nexact\n{form.text}")
    bones = skeleton(func)
    return Structure(
        exact,
        _hash(f"{RULES}\nfamily\n{family.text}"),
        exact if bones is None else _hash(f"{KIN_RULES}\n{bones}"),
        tuple(order),
        blocks,
    )


def _without_weights(func: TensorFunction, found: ProgramGraph) -> tuple[TermGraph, int]:
    """Return the graph of a function that does not say which parameters are weights.

    Where they are packed ahead the latencies are others, and the schedules that are good are not.
    """
    if not weight_positions(func):
        return found.graph, found.root
    plain = program_graph(func.without_attr(LAYOUT_FREE))
    assert plain is not None
    return plain.graph, plain.root


def _only_function(func_or_mod: TensorFunction | TensorProgram) -> TensorFunction:
    if isinstance(func_or_mod, program.TensorFunction):
        return func_or_mod
    functions = program.named_functions(func_or_mod)
    if len(functions) != 1:
        raise WorkloadError(
            f"structure_of takes a PrimFunc or a module with one, not with {len(functions)}: "
            'give it mod["name"]'
        )
    return next(iter(functions.values()))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _clustered(graph: TermGraph, root: int) -> tuple[TermGraph, int]:
    """The graph with the operators of each cluster as one, and the number of its root."""
    folded = TermGraph()
    numbers: list[int] = []
    for node in graph.nodes:
        ordered = [numbers[child] for child in node.ordered]
        unordered = [numbers[child] for child in node.unordered]
        name, _, dtype = node.label.partition(" ")
        if node.leaf:
            numbers.append(folded.leaf(node.label))
        elif name in _CLUSTERS:
            cluster, commutes = _CLUSTERS[name]
            if commutes:
                ordered, unordered = [], ordered + unordered
            numbers.append(folded.term(f"{cluster} {dtype}", ordered, unordered))
        else:
            numbers.append(folded.term(node.label, ordered, unordered))
    return folded, numbers[root]


# -- How alike the extents of two programs are ----------------------------------------------------

# Weight of each factor of two that divides only one of two extents, and the most that count: a tile
# of 16 fits 768 as it fits 512, and not 771.
_WEIGHT_OF_TWOS, _MOST_TWOS = 0.35, 4


def coordinates(extents: Iterable[int]) -> list[float]:
    """Return numbers of which the absolute differences add up to the distance of two programs.

    Two for each extent: its logarithm, and the powers of two that divide it.
    """
    found = []
    for extent in extents:
        number = max(int(extent), 1)
        twos = (number & -number).bit_length() - 1
        found += [math.log(number), _WEIGHT_OF_TWOS * min(twos, _MOST_TWOS)]
    return found
