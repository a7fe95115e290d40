"""Expressions of torch over named tensors: what they compute, as a workload and in torch itself."""

from __future__ import annotations

import ast
import builtins
import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import schedlang as sl
from schedlang.cli.verb import UsageError
from schedlang.errors import require
from schedlang.printed import nearest

if TYPE_CHECKING:
    from schedlang.cli.bench.torch_operators import Eager
    from schedlang.workloads.workload import Workload

_KNOWN = ("torch", "F", "math")


@dataclass(frozen=True)
class Expression:
    """An expression of torch, such as ``torch.softmax(x, -1)``. It is run.

    Besides its tensors and numbers it knows ``torch``, ``torch.nn.functional`` as ``F``, ``math``
    and Python's own functions. UsageError where it does not parse, or reads another name, or not
    every tensor.

    Attributes
    ----------
    text: the expression. Its value is one tensor.
    tensors: names of its tensors, in order. Those that ``torch.compile`` freezes have the names of
        a model's weights: ``weight``, ``w``, ``bias``, ``scale``, ``offset``, ``kernel``.
    numbers: further names, with their values.
    """

    text: str
    tensors: Sequence[str]
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [*self.tensors, *self.numbers]
        for name in names:
            if not name.isidentifier() or keyword.iskeyword(name) or name in _KNOWN:
                raise UsageError(f"{name!r} cannot be a name in an expression")
        try:
            tree = ast.parse(self.text, mode="eval")
        except SyntaxError as error:
            raise UsageError(f"{self.text!r} is no expression of Python: {error.msg}") from None
        read, bound = _names(tree)
        known = {*names, *_KNOWN, *bound, *vars(builtins)}
        for name in read:
            if name not in known:
                raise UsageError(
                    f"{self.text!r} reads {name!r}, which is no input{nearest(name, names)}"
                )
        for name in names:
            if name in self.tensors and name not in read:
                raise UsageError(f"{self.text!r} does not read the input {name!r}: leave it out")

    def reads(self, name: str) -> bool:
        """Whether the expression reads a name."""
        return name in _names(ast.parse(self.text, mode="eval"))[0]

    def __call__(self, tensors: Sequence[Any]) -> Eager:
        """Return the expression on these tensors, in order."""
        from schedlang.cli.bench.torch_operators import Eager

        if len(tensors) != len(self.tensors):
            raise UsageError(
                f"{self.text!r} is of {', '.join(self.tensors)}, and the program reads "
                f"{len(tensors)} tensors"
            )
        # The tensors are the free variables of the call: the compiler finds the weights by name.
        return Eager(
            self._made(f"lambda {', '.join(self.tensors)}: (lambda: {self.text})")(*tensors)
        )

    def workload(self, name: str, shapes: Mapping[str, Sequence[int]], dtype: str) -> Workload:
        """Return it as one program, whose arguments are its tensors and the result.

        Raises ``MissingExtraError`` without torch, and ``NetworkError`` for what cannot be
        imported, or merged into one program.
        """
        torch = require("torch", "a kernel that is an expression of torch")
        forward = self._made(f"lambda {', '.join(['self', *self.tensors])}: {self.text}")
        model = type("Expression", (torch.nn.Module,), {"forward": forward})()
        examples = [torch.zeros(tuple(shapes[one]), dtype=getattr(torch, dtype)) for one in shapes]
        return sl.import_network(model, tuple(examples), name=name, layout="as_is").as_workload()

    def _made(self, text: str) -> Any:
        torch = require("torch", "a kernel that is an expression of torch")
        known = {"torch": torch, "F": torch.nn.functional, "math": math, **self.numbers}
        return eval(text, known)


def _names(tree: ast.AST) -> tuple[list[str], set[str]]:
    """Return the names that an expression reads, and those that it binds itself."""
    read, bound = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                read.append(node.id)
            else:
                bound.add(node.id)
    return read, bound
