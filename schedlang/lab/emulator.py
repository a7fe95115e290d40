"""Numbers without a device: generated CUDA C++ run on the CPU, and compared with what is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.lab.cuda_translation import EmulationError, UnknownCodeError
from schedlang.lab.emulator_runs import Execution, KernelFault, execute
from schedlang.measurement.problem import Problem
from schedlang.targets.measure.backend import same_bits
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import InputDraw, choose_draws
from schedlang.targets.measure.inputs import other_poison, poison
from schedlang.targets.measure.numerics import Array, Numerics
from schedlang.targets.measure.problem_values import values_of
from schedlang.targets.measure.right_results import Results, results_of
from schedlang.targets.target import Target, as_target
from schedlang.terminal import announced
from schedlang.tvm.codegen import compile_for_host
from schedlang.tvm.codegen.cuda import has_threads
from schedlang.tvm.codegen.cuda_source import cuda_source
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Argument, Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

__all__ = ["Emulation", "EmulationError", "KernelFault", "UnknownCodeError", "emulate"]


@dataclass(frozen=True, slots=True, eq=False)
class Emulation:
    """The result of ``emulate``.

    Attributes
    ----------
    outputs: contents of the written arguments after the run in the first order; empty where that
        was cut off.
    verified: whether there are no faults and the outputs are those of the unscheduled program,
        within the tolerance that verification uses; None without faults where nothing to compare
        with is known.
    faults: the mistakes that were found.
    """

    outputs: tuple[np.ndarray[Any, Any], ...]
    verified: bool | None
    faults: tuple[KernelFault, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What a program gets, and what it should give.

    Attributes
    ----------
    args: the tensors of a call.
    inputs: their contents before it; outputs hold poison.
    results: the right outputs; None where they are unknown.
    numerics: how exactly the outputs are defined.
    """

    args: tuple[Argument, ...]
    inputs: tuple[Array, ...]
    results: Results | None = None
    numerics: tuple[Numerics, ...] = ()

    def outputs_of(self, contents: Sequence[Array]) -> list[Array]:
        """Return the written tensors among the arguments."""
        return _written(contents, self.args)

    def changed_inputs(self, contents: Sequence[Array]) -> Iterator[str]:
        """Yield the names of the inputs that a program has changed."""
        for arg, before, after in zip(self.args, self.inputs, contents, strict=True):
            if arg.role == "input" and not same_bits(before, after):
                yield repr(arg.name)

    def mismatch(self, outputs: Sequence[Array]) -> str | None:
        """Say in one line why outputs are wrong; None if they are right, or nothing is known."""
        if self.results is None:
            return None
        dtypes = [arg.dtype for arg in self.args if arg.role != "input"]
        read = [
            None if arg.role == "output" else value
            for value, arg in zip(self.inputs, self.args, strict=True)
        ]
        return self.results.mismatch(outputs, dtypes, self.numerics, inputs=read)


def expected_of(workload: Workload, given: Any, seed: int, *, runs: bool) -> Expected:
    """Draw inputs, or take the given ones, and compute the right outputs.

    The unscheduled program computes them, compiled for this CPU, unless ``runs`` is False: then
    nothing is known. Raises TypeError and ValueError for inputs that do not fit, and ValueError for
    a program that gives NaN on random inputs.
    """
    values = values_of(Problem(inputs=given), workload.args, seed)
    binding = Binding(workload.mod, workload.args, seed, True, values=values, draws=1)
    source, args = binding.inputs, workload.args

    def inputs_of(draw: InputDraw) -> list[Array]:
        return [
            poison(arg.shape, arg.dtype) if value is None else np.ascontiguousarray(value)
            for value, arg in zip(source.values(draw), args, strict=True)
        ]

    if not runs:
        drawn = choose_draws(args, 1, lambda draw: draw, lambda draw: True, vary=values is None)
        return Expected(args, tuple(inputs_of(drawn[0])))
    call = compile_for_host(workload.mod)

    def attempt(draw: InputDraw) -> Results | None:
        before = inputs_of(draw)

        def run_again() -> tuple[Sequence[Array], Sequence[Array]]:
            others = [
                other_poison(arg.shape, arg.dtype) if arg.role == "output" else value
                for value, arg in zip(before, args, strict=True)
            ]
            return _outputs(call, args, others), _written(others, args)

        return results_of(draw, _outputs(call, args, before), run_again)

    found = choose_draws(args, 1, attempt, lambda results: results.finite, vary=values is None)
    if not found:
        raise ValueError("the unscheduled program gives NaN: give inputs where it is a number")
    return Expected(args, tuple(inputs_of(found[0].draw)), found[0], binding.numerics)


def _outputs(call: Any, args: Sequence[Argument], inputs: Sequence[Array]) -> list[Array]:
    tensors = [value.copy() for value in inputs]
    call(*tensors)
    return _written(tensors, args)


