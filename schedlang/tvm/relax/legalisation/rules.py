"""Our legalisation of Relax operators, by their names."""

from __future__ import annotations

from tvm import relax, transform

from schedlang.tvm.relax.legalisation.extremes import (
    adaptive_mean,
    clip,
    max_pool,
    pairwise,
    reduction,
    relu,
)
from schedlang.tvm.relax.legalisation.places import argsort, first_place, sort, topk
from schedlang.tvm.relax.legalisation.rule import Rule, default
from schedlang.tvm.relax.legalisation.types import (
    class_of,
    equal,
    log_add_exp,
    multiply,
    negative,
    not_equal,
    of_booleans,
    of_nothing,
    sign,
    widened,
)
from schedlang.tvm.relax.legalisation.wrapping import wrapping

_COMPARED = ("less", "less_equal", "greater", "greater_equal")
_WIDENED = ("sinh", "cosh", "asinh", "acosh", "atanh", "asin", "acos", "atan", "atan2", "tan")

RULES: dict[str, Rule] = {
    "relax.nn.relu": relu,
    "relax.clip": clip,
    "relax.maximum": of_booleans(pairwise("max")),
    "relax.minimum": of_booleans(pairwise("min")),
    "relax.max": reduction("max"),
    "relax.min": reduction("min"),
    "relax.argmax": first_place("max"),
    "relax.argmin": first_place("min"),
    "relax.argsort": argsort,
    "relax.sort": sort,
    "relax.topk": topk,
    **{f"relax.nn.max_pool{count}d": max_pool for count in (1, 2, 3)},
    **{f"relax.nn.adaptive_avg_pool{count}d": adaptive_mean for count in (1, 2, 3)},
    **{f"relax.{name}": of_booleans(default) for name in _COMPARED},
    "relax.equal": of_booleans(equal),
    "relax.add": of_booleans(wrapping("add")),
    "relax.subtract": wrapping("subtract"),
    "relax.multiply": of_booleans(wrapping("multiply", multiply)),
    "relax.sum": wrapping("sum"),
    "relax.not_equal": of_booleans(not_equal),
    "relax.negative": wrapping("negative", negative),
    "relax.sign": sign,
    **{f"relax.{name}": class_of(name) for name in ("isnan", "isinf", "isfinite")},
    "relax.log_add_exp": log_add_exp,
    **{f"relax.{name}": of_nothing for name in ("mean", "variance", "std")},
    "relax.power": widened,
    **{f"relax.{name}": widened for name in _WIDENED},
}


def legalised() -> transform.Pass:
    """Return the pass that makes functions of operators, by our rules and else by TVM's."""
    return relax.transform.LegalizeOps(RULES)
