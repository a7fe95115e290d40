"""``import_network``: a model of PyTorch, ONNX or Relax as a network.

A model that is imported at several sizes comes with several examples, which are checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

from schedlang.errors import NetworkError, UnsupportedOperatorError
from schedlang.networks.from_relax import from_onnx, from_relax, is_onnx, opened_for_sizes
from schedlang.networks.from_torch import from_torch, has_own_shapes, is_torch
from schedlang.networks.network import Network
from schedlang.networks.sizes import NetworkSet, SharedArrays
from schedlang.tvm import program
from schedlang.tvm.relax.lowering import CHANNELS_LAST, LAYOUTS
from schedlang.workloads.wrong_kind import not_a_network

# -- The import of a model ------------------------------------------------------------------------


@overload
def import_network(
    model: Any,
    example_inputs: list[tuple[Any, ...]] | list[dict[str, Any]],
    *,
    name: str | None = None,
    layout: str = CHANNELS_LAST,
    weights: Sequence[float] | None = None,
) -> NetworkSet: ...
@overload
def import_network(
    model: Any,
    example_inputs: Any = None,
    *,
    name: str | None = None,
    layout: str = CHANNELS_LAST,
) -> Network: ...
def import_network(
    model: Any,
    example_inputs: Any = None,
    *,
    name: str | None = None,
    layout: str = CHANNELS_LAST,
    weights: Sequence[float] | None = None,
) -> Network | NetworkSet:
    """Import a model as a network: tensor functions, the calls of them, and the weights apart.

    Batch normalisation is folded into the convolution before it, what depends on weights only is
    computed, powers become products, convolutions have their channels last, and operators are
    fused. docs/networks.md says more.

    Parameters
    ----------
    model: a ``torch.nn.Module`` or ``torch.export.ExportedProgram``; an ONNX model, or the path of
        one; or a Relax module. A torch module is imported as it runs in eval mode, and stays in
        the mode that it is in. Its weights are copied.
    example_inputs: a tuple of the positional arguments, or a dict of keyword arguments, as tensors
        of torch or numpy. Their shapes are the network's. Needed for a torch module, and for an
        ONNX model without static shapes; an exported program and a Relax module have their own.
        A list of tuples, or of dicts, has an example of each size that is needed: the result is a
        ``NetworkSet``. A list of anything else is one example, the positional arguments.
    name: a name to display; by default the class or the file.
    layout: ``"channels_last"`` puts the channels of images last inside the network, which is faster
        on CPUs; ``"as_is"`` leaves them where the model has them. Inputs, outputs and the calling
        convention are the model's in both.
    weights: with several examples, how often each size is called, in relation to the others.

    Raises ``MissingExtraError`` where torch or onnx is not installed,
    ``UnsupportedOperatorError`` with the operators that cannot be imported and their places, and
    ``NetworkError`` for dynamic shapes, a model that changes its own state, control flow, and
    anything that is no model; with several examples also where they differ in more than the sizes
    of tensors, two have the same shapes, or one of them cannot be imported, which it names.
    """
    if layout not in LAYOUTS:
        raise NetworkError(f"layout={layout!r}: expected one of {', '.join(map(repr, LAYOUTS))}")
    if are_several(example_inputs):
        return _at_sizes(model, example_inputs, name, layout, weights)
    if weights is not None:
        raise NetworkError(
            "weights say how often each of several sizes is called: give a list of examples, "
            "[(small,), (large,)]"
        )
    try:
        return _one(model, example_inputs, name, layout)
    except NetworkError as error:
        if type(error) is not NetworkError or not isinstance(example_inputs, list):
            raise
        count = len(example_inputs)
        raise NetworkError(
            f"{error}; a list of tensors is one example, of {count} arguments: give several "
            "examples as a list of tuples, [(small,), (large,)]"
        ) from error


def _one(model: Any, example_inputs: Any, name: str | None, layout: str) -> Network:
    if is_torch(model):
        return from_torch(model, example_inputs, name or type(model).__name__, layout)
    if is_onnx(model):
        return from_onnx(model, example_inputs, name, layout)
    if isinstance(model, program.TensorProgram):
        return from_relax(model, example_inputs, name or "relax", layout)
    raise not_a_network(
        "a network is imported from a torch.nn.Module, a torch.export.ExportedProgram, an ONNX "
        "model or its path, or a Relax IRModule",
        model,
    )


def _at_sizes(
    model: Any,
    examples: Sequence[Any],
    name: str | None,
    layout: str,
    weights: Sequence[float] | None,
) -> NetworkSet:
    """Import a model once for each example; its weights are kept once."""
    check_examples(examples)
    if isinstance(model, program.TensorProgram) or has_own_shapes(model):
        what = (
            "a Relax module" if isinstance(model, program.TensorProgram) else "an ExportedProgram"
        )
        raise NetworkError(
            f"{what} has shapes of its own, so examples of other sizes do not fit: import one for "
            "each size, and put them together by sl.NetworkSet([network, other]); or import the "
            "torch.nn.Module itself with these examples"
        )
    if is_onnx(model):
        model, name = opened_for_sizes(model, examples, name)
    arrays = SharedArrays()
    networks: list[Network] = []
    for place, example in enumerate(examples):
        where = f"example {place} ({sizes_text(example)}): "
        if isinstance(example, dict):
            example = {key: example[key] for key in examples[0]}  # inputs stand in its order
        try:
            network = _one(model, example, name, layout)
        except UnsupportedOperatorError as error:
            raise UnsupportedOperatorError(f"{where}{error}", error.operators) from error
        except NetworkError as error:
            raise NetworkError(f"{where}{error}") from error
        networks.append(replace(network, parameters=arrays.shared(network.parameters)))
    return NetworkSet(networks, weights=weights)


# -- Several examples of one model ----------------------------------------------------------------


def are_several(example_inputs: Any) -> bool:
    """Tell whether example inputs are several examples: a list of tuples, or of dicts."""
    if not isinstance(example_inputs, list):
        return False
    kinds = {type(one) for one in example_inputs}
    return any(all(issubclass(one, kind) for one in kinds) for kind in (tuple, dict))


def check_examples(examples: Sequence[Any]) -> None:
    """Raise ``NetworkError`` unless examples differ in the sizes of tensors, and in nothing else.

    The error names the example, the argument, and what differs from the first example.
    """
    if not examples:
        raise NetworkError(
            "the list of examples is empty: give a tuple of the model's arguments for each size, "
            "[(small,), (large,)]; a model without arguments has the one example ()"
        )
    first = dict(_leaves(examples[0], ""))
    seen: dict[tuple[Any, ...], int] = {}
    for place, example in enumerate(examples):
        leaves = dict(_leaves(example, ""))
        for path in [*first, *(path for path in leaves if path not in first)]:
            why = _difference(first.get(path), leaves.get(path))
            if why:
                where = f"example {place}{path and f', argument {path}'}"
                raise NetworkError(
                    f"examples of one model differ in the sizes of tensors only; {where}: {why}"
                )
        shapes = tuple(one.shape for one in leaves.values() if isinstance(one, _TensorLeaf))
        if shapes in seen:
            raise NetworkError(
                f"examples {seen[shapes]} and {place} have the same shapes "
                f"({', '.join(str(list(shape)) for shape in shapes)}): leave one out"
            )
        seen[shapes] = place


def sizes_text(example: Any) -> str:
    """Return the shapes of an example's tensors, such as ``[1, 16], [1, 16]``."""
    leaves = (leaf for _, leaf in _leaves(example, ""))
    return ", ".join(str(list(leaf.shape)) for leaf in leaves if isinstance(leaf, _TensorLeaf))


