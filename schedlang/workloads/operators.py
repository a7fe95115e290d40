"""Operators by name, from matrix products to fused blocks.

``operator`` turns a TE definition into a checked workload factory, called by a short name as in
MetaSchedule's appendix A.2 or by a long one. The table of them follows, then four shapes of each.
"""

from __future__ import annotations

import functools
import inspect
import operator as operators
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

from schedlang.errors import WorkloadError
from schedlang.printed import nearest
from schedlang.tvm import convolution_operators, tensor_expressions
from schedlang.workloads.construct import from_te
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.tensor_expressions import TensorExpression


# TVM counts in 64 bits.
_LARGEST = 2**63 - 1


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


# -- The operators: short name, long name, element types ------------------------------------------

C1D = operator("C1D", "conv1d", CONTRACTION_DTYPES)(convolution_operators.C1D)
C2D = operator("C2D", "conv2d", CONTRACTION_DTYPES)(convolution_operators.C2D)
C3D = operator("C3D", "conv3d", CONTRACTION_DTYPES)(convolution_operators.C3D)
DEP = operator("DEP", "depthwise_conv2d", CONTRACTION_DTYPES)(convolution_operators.DEP)
DIL = operator("DIL", "dilated_conv2d", CONTRACTION_DTYPES)(convolution_operators.DIL)
GRP = operator("GRP", "group_conv2d", CONTRACTION_DTYPES)(convolution_operators.GRP)
CBR = operator("CBR", "conv2d_bn_relu")(convolution_operators.CBR)
TBG = operator("TBG", "transpose_batch_matmul", CONTRACTION_DTYPES)(tensor_expressions.TBG)
GMM = operator("GMM", "batch_matmul", CONTRACTION_DTYPES)(tensor_expressions.GMM)
matmul = operator("matmul", "matmul", CONTRACTION_DTYPES)(tensor_expressions.matmul)
quantized_matmul = operator(
    "quantized_matmul", "quantized_matmul", FLOAT_DTYPES, weights=tensor_expressions.WEIGHTS
)(tensor_expressions.quantized_matmul)
NRM = operator("NRM", "norm")(tensor_expressions.NRM)
SFM = operator("SFM", "softmax")(tensor_expressions.SFM)
T2D = operator("T2D", "conv2d_transpose", CONTRACTION_DTYPES)(convolution_operators.T2D)
CAP = operator("CAP", "capsule_conv2d", CONTRACTION_DTYPES)(convolution_operators.CAP)


# -- Four shapes of each operator, most from MetaSchedule's tests; the first from A.2 -------------

# Positional parameters, in each factory's own order; every other parameter keeps its default.
_SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "C1D": (
        (256, 64, 128, 3, 2, 1),
        (128, 128, 256, 1, 2, 0),
        (64, 256, 256, 5, 1, 2),
        (32, 512, 512, 3, 1, 1),
    ),
    "C2D": (
        (224, 224, 3, 64, 7, 2, 3),
        (56, 56, 64, 64, 1, 1, 0),
        (14, 14, 256, 256, 3, 1, 1),
        (7, 7, 512, 512, 3, 1, 1),
    ),
    "C3D": (
        (16, 224, 224, 3, 64, 7, 2, 3),
        (16, 56, 56, 64, 64, 1, 1, 0),
        (16, 14, 14, 256, 256, 3, 1, 1),
        (16, 7, 7, 512, 512, 3, 1, 1),
    ),
    "DEP": (
        (112, 112, 32, 3, 1, 1),
        (112, 112, 64, 3, 2, 1),
        (14, 14, 512, 3, 2, 1),
        (7, 7, 1024, 3, 1, 1),
    ),
    "DIL": (
        (224, 224, 3, 64, 7, 2, 3, 2),
        (56, 56, 64, 64, 1, 1, 0, 2),
        (14, 14, 256, 256, 3, 1, 1, 2),
        (7, 7, 512, 512, 3, 1, 1, 2),
    ),
    "GMM": ((128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)),
    "GRP": (
        (56, 56, 64, 128, 3, 2, 1, 4),
        (56, 56, 64, 64, 1, 1, 0, 4),
        (14, 14, 256, 256, 3, 1, 1, 4),
        (7, 7, 512, 512, 3, 1, 1, 4),
    ),
    "T2D": (
        (4, 4, 512, 256, 4, 2, 1),
        (8, 8, 256, 128, 4, 2, 1),
        (16, 16, 128, 64, 4, 2, 1),
        (32, 32, 64, 3, 4, 2, 1),
    ),
    "CAP": (
        (16, 16, 32, 32, 3, 2, 1),
        (8, 8, 32, 32, 3, 1, 1),
        (16, 16, 8, 16, 3, 2, 1),
        (8, 8, 16, 16, 3, 1, 1),
    ),
    "NRM": ((256, 256), (512, 512), (1024, 1024), (4096, 1024)),
    "SFM": ((256, 256), (512, 512), (1024, 1024), (2048, 2048)),
    "CBR": (
        (224, 224, 3, 64, 7, 2, 3),
        (56, 56, 64, 128, 3, 2, 1),
        (28, 28, 128, 256, 1, 2, 0),
        (7, 7, 512, 512, 3, 1, 1),
    ),
    "TBG": ((128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)),
    # A layer of a language model with a weight of 4096 x 4096 or 11008 x 4096, for 1 to 32 tokens.
    "quantized_matmul": (
        (1, 4096, 4096),
        (8, 4096, 4096),
        (1, 11008, 4096),
        (32, 11008, 4096),
    ),
    "matmul": ((128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)),
}


def standard(name: str) -> tuple[Workload, ...]:
    """Return the four standard shapes of an operator, the paper's (A.2) first; float32, batch 1."""
    make = factory(name)
    return tuple(make(*shape) for shape in _SHAPES[make.__name__])
