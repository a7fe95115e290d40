"""Networks from PyTorch: modules and exported programs.

``capture`` has torch export a module, and ``wiring`` says what the nodes of the exported graph
are; both are shared with the backend of ``torch.compile``.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import NetworkError, require
from schedlang.instructions.instruction import raised_at
from schedlang.networks.convention import Fixed, TorchConvention, inputs_and_outputs
from schedlang.networks.from_relax import arguments
from schedlang.networks.network import Network
from schedlang.printed import first_line
from schedlang.targets.deployment.tensor_arguments import as_numpy
from schedlang.tvm.relax.front_ends import (
    FailedOperator,
    graph_to_relax,
    operator_name,
    place_of,
    refusal,
    state_demands,
    unsupported,
)
from schedlang.tvm.relax.lowering import lower
from schedlang.tvm.relax.torch_arguments import Hopeless
from schedlang.workloads.wrong_kind import not_a_network

# -- The network of a module ----------------------------------------------------------------------

KEPT = frozenset(
    f"aten.{name}"
    for name in (
        "linear.default",
        "matmul.default",
        "conv1d.default",
        "conv2d.default",
        "conv3d.default",
        "conv_transpose1d.default",
        "conv_transpose2d.input",
        "conv_transpose3d.input",
        "scaled_dot_product_attention.default",
        "softmax.int",
        "log_softmax.int",
        "gelu.default",
        "silu.default",
        "relu6.default",
        "hardtanh.default",
        "hardswish.default",
        "hardsigmoid.default",
        "softplus.default",
        "layer_norm.default",
        "group_norm.default",
        "max_pool1d.default",
        "max_pool2d.default",
        "max_pool3d.default",
        "avg_pool1d.default",
        "adaptive_avg_pool1d.default",
        "adaptive_avg_pool2d.default",
        "adaptive_avg_pool3d.default",
        "embedding.default",
        "pad.default",
        "upsample_nearest2d.vec",
        "upsample_bilinear2d.vec",
        "upsample_bicubic2d.vec",
        "bitwise_left_shift.Tensor",
        "bitwise_left_shift.Tensor_Scalar",
        "bitwise_right_shift.Tensor",
        "bitwise_right_shift.Tensor_Scalar",
    )
)
"""Composite operators that stay whole; torch decomposes all others into its core operators. These
it would take apart into views, masks and sums that TVM does not fuse again: attention alone becomes
20 operators. One that TVM fails to convert as a whole is decomposed after all."""
# Torch's decomposition counts targets behind the first -1.
_WRONG = frozenset(["aten.multilabel_margin_loss_forward.default"])


def is_torch(model: Any) -> bool:
    """Tell whether a model is a module or an exported program of torch, without importing it."""
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(model).__mro__}
    return bool(
        kinds & {"torch.nn.modules.module.Module", "torch.export.exported_program.ExportedProgram"}
    )


def has_own_shapes(model: Any) -> bool:
    """Tell whether a model is an exported program, without importing torch."""
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(model).__mro__}
    return "torch.export.exported_program.ExportedProgram" in kinds


def from_torch(model: Any, example_inputs: Any, name: str, layout: str) -> Network:
    """Import a ``torch.nn.Module`` or an ``ExportedProgram``; see ``import_network``."""
    torch = require("torch", "importing a PyTorch model")
    if isinstance(model, torch.export.ExportedProgram):
        return _from_program(torch, model, lambda: model.module(), name, layout)
    program = exported(model, example_inputs, name)
    return _from_program(torch, program, lambda: model, name, layout)


def exported(model: Any, example_inputs: Any, name: str) -> Any:
    """Return the ``ExportedProgram`` of a module as it runs in eval mode, without gradients.

    Raises ``NetworkError`` where torch cannot capture it.
    """
    torch = require("torch", "importing a PyTorch model")
    args, kwargs = _arguments(torch, example_inputs)
    with _evaluating(model), torch.no_grad():
        return capture(torch, model, args, kwargs, name)


def _arguments(torch: Any, examples: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as positional and keyword arguments, with tensors of torch."""
    if examples is None:
        raise NetworkError(
            "a PyTorch module needs example inputs: import_network(model, (tensor, ...)), or a "
            "dict of keyword arguments"
        )
    examples = torch.utils._pytree.tree_map(
        lambda leaf: _as_torch(torch, leaf) if isinstance(leaf, np.ndarray) else leaf, examples
    )
    return arguments(examples)