def _written(values: Sequence[Array], args: Sequence[Argument]) -> list[Array]:
    return [value for value, arg in zip(values, args, strict=True) if arg.role != "input"]


_TARGET = "cuda/sm_90"
# Operations a second of an emulation; more than any reaches.
_MOST_FLOPS = 1e9


def emulate(
    program: Any,
    inputs: Any = None,
    orders: int = 2,
    seed: int = 0,
    *,
    workload: Workload | Any = None,
    target: Target | str | Any = None,
    seconds: float = 120.0,
) -> Emulation:
    """Run the CUDA C++ that TVM generates for a program on the CPU, for small shapes.

    The generated source is compiled by the host's C++ compiler with headers that play blocks,
    threads, barriers, shuffles, shared memory and matrix instructions, and runs in a process of its
    own. Every access to memory is checked: bounds, alignment and races.

    Parameters
    ----------
    program: a ``Schedule``, what has its program as ``mod``, a ``Workload`` or an IRModule.
    inputs: arrays for the arguments that the program reads, in order or by name, or a function of a
        numpy generator that returns them, as in ``tune``. By default they are random.
    orders: number of orders of threads: forward, backward, then random ones.
    seed: of the inputs and the random orders.
    workload: the unscheduled program, where ``program`` does not hold it as ``workload``.
    target: a GPU, by default one with compute capability 9.0: a Target, one of its names
        (``"sm_80"``) or one of TVM's targets.
    seconds: limit of CPU time, over all orders; more is a fault.

    The outputs are compared with those of the unscheduled program, which LLVM compiles for the CPU,
    where that is known: not for an IRModule that is scheduled already. ``docs/gpu.md`` says what
    an emulation cannot show.

    Raises ``EmulationError`` where there is no C++ compiler and for a program that is too large,
    TypeError and ValueError for wrong arguments (``TargetError`` for a program that is scheduled
    for a CPU), ``UnknownCodeError`` for PTX and functions that the emulator does not know.
    """
    if not isinstance(orders, int) or isinstance(orders, bool) or orders < 1:
        raise ValueError(f"orders={orders!r}; give the number of orders of threads, 1 or more")
    mod, workload, unscheduled = _programs(program, workload)
    machine = as_target(_TARGET if target is None else target)
    if machine.kind != "cuda":
        raise ValueError(f"target={machine.key!r} is no GPU; give one such as 'sm_90'")
    _check_size(workload, orders, seconds)
    times = "once" if orders == 1 else f"in {orders} orders of its threads"
    with announced(f"emulating {workload.name} on the CPU, {times}"):
        source = cuda_source(mod, machine.tvm_target())
        expected = expected_of(workload, inputs, seed, runs=unscheduled)
        run = execute(source, expected.inputs, orders=orders, seed=seed, seconds=seconds)
        return judge(run, expected)


def _check_size(workload: Workload, orders: int, seconds: float) -> None:
    """Refuse what surely takes longer, before the unscheduled program runs as long."""
    if workload.flops * orders > _MOST_FLOPS * seconds:
        raise EmulationError(
            f"the program computes {workload.flops:.2g} operations, which cannot be emulated "
            f"{orders} times in seconds={seconds:g}: give it a smaller shape (64 x 64 x 64 is "
            "usual for products), or more seconds"
        )


def judge(run: Execution, expected: Expected) -> Emulation:
    """Compare what a program left with what is right."""
    faults = list(run.faults)
    outputs = [expected.outputs_of(contents) for contents in run.contents]
    for order, contents in enumerate(run.contents):
        faults += [
            KernelFault("changed_input", "", f"it changes its input {name}", order)
            for name in expected.changed_inputs(contents)
        ][:1]
    for order, later in enumerate(outputs[1:], 1):
        if not run.atomics and not all(map(same_bits, outputs[0], later)):
            message = "the outputs differ from those of the threads in forward order"
            faults.append(KernelFault("order_dependent", "", message, order))
    checked = expected.results is not None and bool(outputs)
    for order, one in enumerate(outputs) if checked else ():
        if (reason := expected.mismatch(one)) is not None:
            faults.append(KernelFault("wrong_result", "", reason, order))
    verified = False if faults else (True if checked else None)
    return Emulation(tuple(outputs[0]) if outputs else (), verified, tuple(faults))


def _programs(program: Any, given: Any) -> tuple[TensorProgram, Workload, bool]:
    """Return the program to run, the workload, and whether that is an unscheduled program."""
    mod = program
    for name in ("mod", "module"):
        mod = getattr(mod, name, mod)
    if given is None:
        given = program if isinstance(program, Workload) else getattr(program, "workload", None)
    workload = as_workload(mod if given is None else given)
    return mod, workload, not has_threads(workload.mod)
