"""Networks from Relax modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import NetworkError
from schedlang.networks.convention import ByName
from schedlang.networks.network import Network
from schedlang.networks.tensor import as_numpy, inputs_and_outputs
from schedlang.tvm.relax.executable import Machine
from schedlang.tvm.relax.frontends import read_relax
from schedlang.tvm.relax.lowering import lower

if TYPE_CHECKING:
    from schedlang.tvm.relax.program import NetworkProgram


def from_relax(mod: NetworkProgram, example_inputs: Any, name: str, layout: str) -> Network:
    """Import a Relax module with a function ``main``; see ``import_network``."""
    original, parameters = read_relax(mod)

    def reference(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        return Machine.of_operators(original, parameters)(inputs)

    return network_of(original, parameters, example_inputs, name, layout, reference)


def network_of(
    mod: NetworkProgram,
    parameters: Mapping[str, np.ndarray],
    example_inputs: Any,
    name: str,
    layout: str,
    reference: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] | None,
    output_names: Sequence[str] | None = None,
) -> Network:
    """Return the network of Relax operators, whose inputs go by name."""
    mod, parameters = lower(mod, parameters, layout)
    inputs, outputs = inputs_and_outputs(mod, output_names)
    convention = ByName([tensor.name for tensor in inputs])
    network = Network(name, mod, parameters, inputs, outputs, convention, reference)
    if example_inputs is None:
        return network
    args, kwargs = arguments(example_inputs)
    examples = network.checked(convention.flatten(args, kwargs))
    copies = tuple(value.copy() for value in examples)
    return Network(name, mod, parameters, inputs, outputs, convention, reference, copies)


def arguments(examples: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return example inputs as positional and keyword arguments."""
    if isinstance(examples, dict):
        return (), examples
    return (tuple(examples) if isinstance(examples, tuple | list) else (examples,)), {}


def example_shapes(names: Sequence[str], examples: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the element type that the examples give to inputs of these names."""
    if examples is None:
        return {}
    args, kwargs = arguments(examples)
    if not kwargs and len(args) != len(names):
        raise NetworkError(f"the model takes {', '.join(names)}; got {len(args)} example inputs")
    values = ByName(names).flatten(args, kwargs)
    arrays = {name: as_numpy(value) for name, value in zip(names, values, strict=True)}
    return {name: (array.shape, str(array.dtype)) for name, array in arrays.items()}
