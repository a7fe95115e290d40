"""A graph of torch in parts, cut where an operator may fail, so that what is around it is ours."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from schedlang.errors import require
from schedlang.networks.torch_backend.hazards import is_harmless

# Of fewer operators, a call of a network takes longer than they do.
_LEAST = 2


def in_parts(torch: Any, module: Any, part: Callable[[Any], Any]) -> Any | None:
    """Return a module that computes the same, in parts; None where it has no part to compile.

    ``part`` makes what runs a part: it gets a module, and returns a callable. Operators that may
    fail, by their names, stand in parts of their own, which torch runs. What goes from part to
    part is tensors: else there is no cut.
    """
    numbers = _numbers(torch, module)
    if max(numbers.values(), default=0) == 0 or not _cuts_tensors_only(torch, module, numbers):
        return None
    split = require("torch.fx.passes.split_module", "torch.compile").split_module(
        module, None, numbers.__getitem__, keep_original_order=True
    )
    found = False
    for name, one in list(split.named_children()):
        nodes = [node for node in one.graph.nodes if _is_call(node)]
        if len(nodes) >= _LEAST and all(_is_harmless(torch, node) for node in nodes):
            setattr(split, name, _run_by(torch, one, part))
            found = True
    return split if found else None


def _numbers(torch: Any, module: Any) -> dict[Any, int]:
    """Return the number of the part of each call; fields of a result stay with the result."""
    numbers: dict[Any, int] = {}
    last, harmless = 0, True
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        source = node.args[0] if node.target is operator.getitem else None
        if source in numbers and not _is_tensor(torch, source):
            numbers[node] = numbers[source]
            continue
        safe = _is_harmless(torch, node)
        if numbers and not (safe and harmless):
            last += 1
        numbers[node], harmless = last, safe
    return numbers


def _cuts_tensors_only(torch: Any, module: Any, numbers: dict[Any, int]) -> bool:
    """Tell whether all that one part makes and another takes is tensors."""
    return all(
        _is_tensor(torch, node)
        for node, number in numbers.items()
        if node.op != "get_attr" and any(numbers.get(user) != number for user in node.users)
    )


def _is_call(node: Any) -> bool:
    return bool(node.op.startswith("call_"))


def _is_harmless(torch: Any, node: Any) -> bool:
    return not _is_call(node) or node.op == "call_module" or is_harmless(torch, node.target)


def _is_tensor(torch: Any, node: Any) -> bool:
    return isinstance(node.meta.get("example_value", node.meta.get("val")), torch.Tensor)


def _run_by(torch: Any, module: Any, part: Callable[[Any], Any]) -> Any:
    """Return a module that calls what is made of another, which returns a sequence."""
    output = next(node for node in module.graph.nodes if node.op == "output")
    alone = not isinstance(output.args[0], tuple | list)
    if alone:
        output.args = ((output.args[0],),)
        module.recompile()
    run = part(module)

    class Part(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *inputs: Any) -> Any:
            found = run(*inputs)
            return found[0] if alone else found

    return Part()
