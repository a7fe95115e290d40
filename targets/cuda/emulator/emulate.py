"""Numbers without a device: generated CUDA C++ run on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlang.announcing import announced
from schedlang.targets.cuda.emulator.execute import Execution, execute
from schedlang.targets.cuda.emulator.reference import Expected, expected_of
from schedlang.targets.cuda.emulator.result import Emulation, EmulationError, KernelFault
from schedlang.targets.measure.dataset import same_bits
from schedlang.targets.target import Target, as_target
from schedlang.tvm.codegen.cuda import has_threads
from schedlang.tvm.codegen.cuda_source import cuda_source
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

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
