"""Capturing what a torch module computes, and what the nodes of the captured graph are."""

from __future__ import annotations

import contextlib
import io
import linecache
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import NetworkError, require
from schedlang.instructions.user_code import raised_at
from schedlang.networks.convention import Fixed, TorchConvention
from schedlang.networks.tensor import as_numpy
from schedlang.workloads.wrong_kind import not_a_network

# What torch logs of an error that it raises too.
_LOGGERS = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")
# Errors of torch about a number or a shape that it has to know, and that depends on values.
_DEPENDS_ON_VALUES = (
    "GuardOnDataDependentSymNode",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
)


def capture(
    torch: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Any:
    """Return the ``ExportedProgram`` of a module on example inputs.

    Raises ``NetworkError`` with the line of the model that torch stopped at.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise not_a_network("a network is imported from a torch.nn.Module", model)
    printed = io.StringIO()
    try:
        # Besides its error, torch prints the graph so far, in its own operators.
        with tracing(), _silent(), contextlib.redirect_stderr(printed):
            program = torch.export.export(model, tuple(args), dict(kwargs), strict=False)
    except Exception as error:  # torch raises errors of every type
        kinds = {kind.__name__ for kind in type(error).__mro__}
        place = _place_of(error)
        if kinds.intersection(_DEPENDS_ON_VALUES):
            raise NetworkError(
                f"{name}: a branch, a loop or a shape depends on the values of tensors{place}; a "
                "network computes the same for all values: compute both sides and select with "
                "torch.where, repeat a fixed number of times, or leave that part out of the model"
            ) from None
        lines = str(error).strip().splitlines()
        raise NetworkError(
            f"torch.export cannot capture {name}: {': '.join([type(error).__name__, *lines[:1]])}"
            f"{place}"
        ) from error
    sys.stderr.write(printed.getvalue())
    return program


def tracing() -> Any:
    """Return dynamo's lock: torch traces one program at a time, whichever thread asks for it."""
    return require("torch._dynamo.convert_frame", "importing a PyTorch model").compile_lock


def _place_of(error: BaseException) -> str:
    """Return the place of the model that an error comes from: ``", at file:line: code"``."""
    place = raised_at(error, installed=False)
    if not place:
        return ""
    file, _, line = place.rpartition(":")
    code = linecache.getline(file, int(line)).strip()
    return f", at {place}: `{code}`" if code else f", at {place}"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "bool"),
    *("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"),
)


@dataclass(frozen=True)
class Wiring:
    """The tensors around the graph of an exported program.

    Attributes
    ----------
    inputs: shape and element type of each placeholder that the caller gives.
    values: name and value of each placeholder that is a parameter, a buffer or a constant.
    outputs: the nodes of the tensors that are returned, in order.
    convention: how the model is called.
    """

    inputs: dict[str, tuple[tuple[int, ...], str]]
    values: dict[str, tuple[str, np.ndarray]]
    outputs: list[Any]
    convention: TorchConvention


def wiring(torch: Any, program: Any) -> Wiring:
    """Return the wiring of an exported program; parameters that share a tensor are one value.

    Raises ``NetworkError`` for a program that changes its inputs or buffers, or takes objects.
    """
    _check_stateless(program)
    nodes = {node.name: node for node in program.graph.nodes}
    inputs: dict[str, tuple[tuple[int, ...], str]] = {}
    values: dict[str, tuple[str, np.ndarray]] = {}
    fixed_inputs: list[Fixed | None] = []
    stored: dict[str, Any] = {
        **program.constants,
        **program.state_dict,
        **dict(program.named_buffers()),
    }
    known: dict[int, tuple[str, np.ndarray]] = {}
    kinds = torch.export.graph_signature.InputKind
    for spec in program.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind is kinds.USER_INPUT:
            tensor = node.meta.get("val")
            if isinstance(tensor, torch.Tensor):
                inputs[node.name] = (tuple(map(int, tensor.shape)), _dtype(node.name, tensor))
                fixed_inputs.append(None)
            else:
                fixed_inputs.append(Fixed(getattr(spec.arg, "value", None)))
        elif node.users:
            value = stored[spec.target]
            if not isinstance(value, torch.Tensor):
                raise NetworkError(f"the model holds {spec.target!r}, which is no tensor")
            _dtype(spec.target, value)
            if id(value) not in known:
                known[id(value)] = (spec.target, as_numpy(value).copy())
            values[node.name] = known[id(value)]
    outputs: list[Any] = []
    fixed_outputs: list[Fixed | None] = []
    for spec in program.graph_signature.output_specs:
        if spec.kind is not torch.export.graph_signature.OutputKind.USER_OUTPUT:
            continue
        if isinstance(spec.arg, torch.export.graph_signature.TensorArgument):
            outputs.append(nodes[spec.arg.name])
            fixed_outputs.append(None)
        else:
            fixed_outputs.append(Fixed(getattr(spec.arg, "value", None)))
    if not outputs:
        raise NetworkError("the model returns no tensor, so there is nothing to compute")
    convention = TorchConvention(
        torch.utils._pytree,
        program.call_spec.in_spec,
        program.call_spec.out_spec,
        fixed_inputs,
        fixed_outputs,
    )
    return Wiring(inputs, values, outputs, convention)


def _dtype(name: str, tensor: Any) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise NetworkError(f"{name} has the element type {dtype}; known are {', '.join(_DTYPES)}")
    return dtype


def _check_stateless(program: Any) -> None:
    signature = program.graph_signature
    changed = [f"buffer {name!r}" for name in signature.buffers_to_mutate.values()]
    changed += [f"input {name!r}" for name in signature.user_inputs_to_mutate.values()]
    if changed:
        raise NetworkError(
            f"a call of the model changes {', '.join(changed)}, and a network has no state: export "
            "the model in eval mode, and return new values as outputs"
        )