class _Container(str):
    """What a tuple or a dict holds, in words."""


class _TensorLeaf:
    """The shape and the element type of a tensor."""

    def __init__(self, shape: Sequence[int], dtype: object) -> None:
        self.shape = tuple(map(int, shape))
        self.dtype = str(dtype).removeprefix("torch.")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the place of each leaf and container in an example, and what it is."""
    if isinstance(value, dict):
        yield path, _Container(f"the names {', '.join(sorted(map(str, value)))}")
        for name, one in value.items():
            yield from _leaves(one, f"{path}[{name!r}]" if path else str(name))
    elif isinstance(value, tuple | list):
        things = "items" if path else "arguments"
        yield path, _Container(f"{len(value)} {things if len(value) != 1 else things[:-1]}")
        for place, one in enumerate(value):
            yield from _leaves(one, f"{path}[{place}]" if path else str(place))
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        yield path, _TensorLeaf(value.shape, value.dtype)
    else:
        yield path, value


def _difference(first: Any, other: Any) -> str:
    """Return in which way a leaf differs from that of the first example; empty where it may."""
    if not isinstance(first, _TensorLeaf) or not isinstance(other, _TensorLeaf):
        if type(first) is type(other) and (first is other or _equal(first, other)):
            return ""
        return f"{_shown(other)}, and {_shown(first)} in example 0"
    if first.dtype != other.dtype:
        return f"elements of {other.dtype}, and of {first.dtype} in example 0"
    if len(first.shape) != len(other.shape):
        return f"{len(other.shape)} axes, and {len(first.shape)} in example 0"
    return ""


def _equal(first: Any, other: Any) -> bool:
    try:
        return bool(first == other)
    except Exception:  # an object of the user's whose parts are tensors
        return False


def _shown(leaf: Any) -> str:
    if isinstance(leaf, _TensorLeaf):
        return f"a tensor {list(leaf.shape)}"
    return leaf if isinstance(leaf, _Container) else repr(leaf)
