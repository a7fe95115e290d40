"""Canonical forms of graphs of terms: equal for two graphs that differ only in numbering.

Colour refinement (Weisfeiler and Leman) with individualisation of ties, after McKay and Piperno,
Practical graph isomorphism II (2014), sections 2.2 and 2.3.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

# Maximum number of complete orders compared; beyond it, ties are broken by node number.
# A term with n interchangeable operands needs n * n / 2 comparisons.
LARGEST_SEARCH = 128


@dataclass(frozen=True, slots=True)
class Vertex:
    """One node: its label, its operands in order, and its operands that commute (sorted)."""

    label: str
    ordered: tuple[int, ...] = ()
    unordered: tuple[int, ...] = ()
    leaf: bool = False


@dataclass(slots=True)
class TermGraph:
    """Terms over leaves; a term refers to its operands by node number, all smaller than its own.

    Every call of ``leaf`` makes a new node; equal terms share one node (hash consing).
    """

    nodes: list[Vertex] = field(default_factory=list)
    _numbers: dict[Vertex, int] = field(default_factory=dict)

    def leaf(self, label: str) -> int:
        """Add a leaf; it differs from every other leaf, even one with the same label."""
        self.nodes.append(Vertex(label, leaf=True))
        return len(self.nodes) - 1

    def term(self, label: str, ordered: Iterable[int] = (), unordered: Iterable[int] = ()) -> int:
        """Return the node of the term with these operands; add it if it is new."""
        node = Vertex(label, tuple(ordered), tuple(sorted(unordered)))
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]


@dataclass(frozen=True, slots=True)
class CanonicalForm:
    """A graph in canonical order.

    Attributes
    ----------
    text: label and operands of each node, in canonical order. The text determines the graph up to
        node numbers, so equal texts always mean equal graphs. The converse, equal texts for equal
        graphs, depends on the order being canonical.
    ranks: canonical position of each node that the root reaches, by node number.
    """

    text: str
    ranks: dict[int, int]


def canonical_form(graph: TermGraph, root: int) -> CanonicalForm:
    """Return the canonical form of the subgraph that ``root`` reaches.

    If that takes more than ``LARGEST_SEARCH`` comparisons of orders, equal graphs may get different
    texts. Different graphs never get equal texts.
    """
    reached = _reached(graph.nodes, root)
    number = {old: new for new, old in enumerate(reached)}
    nodes = []
    for old in reached:
        node = graph.nodes[old]
        ordered = tuple(number[child] for child in node.ordered)
        nodes.append(Vertex(node.label, ordered, tuple(number[child] for child in node.unordered)))
    leaf = _CanonicalSearch(nodes).run()
    return CanonicalForm(leaf.text, {old: leaf.colours[number[old]] for old in reached})


def _reached(nodes: list[Vertex], root: int) -> list[int]:
    seen, pending = {root}, [root]
    while pending:
        node = nodes[pending.pop()]
        for child in (*node.ordered, *node.unordered):
            if child not in seen:
                seen.add(child)
                pending.append(child)
    return sorted(seen)


@dataclass(slots=True)
class _Colouring:
    """An ordered partition of the nodes into cells.

    A node's colour is the number of nodes in the preceding cells, so splitting one cell does not
    change the colours of the others. ``cells`` maps each colour to its nodes.
    """

    colours: list[int]
    cells: dict[int, list[int]]

    def copy(self) -> _Colouring:
        return _Colouring(list(self.colours), {k: list(cell) for k, cell in self.cells.items()})


@dataclass(frozen=True, slots=True)
class _Coloring:
    """A colouring with one node in each cell, and the graph written in that order."""

    text: str
    colours: list[int]


class _CanonicalSearch:
    """The search tree of colourings; each edge individualises one node of a tied cell."""

    def __init__(self, nodes: list[Vertex]) -> None:
        self._nodes = nodes
        self._uses: list[list[tuple[int, int]]] = [[] for _ in nodes]
        for user, node in enumerate(nodes):
            for position, child in enumerate(node.ordered):
                self._uses[child].append((position, user))
            for child in node.unordered:
                self._uses[child].append((-1, user))
        self._leaves = 0

    def run(self) -> _Coloring:
        by_label: dict[str, list[int]] = {}
        for number, node in enumerate(self._nodes):
            by_label.setdefault(node.label, []).append(number)
        colouring = _Colouring([0] * len(self._nodes), {})
        colour = 0
        for label in sorted(by_label):
            self._set_cell(colouring, colour, by_label[label])
            colour += len(by_label[label])
        self._refine(colouring, set(colouring.cells))
        return self._best(colouring)[0]

    def _best(self, colouring: _Colouring) -> tuple[_Coloring, _Coloring]:
        """Return the leaf with the smallest text below ``colouring``, and the leaf of ``_first``.

        If the first leaves below two members of a cell have equal texts, an automorphism maps one
        member to the other and fixes all nodes individualised so far. Both subtrees then hold the
        same texts, and only one is searched.
        """
        cell = _smallest_tie(colouring)
        if cell is None:
            leaf = self._leaf(colouring)
            return leaf, leaf
        best = first = None
        firsts = set()
        for member in colouring.cells[cell]:
            child = self._individualised(colouring, member)
            if best is not None and self._leaves >= LARGEST_SEARCH:
                break
            if best is not None and self._first(child).text in firsts:
                continue
            found, child_first = self._best(child)
            firsts.add(child_first.text)
            first = first or child_first
            best = min(best or found, found, key=lambda leaf: leaf.text)
        assert best is not None and first is not None
        return best, first

    def _first(self, colouring: _Colouring) -> _Coloring:
        """Return the leaf reached by individualising the first member of each tied cell."""
        while (cell := _smallest_tie(colouring)) is not None:
            colouring = self._individualised(colouring, colouring.cells[cell][0])
        return self._leaf(colouring)

    def _individualised(self, colouring: _Colouring, member: int) -> _Colouring:
        child = colouring.copy()
        colour = child.colours[member]
        others = [other for other in child.cells[colour] if other != member]
        self._set_cell(child, colour, [member])
        self._set_cell(child, colour + 1, others)
        self._refine(child, self._cells_beside(child, others))
        return child

    def _refine(self, colouring: _Colouring, affected: set[int]) -> None:
        """Split cells until all members of a cell have operands and users of the same colours."""
        pending = sorted(affected)
        while pending:
            colour = heapq.heappop(pending)
            affected.discard(colour)
            members = colouring.cells[colour]
            if len(members) == 1:
                continue
            signed = sorted((self._signature(colouring.colours, one), one) for one in members)
            if signed[0][0] == signed[-1][0]:
                continue
            groups: list[list[int]] = []
            for place, (signature, member) in enumerate(signed):
                if place == 0 or signature != signed[place - 1][0]:
                    groups.append([])
                groups[-1].append(member)
            for group in groups:
                self._set_cell(colouring, colour, group)
                colour += len(group)
            moved = [member for group in groups[1:] for member in group]
            for other in self._cells_beside(colouring, moved) - affected:
                affected.add(other)
                heapq.heappush(pending, other)

    def _signature(self, colours: list[int], number: int) -> tuple[list[int], list[int], list[int]]:
        node = self._nodes[number]
        size = len(colours)
        return (
            [colours[child] for child in node.ordered],
            sorted([colours[child] for child in node.unordered]),
            sorted([position * size + colours[user] for position, user in self._uses[number]]),
        )

    def _cells_beside(self, colouring: _Colouring, members: list[int]) -> set[int]:
        colours = colouring.colours
        beside: set[int] = set()
        for member in members:
            node = self._nodes[member]
            beside.update(colours[child] for child in (*node.ordered, *node.unordered))
            beside.update(colours[user] for _, user in self._uses[member])
        return beside

    def _set_cell(self, colouring: _Colouring, colour: int, members: list[int]) -> None:
        colouring.cells[colour] = members
        for member in members:
            colouring.colours[member] = colour

    def _leaf(self, colouring: _Colouring) -> _Coloring:
        self._leaves += 1
        colours = colouring.colours
        lines = [""] * len(colours)
        for number, node in enumerate(self._nodes):
            ordered = [colours[child] for child in node.ordered]
            unordered = sorted([colours[child] for child in node.unordered])
            lines[colours[number]] = f"{ascii(node.label)} {ordered} {unordered}"
        return _Coloring("\n".join(lines), colours)


def _smallest_tie(colouring: _Colouring) -> int | None:
    """Return the colour of the first smallest cell with several members; None if there is none."""
    ties = [(len(cell), colour) for colour, cell in colouring.cells.items() if len(cell) > 1]
    return min(ties)[1] if ties else None
