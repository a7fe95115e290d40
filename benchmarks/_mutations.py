"""Mutations of Python source: changes of one place each, by the operators of mutation testing.

====================  ==============================================================
operator              change
====================  ==============================================================
comparison            ``<`` and ``<=``, ``==`` and ``!=``, ``in`` and ``not in``, ...
constant              a number plus or minus 1
negation              a condition or a truth value, negated
arithmetic            ``+`` and ``-``, ``*`` and ``/``, ...; with ``=`` too
and, or               the one for the other
deletion              a call, an assignment to a part, ``raise``, ``continue``, ... left out
return                ``return None`` for any other value
arguments             the first two of a call, swapped
====================  ==============================================================

Nothing is changed in docstrings, annotations, decorators, assertions, warnings and the texts of
errors, under ``if TYPE_CHECKING``, and in arguments that only check (``zip(..., strict=True)``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# `|` is not among them: it joins dicts and types, and any other operator would only raise.
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
_LEFT_ALONE = {"annotation", "returns", "decorator_list", "bases", "exc", "cause"}
_SILENT_CALLS = ("Error", "Warning", "cast", "print", "warn")
_SILENT_KEYWORDS = {"stacklevel", "strict"}
_ABOUT = (ast.stmt, ast.JoinedStr, ast.pattern, ast.excepthandler, ast.match_case)
_DELETED = (ast.AugAssign, ast.Break, ast.Continue, ast.Delete, ast.Raise)


@dataclass(frozen=True)
class Mutation:
    """A change of one statement.

    Attributes
    ----------
    line, last: first and last line of the statement, without the statements in it.
    called: whether a call runs it, and not the import of the file.
    operator: as in the table above.
    before, after: source text of what changes.
    start: where ``before`` begins, in bytes of the source as UTF-8.
    """

    line: int
    last: int
    called: bool
    operator: str
    before: str
    after: str
    start: int

    def applied(self, source: str) -> str:
        """Return the source with the change."""
        text = source.encode()
        end = self.start + len(self.before.encode())
        return (text[: self.start] + self.after.encode() + text[end:]).decode()


def mutations(source: str) -> list[list[Mutation]]:
    """Return the mutations of each statement that has some, in the order of the source."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for statement, called in _statements(ast.parse(source), False):
        own = list(_own(statement))
        last = max((node.end_lineno for node in own[1:] if hasattr(node, "end_lineno")), default=0)
        lines = statement.lineno, max(statement.lineno, last)
        changes = []
        for node in own:
            for operator, place, changed in _changes(node):
                start = starts[place.lineno - 1] + place.col_offset
                end = starts[place.end_lineno - 1] + place.end_col_offset
                before, after = text[start:end].decode(), ast.unparse(changed)
                changes.append(Mutation(*lines, called, operator, before, after, start))
        if changes:
            found.append(changes)
    return found


def _statements(node: ast.AST, called: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the statements below a node, and whether calls run them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.stmt) and not isinstance(child, ast.Assert):
            yield child, called
        function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        yield from _statements(child, called or function)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and what may change in it, but for the statements in it."""
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in _LEFT_ALONE and not _silent(child):
                yield from _own(child)


def _silent(node: ast.AST) -> bool:
    """Return whether changes in a node are no changes of what the statement does."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith(_SILENT_CALLS)
    return isinstance(node, _ABOUT) or (
        isinstance(node, ast.keyword) and node.arg in _SILENT_KEYWORDS
    )


def _changes(node: ast.AST) -> Iterator[tuple[str, Any, ast.AST]]:
    """Yield the operators that change a node: each with what it replaces, and by what."""
    match node:
        case ast.Compare(left, operators, right):
            for k, one in enumerate(operators):
                changed = [*operators[:k], _COMPARISONS[type(one)](), *operators[k + 1 :]]
                yield "comparison", node, ast.Compare(left, changed, right)
        case ast.Constant(bool(value)):
            yield "negation", node, ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield "constant", node, ast.Constant(value + 1)
            yield "constant", node, ast.Constant(value - 1)
        case ast.UnaryOp(ast.Not(), operand):
            yield "negation", node, operand
        case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
            yield "arithmetic", node, ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
        case ast.AugAssign(target, operator, value) if type(operator) in _ARITHMETIC:
            changed_operator = _ARITHMETIC[type(operator)]()
            yield "arithmetic", node, ast.AugAssign(target, changed_operator, value)
        case ast.BoolOp(operator, values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "and, or", node, ast.BoolOp(other, values)
        case ast.Call(function, [first, second, *others], keywords):
            either = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
            if not either and ast.dump(first) != ast.dump(second):
                swapped = ast.Call(function, [second, first, *others], keywords)
                yield "arguments", node, swapped
        case ast.Return(ast.expr() as value) if ast.unparse(value) != "None":
            yield "return", node, ast.Return(ast.Constant(None))
    match node:
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            conditions = [test]
        case ast.comprehension(ifs=conditions):
            pass
        case _:
            conditions = []
    for condition in conditions:
        # What is negated already, or is a truth value, is the operand's.
        if not isinstance(condition, (ast.UnaryOp, ast.Constant)):
            yield "negation", condition, ast.UnaryOp(ast.Not(), condition)
    if _can_go(node):
        yield "deletion", node, ast.Pass()


def _can_go(node: ast.AST) -> bool:
    """Return whether the program still has its names without a statement."""
    match node:
        case ast.Expr(ast.Call() as call):
            return not _silent(call)
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            return True
        case ast.AnnAssign(ast.Attribute() | ast.Subscript(), value=ast.expr()):
            return True
    return isinstance(node, _DELETED)