def _as_torch(torch: Any, array: np.ndarray) -> Any:
    array = np.ascontiguousarray(array).reshape(array.shape)
    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put a module and its parts in evaluation mode, and then back as they were."""
    training = [part for part in model.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _from_program(
    torch: Any, program: Any, original: Callable[[], Any], name: str, layout: str
) -> Network:
    if program.range_constraints:
        raise _dynamic(program)
    kept: set[str] = {*KEPT, *_WRONG}
    apart: set[str] = set()
    while True:
        decomposed = _decomposed(torch, program, kept, apart)
        missing = unsupported(decomposed.graph)
        if missing:
            more = _decomposable(torch, missing) - apart
            if not more:
                raise refusal(missing)
            apart |= more
            continue
        wires = wiring(torch, decomposed)
        try:
            mod, parameters = graph_to_relax(
                decomposed.graph, wires.inputs, wires.values, wires.outputs
            )
            break
        except FailedOperator as failure:
            operator, cause = operator_name(failure.node), failure.__cause__
            more = _decomposable(torch, [operator]) - apart
            if isinstance(cause, Hopeless) or not (more or operator in kept):
                raise refusal({operator: [place_of(failure.node)]}, first_line(cause)) from cause
            kept.discard(operator)
            apart |= more
    mod, parameters = lower(mod, parameters, layout)
    convention = wires.convention
    inputs, outputs = inputs_and_outputs(mod, convention.output_names)
    return Network(
        name=name,
        mod=mod,
        parameters=parameters,
        inputs=inputs,
        outputs=outputs,
        convention=convention,
        reference=_reference(torch, original, convention),
        examples=_examples(program, convention),
    )


def _dynamic(program: Any) -> NetworkError:
    for node in program.graph.nodes:
        if node.meta.get("unbacked_bindings"):
            return NetworkError(
                f"{operator_name(node)} gives a shape or a number that depends on the values of "
                f"its inputs, in {place_of(node)}; shapes of a network are static"
            )
    symbols = ", ".join(map(str, program.range_constraints))
    return NetworkError(
        f"the exported program has dynamic shapes ({symbols}), and those of a network are "
        "static: export it without dynamic_shapes, once for each size; or give the module itself "
        "and examples of the sizes that you need: import_network(model, [(small,), (large,)])"
    )


def _decomposed(torch: Any, program: Any, kept: set[str], apart: set[str]) -> Any:
    """The program in torch's core operators, except for the ones that are kept.

    ``apart`` are core operators that are decomposed too.
    """
    table = torch.export.default_decompositions()
    for operator in list(table.keys()):
        if str(operator) in kept:
            table.pop(operator)
    for operator, decomposition in torch._decomp.decomposition_table.items():
        if str(operator) in apart:
            table[operator] = decomposition
    with tracing(), warnings.catch_warnings():
        state_demands(torch, table)
        warnings.simplefilter("ignore", FutureWarning)  # torch uses what it deprecates
        return program.run_decompositions(table)


def _decomposable(torch: Any, operators: Iterable[str]) -> set[str]:
    """The operators for which torch has a right decomposition."""
    known = {str(operator) for operator in torch._decomp.decomposition_table} - _WRONG
    return known.intersection(operators)


def _reference(
    torch: Any, original: Callable[[], Any], convention: TorchConvention
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    def reference(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        model = original()
        weights = [*model.parameters(), *model.buffers()]
        device = weights[0].device if weights else "cpu"
        tensors = [_as_torch(torch, value).to(device) for value in inputs]
        args, kwargs = convention.arguments(tensors)
        with _evaluating(model), torch.no_grad():
            returned = model(*args, **kwargs)
        return [as_numpy(tensor).copy() for tensor in convention.results(returned)]

    return reference


def _examples(program: Any, convention: TorchConvention) -> tuple[np.ndarray, ...]:
    if program.example_inputs is None:
        return ()
    args, kwargs = program.example_inputs
    return tuple(as_numpy(value).copy() for value in convention.flatten(tuple(args), dict(kwargs)))


# -- The capture of a module, and what the nodes of its graph are ---------------------------------

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
