"""Stored arguments as Python source, for schedlang or for TVM alone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from schedlang.distributions import Distribution, distribution_to_json
from schedlang.expressions import IndexMap, IntExpr, IntOp
from schedlang.instructions.handles import BlockRV, LoopRV, handle_name

Expression = int | IntExpr | IndexMap
Render = Callable[[Expression], str]


def expression(expr: Expression) -> str:
    """Write an expression or an index map as schedlang's Python."""
    # Python's own min and max would compare the values, and index variables have none.
    text = re.sub(r"\bmin\(", "sl.minimum(", str(expr))
    return re.sub(r"\bmax\(", "sl.maximum(", text)


def tvm_expression(expr: Expression) -> str:
    """Write an expression or an index map as Python that needs TVM alone."""
    if isinstance(expr, IndexMap):
        outputs = [tvm_expression(output) for output in expr.outputs]
        tail = "," if len(outputs) == 1 else ""
        return f"lambda {', '.join(expr.inputs)}: ({', '.join(outputs)}{tail})"
    if isinstance(expr, IntOp):
        left, right = tvm_expression(expr.left), tvm_expression(expr.right)
        if expr.operation in ("min", "max"):
            return f"tvm.tirx.{expr.operation}({left}, {right})"
        return f"({left} {expr.operation} {right})"
    return str(expr)


def literal(content: Any, render: Render = expression) -> str:
    """Write stored content as Python source; ``render`` writes the expressions in it."""
    if isinstance(content, (BlockRV, LoopRV)):
        return handle_name(content)
    if isinstance(content, tuple):
        return "[" + ", ".join(literal(item, render) for item in content) + "]"
    if isinstance(content, dict):
        items = (f"{key!r}: {literal(item, render)}" for key, item in content.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(content, (IntExpr, IndexMap)):
        return render(content)
    if isinstance(content, Distribution):
        return f"sl.distribution_from_json({distribution_to_json(content)!r})"
    if isinstance(content, float) and not math.isfinite(content):
        return f'float("{content}")'
    return repr(content)
