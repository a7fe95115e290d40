"""A network: one program of tensor functions, its weights, how it is called and verified.

``Network`` is what ``import_network`` returns. ``compare`` compares outputs with those of the
model that a network was imported from; ``Verification`` is what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import NetworkError
from schedlang.networks.convention import Convention, Tensor
from schedlang.networks.tasks import Task, short_text, tasks_of
from schedlang.printed import html_method, listed, show_text
from schedlang.targets import Target, as_target
from schedlang.targets.deployment.tensor_arguments import as_numpy
from schedlang.tvm.codegen import runtime
from schedlang.tvm.relax.calls import NetworkCall, calls
from schedlang.tvm.relax.executable import NetworkExecutable
from schedlang.tvm.relax.lowering import whole_function
from schedlang.workloads.construct import from_prim_func

if TYPE_CHECKING:
    from schedlang.tvm.relax.network_program import NetworkProgram
    from schedlang.workloads.workload import Workload


# -- The network ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Network:
    """An imported model. Make one with ``import_network``.

    Attributes
    ----------
    name: a name to display.
    mod: a Relax module. Its ``main`` takes the inputs and then the parameters, calls tensor
        functions in a straight line and returns a tuple; the tensor functions are its PrimFuncs.
    parameters: the weights by name, in the order in which ``main`` takes them, as they were when
        the model was imported. Those that were computed from others end in ``(folded)``. They are
        read-only: compiled networks share them.
    inputs, outputs: the tensors of one call.
    convention: how the model's arguments become the inputs, and the outputs its result.
    reference: calls the original model with its arguments; None where it cannot be run.
    examples: an array for each input, as given to ``import_network``; empty without.
    """

    name: str
    mod: NetworkProgram = field(repr=False)
    parameters: Mapping[str, np.ndarray] = field(repr=False)
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    convention: Convention = field(repr=False)
    reference: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] | None = field(repr=False)
    examples: tuple[np.ndarray, ...] = field(repr=False, default=())

    def __post_init__(self) -> None:
        shared = {name: _read_only(value) for name, value in self.parameters.items()}
        object.__setattr__(self, "parameters", shared)

    @property
    def verifiable(self) -> bool:
        """Whether there is an original model to compare with."""
        return self.reference is not None

    @cached_property
    def calls(self) -> tuple[NetworkCall, ...]:
        """The calls of tensor functions, in order."""
        return tuple(calls(self.mod))

    @cached_property
    def _tasks(self) -> tuple[tuple[Task, ...], dict[str, str]]:
        return tasks_of(self.mod, self.calls)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Its distinct tensor functions, in the order of their first call."""
        return self._tasks[0]

    @property
    def untunable(self) -> Mapping[str, str]:
        """Functions that are no workloads, with the reason; they always run as they are."""
        return self._tasks[1]

    @property
    def flops(self) -> float:
        """Arithmetic operations of one call; a multiply-add counts as two."""
        return sum(task.weight * task.flops for task in self.tasks)

    def compile(
        self, target: Target | str = "cpu", mod: NetworkProgram | None = None
    ) -> NetworkExecutable:
        """Compile it for the CPU: a function from the list of input arrays to that of outputs.

        ``mod`` is the network with scheduled functions in place, as ``apply`` returns it; by
        default every function is unscheduled, and runs on one thread.
        """
        tvm_target = as_target(target).tvm_target()
        return NetworkExecutable.of_functions(
            self.mod if mod is None else mod, self.parameters, tvm_target
        )

    def as_workload(self, name: str | None = None) -> Workload:
        """Return the whole network as one program, to tune with ``tune``.

        All of its functions become one, so that a schedule may fuse their loops. That suits small
        models: normalisation, attention, a product with what follows it.

        Raises ``NetworkError`` for a network with weights (pass them as inputs), with several
        outputs, or whose functions cannot be merged.
        """
        if self.parameters:
            raise NetworkError(
                f"network {self.name} holds {listed(self.parameters, lines=False)}, and a workload "
                "holds no values: make them inputs of the model"
            )
        if len(self.outputs) != 1:
            raise NetworkError(
                f"network {self.name} returns {len(self.outputs)} tensors; a workload of a network "
                "has one output"
            )
        if not self.tasks:
            raise NetworkError(f"network {self.name} calls no function that could be tuned")
        return from_prim_func(whole_function(self.mod), name or self.name)

    @cached_property
    def _unscheduled(self) -> NetworkExecutable:
        return self.compile()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the unscheduled network as the model is called; compiled at the first call.

        Returns numpy arrays in the structure of the model's result. Raises ``NetworkError`` for
        inputs of another structure, shape or element type.
        """
        inputs = self.checked(self.convention.flatten(args, kwargs))
        return self.convention.unflatten(list(self._unscheduled(inputs)))

    def verify(
        self,
        *args: Any,
        executable: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] | None = None,
        seed: int = 0,
        tolerance: float | None = None,
        **kwargs: Any,
    ) -> Verification:
        """Compare the network's outputs with those of the original model.

        Parameters
        ----------
        args, kwargs: the model's arguments; without any, random ones are drawn: see
            ``random_inputs``.
        executable: what to compare; by default the unscheduled network.
        seed: of the random inputs.
        tolerance: the largest error, relative to the largest magnitude of each output; by default
            1e-4 for float32, and by the element type for others.

        Raises ``NetworkError`` where there is no original model to run.
        """
        if self.reference is None:
            raise NetworkError(f"network {self.name}: there is no original model to compare with")
        if args or kwargs:
            inputs = self.checked(self.convention.flatten(args, kwargs))
        else:
            inputs = self.random_inputs(seed)
        expected = self.reference([value.copy() for value in inputs])
        outputs = (executable or self._unscheduled)(inputs)
        return compare([output.name for output in self.outputs], outputs, expected, tolerance)

    def checked(self, values: Sequence[Any]) -> list[np.ndarray]:
        """Return the inputs as numpy arrays of the right shapes and types.

        Raises ``NetworkError`` that names the input and both shapes or types.
        """
        arrays = []
        for value, tensor in zip(values, self.inputs, strict=True):
            array = as_numpy(value)
            if isinstance(value, bool | int | float):
                array = array.astype(tensor.dtype)
            tensor.check(array.shape, str(array.dtype))
            arrays.append(array)
        return arrays

    def random_inputs(self, seed: int = 0) -> list[np.ndarray]:
        """Draw the inputs of one call.

        Floating-point numbers are normal, with the mean and the deviation of the example; integers
        and booleans are drawn from the values of the example, as they may be indices. Without
        examples, the numbers are standard normal and the integers 0 or 1.
        """
        rng = np.random.default_rng(seed)
        drawn = []
        for position, tensor in enumerate(self.inputs):
            example = self.examples[position] if self.examples else None
            dtype = np.dtype(tensor.dtype)
            if dtype.kind in "iub":
                values = np.arange(2) if example is None or not example.size else example
                drawn.append(rng.choice(values.reshape(-1), tensor.shape).astype(dtype))
                continue
            mean, deviation = 0.0, 1.0
            if example is not None and example.size:
                wide = example.astype(np.float64)
                mean, deviation = float(wide.mean()), float(wide.std()) or 1.0
            drawn.append((mean + deviation * rng.standard_normal(tensor.shape)).astype(dtype))
        return drawn

    def describe_size(self) -> str:
        """Return its parameters and the operations of a call as text."""
        elements = sum(value.size for value in self.parameters.values())
        size = sum(value.nbytes for value in self.parameters.values())
        return (
            f"{short_text(elements)} parameters ({size / 2**20:.1f} MiB), "
            f"{short_text(self.flops)} operations a call"
        )

    def describe_calls(self) -> str:
        """Return the number of calls and of tasks as text."""
        calls = sum(task.weight for task in self.tasks)
        moving = sum(task.moves_data for task in self.tasks)
        return f"{calls} calls of {len(self.tasks)} tasks, {moving} of them only move data"

    def share(self, task: Task) -> float:
        """Return the part of its arithmetic that a task has, from 0 to 1; NaN without any."""
        return task.weight * task.flops / self.flops if self.flops else math.nan

    def by_work(self) -> list[Task]:
        """Return the tasks, those with most arithmetic first."""
        return sorted(self.tasks, key=lambda task: -task.weight * task.flops)

    _repr_pretty_ = show_text
    _repr_html_ = html_method("network")

    def __str__(self) -> str:
        """Write its tensors, and a table of its tasks, those with most arithmetic first."""
        lines = [
            f"network {self.name}: {self.describe_size()}",
            *(f"  in   {tensor}" for tensor in self.inputs),
            *(f"  out  {tensor}" for tensor in self.outputs),
            self.describe_calls(),
            "  calls   share  operations  task",
        ]
        for task in self.by_work():
            share = f"{self.share(task):.1%}" if self.flops else "-"
            work = task.describe_work()
            lines.append(f"  {task.weight:5d}  {share:>6}  {work:>10}  {task.name}")
            lines += [f"{'':27}  = {other}" for other in task.functions[1:]]
        lines += [f"not tunable: {name}: {reason}" for name, reason in self.untunable.items()]
        return "\n".join(lines)


def _read_only(value: np.ndarray) -> np.ndarray:
    """An array that starts where vectors are loaded fastest; a copy if this one does not."""
    if runtime.is_aligned(value):
        value = value.view()
    else:
        value, source = runtime.aligned_array(value.shape, value.dtype), value
        value[...] = source
    value.flags.writeable = False
    return value


# -- Outputs compared with those of the model -----------------------------------------------------

# Of the largest magnitude of an output. Sums are taken in another order, layer after layer.
_TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


@dataclass(frozen=True)
class OutputError:
    """The largest error of one output.

    Attributes
    ----------
    name: of the output.
    largest: the largest absolute difference; infinite where only one of the two is finite, or the
        shapes or types differ.
    scale: the largest finite magnitude that was expected.
    tolerance: the largest difference that is allowed, relative to ``scale``.
    """

    name: str
    largest: float
    scale: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.largest <= self.tolerance * self.scale

    def __str__(self) -> str:
        verdict = "ok" if self.passed else f"above the tolerance of {self.tolerance:g} of that"
        return f"{self.name}: error {self.largest:.2g} of {self.scale:.3g}, {verdict}"


@dataclass(frozen=True)
class Verification:
    """The errors of all outputs."""

    outputs: tuple[OutputError, ...]

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance."""
        return all(output.passed for output in self.outputs)

    @property
    def largest(self) -> float:
        """The largest absolute error of any output."""
        return max((output.largest for output in self.outputs), default=0.0)

    def __str__(self) -> str:
        return "\n".join(map(str, self.outputs))


