"""Whether a program writes each element of a tensor before it reads it.

The accesses to one tensor are read into a small tree. A box of elements that a part of the tree
certainly writes is known to all that runs after it: the union over a loop's iterations after the
loop, that over the iterations so far inside it. A read is proven if such a box contains it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tvm import tirx
from tvm.ir import Range
from tvm.sym import Analyzer
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.access_tree import (
    AccessBranch,
    AccessLoop,
    AccessSteps,
    AccessTree,
    Bounds,
    Node,
    Read,
    Repeated,
    Unclear,
    Write,
)
from schedlang.tvm.values import constant, mentions, substituted

# Boxes that are remembered at a time; most programs have two or three.
_MOST_BOXES = 16


def is_written_first(func: tirx.PrimFunc, tensor: Any, fixed: frozenset[Any]) -> bool:
    """Return whether every element of ``tensor`` that is read is provably written before.

    ``fixed`` are the tensors whose elements never change: indices may depend on them.
    """
    try:
        tree = AccessTree(func, tensor, fixed).root
    except Unclear:
        return False
    return tree is not None and _Proof(tensor).holds(tree)


def is_read_first(func: tirx.PrimFunc, tensor: Any, fixed: frozenset[Any]) -> bool:
    """Return whether the first access to ``tensor`` is certainly a read."""
    try:
        tree = AccessTree(func, tensor, fixed).root
    except Unclear:
        return False
    return tree is not None and _Proof(tensor).first(tree) is Read


class _Proof:
    """Knows the ranges of loops, and the conditions around what is looked at."""

    def __init__(self, tensor: Any) -> None:
        self._shape = list(tensor.ty.shape)
        self._analyzer = Analyzer()
        self._written: dict[int, list[Bounds]] = {}

    # -- what is asked ---------------------------------------------------------------------------

    def holds(self, node: Node, known: list[Bounds] | None = None) -> bool:
        """Return whether all reads are of elements in the ``known`` boxes, or written before."""
        known = known or []
        if isinstance(node, Read):
            never = any(self._proves(tirx.Not(it)) for it in node.conditions)
            with self._under(node.conditions):
                return never or any(self._holds(box, node.bounds) for box in known)
        if isinstance(node, AccessSteps):
            for part in node.parts:
                if not self.holds(part, known):
                    return False
                known = self._with(known, self._writes(part))
            return True
        if isinstance(node, AccessLoop):
            self._bind(node)
            if node.in_order:
                before = self._union(node.var, node.low, node.var, self._writes(node.body))
                known = self._with(known, before)
            return self.holds(node.body, known)
        if isinstance(node, AccessBranch):
            for conditions, part in self._cases(node):
                with self._under(conditions):
                    if not self.holds(part, known):
                        return False
            return True
        return not isinstance(node, Repeated) or self.holds(node.body, known)

    def first(self, node: Node) -> type | None:
        """Return what the first access is: Read, Write, Unclear; None where there is no access."""
        if isinstance(node, Read):
            return Read if node.certain and not node.conditions else Unclear
        if isinstance(node, Write):
            return Write
        if isinstance(node, AccessSteps):
            return next((it for it in map(self.first, node.parts) if it is not None), None)
        if isinstance(node, AccessLoop):
            self._bind(node)
            if (constant(node.extent) or 0) > 0:
                return self.first(node.body)
            return None if self.first(node.body) is None else Unclear
        if isinstance(node, AccessBranch):
            found = [self.first(part) for _, part in self._cases(node)]
            if len(found) == 1 and self._is_decided(node):
                return found[0]
            return Unclear if any(found) else None
        return None if self.first(node.body) is None else Unclear

    # -- what is written -------------------------------------------------------------------------

    def _writes(self, node: Node) -> list[Bounds]:
        """Return boxes of elements that are certainly written when the node has run."""
        if id(node) not in self._written:
            self._written[id(node)] = self._find_writes(node)
        return self._written[id(node)]

    def _find_writes(self, node: Node) -> list[Bounds]:
        if isinstance(node, Write):
            return [node.bounds]
        if isinstance(node, AccessSteps):
            found: list[Bounds] = []
            for part in node.parts:
                found = self._with(found, self._writes(part))
            return found
        if isinstance(node, AccessLoop):
            self._bind(node)
            end = node.low + node.extent
            return self._union(node.var, node.low, end, self._writes(node.body))
        if isinstance(node, AccessBranch):
            cases = self._cases(node)
            if self._is_decided(node):
                return [box for _, part in cases for box in self._writes(part)]
            return self._common(cases) if len(cases) == 2 else []
        return []

    def _common(self, cases: list[tuple[tuple[Any, ...], Node]]) -> list[Bounds]:
        """Return boxes of one case that the other case writes too."""
        found: list[Bounds] = []
        written = []
        for conditions, part in cases:
            with self._under(conditions):
                written.append(self._writes(part))
        for boxes, others, (conditions, _) in zip(written, written[::-1], cases[::-1], strict=True):
            with self._under(conditions):
                found += [it for it in boxes if any(self._contains(one, it) for one in others)]
        return found

    def _union(self, var: Any, low: Any, end: Any, boxes: list[Bounds]) -> list[Bounds]:
        """Return what iterations from ``low`` up to ``end`` write, where that is a box."""
        some = self._proves(low < end)
        found: list[Bounds] = []
        for box in boxes:
            moving = [axis for axis, bounds in enumerate(box) if mentions_any(bounds, var)]
            if not moving:
                found += [box] if some else []
            elif len(moving) == 1:
                [axis] = moving
                swept = self._swept(var, low, end, box[axis], some=some)
                found += [] if swept is None else [(*box[:axis], swept, *box[axis + 1 :])]
        return found

    def _swept(
        self, var: Any, low: Any, end: Any, bounds: tuple[Any, Any], *, some: bool
    ) -> tuple[Any, Any] | None:
        """Return the union of intervals that move with a loop, each beside the one before.

        An empty loop must give an empty interval, or have ``some`` iterations.
        """
        first, stop = bounds
        next_first, next_stop = (substituted(it, {var: var + 1}) for it in bounds)
        (low_first, low_stop), (last_first, last_stop), (early_first, early_stop) = (
            tuple(substituted(it, {var: place}) for it in bounds)
            for place in (low, end - 1, low - 1)
        )
        up = self._at_most(first, next_first) and self._at_most(stop, next_stop)
        if up and self._at_most(next_first, stop):
            if some or self._at_most(early_stop, low_first):
                return low_first, last_stop
        down = self._at_most(next_first, first) and self._at_most(next_stop, stop)
        if down and self._at_most(first, next_stop):
            if some or self._at_most(low_stop, early_first):
                return last_first, low_stop
        return None

    def _with(self, known: list[Bounds], new: list[Bounds]) -> list[Bounds]:
        """Return the boxes, and what they make up together."""
        known = list(known)
        pending = list(new)
        while pending and len(known) < _MOST_BOXES:
            box = pending.pop(0)
            if any(self._contains(one, box) for one in known):
                continue
            merged = (self._merged(one, box) or self._merged(box, one) for one in list(known))
            pending += [one for one in merged if one is not None]
            known.append(box)
        return known

    def _merged(self, one: Bounds, other: Bounds) -> Bounds | None:
        """Return a box within the union of two, of which the other continues one along an axis."""
        for axis, ((low, high), (start, stop)) in enumerate(zip(one, other, strict=True)):
            if not (
                self._at_most(low, start)
                and self._at_most(start, high)
                and self._at_most(high, stop)
            ):
                continue
            pairs = [*zip(one, other, strict=True)]
            narrower = [self._narrower(*pair) for pair in pairs[:axis] + pairs[axis + 1 :]]
            rest = [bounds for bounds in narrower if bounds is not None]
            if len(rest) == len(narrower):
                return (*rest[:axis], (low, stop), *rest[axis:])
        return None

    def _narrower(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any] | None:
        for inner, outer in ((one, other), (other, one)):
            if self._contains((outer,), (inner,)):
                return inner
        return None

    # -- proofs ----------------------------------------------------------------------------------

    def _cases(self, node: AccessBranch) -> list[tuple[tuple[Any, ...], Node]]:
        """Return the parts that may run, each with its conditions."""
        opposite = tirx.Not(node.condition)
        cases: list[tuple[tuple[Any, ...], Node | None]]
        if self._proves(node.condition):
            cases = [((), node.yes)]
        elif self._proves(opposite):
            cases = [((), node.no)]
        else:
            cases = [((node.condition,), node.yes), ((opposite,), node.no)]
        return [(conditions, part) for conditions, part in cases if part is not None]

    def _is_decided(self, node: AccessBranch) -> bool:
        return self._proves(node.condition) or self._proves(tirx.Not(node.condition))

    def _bind(self, loop: AccessLoop) -> None:
        self._analyzer.bind(loop.var, Range(loop.low, loop.low + loop.extent), allow_override=True)

    def _under(self, conditions: tuple[Any, ...]) -> ExitStack:
        stack = ExitStack()
        for condition in conditions:
            stack.enter_context(self._analyzer.constraint_scope(condition))
        return stack

    def _holds(self, box: Bounds, part: Bounds) -> bool:
        """Return whether a box contains what a program may read: no access leaves the tensor."""
        return all(
            self._contains((own,), (read,))
            or (self._proves(own[0] <= 0) and self._at_most(extent, own[1]))
            for own, read, extent in zip(box, part, self._shape, strict=True)
        )

    def _contains(self, box: Bounds, part: Bounds) -> bool:
        return all(
            self._at_most(low, start) and self._at_most(stop, high)
            for (low, high), (start, stop) in zip(box, part, strict=True)
        )

    def _at_most(self, one: Any, other: Any) -> bool:
        return structural_equal(one, other) or self._proves(one <= other)

    def _proves(self, condition: Any) -> bool:
        if isinstance(condition, bool):
            return condition
        return bool(self._analyzer.can_prove(condition))


def mentions_any(bounds: tuple[Any, Any], var: Any) -> bool:
    """Return whether either end of an interval depends on a variable."""
    return any(mentions(end, [var]) for end in bounds if not isinstance(end, int))
