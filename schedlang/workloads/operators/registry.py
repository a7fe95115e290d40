"""Operators by name: ``operator`` turns a TE definition into a checked workload factory."""

from __future__ import annotations

import functools
import inspect
import operator as operators
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

from schedlang.errors import WorkloadError
from schedlang.printed import nearest
from schedlang.workloads.construct import from_te
from schedlang.workloads.workload import Workload

# TVM counts in 64 bits.
_LARGEST = 2**63 - 1

if TYPE_CHECKING:
    from schedlang.tvm.tensor_expressions import TensorExpression

P = ParamSpec("P")

FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")
CONTRACTION_DTYPES = (*FLOAT_DTYPES, "int8")

_factories: dict[str, Callable[..., Workload]] = {}
_long_names: dict[str, str] = {}


def operator(
    name: str,
    long_name: str,
    dtypes: Sequence[str] = FLOAT_DTYPES,
    weights: Collection[str] = (),
) -> Callable[[Callable[P, list[TensorExpression]]], Callable[P, Workload]]:
    """Turn a function that returns the tensors of an operator into a registered workload factory.

    The factory checks every parameter first: dtypes against ``dtypes``, ``padding`` as an integer
    of at least 0, one that is a bool or None by default as such, and all others as integers of at
    least 1. Positional parameters are the shape and always appear in ``Workload.source``;
    keyword-only parameters appear if they are not the default. Arguments of the operator that have
    a name in ``weights`` are weights: see ``Workload.with_weights``.
    """

    def register(define: Callable[P, list[TensorExpression]]) -> Callable[P, Workload]:
        signature = inspect.signature(define)

        @functools.wraps(define)
        def build(*args: P.args, **kwargs: P.kwargs) -> Workload:
            values = _bind(name, signature, args, kwargs)
            for parameter, value in values.items():
                default = signature.parameters[parameter].default
                values[parameter] = _check(name, parameter, value, dtypes, default)
            made = from_te(define(**values), name=name)  # type: ignore[call-arg]
            known = [one.name for one in made.args if one.name in weights]
            source = _source(name, signature, values)
            return Workload(made.with_weights(known).mod, name, source)

        # Where users find it, and where pickle looks for it.
        build.__module__ = "schedlang.workloads"
        build.__annotations__ = {**define.__annotations__, "return": "Workload"}
        _factories[name] = build
        _long_names[long_name] = name
        return build

    return register


def get(name: str, **parameters: Any) -> Workload:
    """Return the operator ``name`` (``"GMM"``, ``"conv2d"``, ...) with these parameters.

    Raises ``WorkloadError`` for an unknown name (listing the known ones) or invalid parameters.
    """
    return factory(name)(**parameters)


def short_name(name: str) -> str:
    """Return the short name of an operator that is given by either; another name as it is."""
    return _long_names.get(name, name)


def factory(name: str) -> Callable[..., Workload]:
    """Return the factory of an operator, by its short or its long name."""
    found = _factories.get(short_name(name))
    if found is None:
        hint = nearest(name, [*_factories, *_long_names]) or "."
        pairs = ", ".join(
            short if short == long else f"{short} ({long})" for long, short in _long_names.items()
        )
        raise WorkloadError(f"no operator {name!r}{hint} Known: {pairs}")
    return found


def names() -> tuple[str, ...]:
    """Return the short names of all operators, the paper's (A.2) first, then alphabetical."""
    return tuple(sorted(_factories))


def _bind(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise WorkloadError(
            f"{name}: {error}; it takes {', '.join(signature.parameters)}"
        ) from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _check(name: str, parameter: str, value: Any, dtypes: Sequence[str], default: Any) -> Any:
    if value is default is None:
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise WorkloadError(f"{name}: {parameter} must be True or False, not {value!r}")
        return value
    if parameter.endswith("dtype"):
        allowed = dtypes if parameter == "dtype" else (*dtypes, "int32")
        if value not in allowed:
            raise WorkloadError(
                f"{name}: {parameter} must be one of {', '.join(allowed)}, not {value!r}"
            )
        return value
    least = 0 if parameter == "padding" else 1
    try:
        number = None if isinstance(value, bool) else operators.index(value)
    except TypeError:
        number = None
    if number is None:
        raise WorkloadError(
            f"{name}: {parameter} must be an integer, not {value!r} ({type(value).__name__})"
        )
    if number < least:
        raise WorkloadError(f"{name}: {parameter} must be at least {least}, not {number}")
    if number > _LARGEST:
        raise WorkloadError(f"{name}: {parameter} must be at most {_LARGEST}, not {number}")
    return number


def _source(name: str, signature: inspect.Signature, values: dict[str, Any]) -> str:
    shown = [
        f"{parameter}={values[parameter]!r}"
        for parameter, declared in signature.parameters.items()
        if declared.kind is not declared.KEYWORD_ONLY or values[parameter] != declared.default
    ]
    return f"sl.workloads.{name}({', '.join(shown)})"