def merged(found: Mapping[str, Verification]) -> Verification:
    """Return the errors of several networks as one; names of outputs begin with the keys."""
    return Verification(
        tuple(
            replace(output, name=f"{size}: {output.name}")
            for size, one in found.items()
            for output in one.outputs
        )
    )


def compare(
    names: Sequence[str],
    outputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    tolerance: float | None = None,
) -> Verification:
    """Compare outputs with what was expected of them.

    ``tolerance`` is relative to the largest magnitude of each output; by default it follows from
    the element type: 1e-4 for float32. Integers and booleans must be equal.
    """
    errors = []
    for name, output, wanted in zip(names, outputs, expected, strict=True):
        allowed = _TOLERANCES.get(str(wanted.dtype), 0.0) if tolerance is None else tolerance
        errors.append(_error(name, output, wanted, allowed))
    return Verification(tuple(errors))


def _error(name: str, output: np.ndarray, wanted: np.ndarray, tolerance: float) -> OutputError:
    if output.shape != wanted.shape or output.dtype != wanted.dtype:
        return OutputError(name, np.inf, 0.0, tolerance)
    if not wanted.size:
        return OutputError(name, 0.0, 0.0, tolerance)
    one, other = output.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    scale = float(np.abs(other[finite]).max(initial=0.0))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(one - other))
    largest = float(np.where(np.isnan(difference), np.inf, difference).max())
    return OutputError(name, largest, scale, tolerance)
