"""Which operator of ``schedlang.workloads`` a workload is, and with which sizes."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

from schedlang.errors import SchedlangError, WorkloadError
from schedlang.workloads.operators.registry import factory, short_name

if TYPE_CHECKING:
    from schedlang.workloads.workload import Workload

# Extents of the arguments by the sizes that they are, for operators without other sizes.
_SHAPES = {
    "matmul": (("n", "k"), ("k", "m"), ("n", "m")),
    "GMM": (("batch", "n", "k"), ("batch", "k", "m"), ("batch", "n", "m")),
    "NRM": (("batch", "m", "n"), ("batch",)),
    "SFM": (("m", "n"), ("m", "n")),
}


class NoPeer(SchedlangError):
    """Another library has no equivalent of a workload; the message says why."""


def parameters_of(workload: Workload) -> tuple[str, dict[str, Any]]:
    """Return the name of the operator that a workload is, and all of its parameters.

    A workload that a database holds does not say them: they follow from its shapes, for some
    operators. ``NoPeer`` where nothing is known.
    """
    name, given = _from_source(workload) or _from_shapes(workload)
    declared = inspect.signature(factory(name)).parameters
    return name, {key: one.default for key, one in declared.items()} | given


def _from_source(workload: Workload) -> tuple[str, dict[str, Any]] | None:
    """Read ``sl.workloads.matmul(n=512, ...)``."""
    if not workload.source:
        return None
    call = ast.parse(workload.source, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return call.func.attr, {one.arg or "": ast.literal_eval(one.value) for one in call.keywords}


def _from_shapes(workload: Workload) -> tuple[str, dict[str, Any]]:
    name = short_name(workload.name)
    try:
        make = factory(name)
    except WorkloadError:
        raise NoPeer(f"{name} is no operator of schedlang.workloads") from None
    sizes: dict[str, Any] = {"dtype": workload.args[0].dtype} if workload.args else {}
    for argument, names in zip(workload.args, _SHAPES.get(name, ()), strict=False):
        sizes |= dict(zip(names, argument.shape, strict=False))
    try:
        same = make(**sizes).exact_key == workload.exact_key
    except WorkloadError:
        same = False
    if not same:
        raise NoPeer(f"the sizes of {name} are not known; name it with them")
    return name, sizes
