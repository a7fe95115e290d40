"""Compiled programs as Python callables, and as operators of torch.

``CompiledProgram`` holds the functions of a program. Each ``CompiledFunction`` takes arrays of
numpy, torch and TVM, checks them, and calls the machine code.
"""

from __future__ import annotations

import keyword
import os
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang import host
from schedlang.errors import SchedlangError, require
from schedlang.targets.deployment import tensor_arguments as checked
from schedlang.targets.deployment.signature import KernelParameter, Signature, identifiers
from schedlang.targets.errors import LibraryError
from schedlang.tvm import program
from schedlang.tvm.codegen import runtime
from schedlang.tvm.served_extents import fitting
from schedlang.tvm.values import element_bytes

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import Device


# -- The number of threads: TVM has a pool for each thread that calls programs --------------------


class ThreadCountWarning(UserWarning):
    """Parallel loops run with another number of threads than the program was tuned for."""


class _Pool(threading.local):
    """The pool of the calling thread.

    Attributes
    ----------
    count: what it was last configured for; 0 before.
    threaded: whether it was ever configured for more threads than the caller. A pool keeps them.
    lost: whether a fork has left them behind.
    """

    count = 0
    threaded = False
    lost = False


_pool = _Pool()


def use_threads(count: int) -> None:
    """Have parallel loops that this thread starts use ``count`` threads, one on each core.

    TVM itself takes half of the hardware threads. A pool does not grow: ``ThreadCountWarning`` says
    so where it was started with fewer threads, and where the process may use fewer cores. Raises
    SchedlangError in a process that was forked while the pool existed.
    """
    if _pool.count != count:
        _configure(count)


def _configure(count: int) -> None:
    if _pool.lost:
        raise SchedlangError(
            "this process was forked from one that had started TVM's threads, and they are not in "
            "it: a parallel loop would wait for them for ever. Start processes with the method "
            "'spawn', or call the program from a new thread"
        )
    cpus = host.one_cpu_per_core(host.usable_cpus())
    started = runtime.configure_threads(cpus[:count])
    _pool.count = count
    _pool.threaded |= count > 1
    if started != count:
        warnings.warn(
            f"the program was tuned for {count} threads, and its parallel loops get {started}: "
            "TVM's thread pool was started with fewer before, or the process may use too few cores "
            f"(now {len(cpus)}). Build or load the program before other code of TVM runs, or set "
            f"TVM_NUM_THREADS={count} for it",
            ThreadCountWarning,
            stacklevel=5,
        )


def _after_fork() -> None:
    _pool.lost |= _pool.threaded
    if _pool.count > 1:
        _pool.count = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- Callables ------------------------------------------------------------------------------------

_take = checked.TAKERS
_Tensor = runtime.DeviceArray


class CompiledFunction:
    """A compiled function: call it with its tensors in order, and it writes its outputs in place.

    Takes numpy arrays, tensors of torch and TVM, and all others that have ``__dlpack__``. They must
    be C-contiguous; any alignment will do. Nothing is copied, except an input that shares memory
    with an output (the program may write the output before it has read the input), and numpy
    arrays for a program that does not run on the CPU.

    Raises TypeError for another number of arguments or another element type, and ValueError for
    another shape, an array that is not contiguous, a read-only one that the program writes, and
    outputs that share memory.

    Parameters
    ----------
    entry: takes TVM's tensors.
    signature: its parameters.
    device: runs the function.
    threads: number of threads of its parallel loops; 0 leaves TVM's thread pool as it is.
    """

    def __init__(
        self, entry: Callable[..., Any], signature: Signature, device: Device, threads: int = 0
    ) -> None:
        self.signature = signature
        self.entry = entry
        self._device = device
        self._threads = threads if signature.parallel else 0
        self._parameters = signature.parameters
        self._count = len(self._parameters)
        sizes = [parameter.bytes for parameter in self._parameters]
        tensors = [at for at, one in enumerate(self._parameters) if one.shape is not None]
        # What can be called without looking at each argument.
        self._in_main_memory = runtime.is_main_memory(device)
        self._direct = self._in_main_memory and len(tensors) == self._count
        # One overlaps the other where the distance of their addresses is between the two bounds.
        self._overlaps = [
            (one, two, -(sizes[one] or 0), sizes[two] or 0)
            for one, two in combinations(tensors, 2)
            if self._parameters[one].written or self._parameters[two].written
        ]
        self._element_bytes: list[tuple[int, int]] = []
        if self._direct and None in sizes:
            sized = (element_bytes(one.dtype) for one in self._parameters)
            self._element_bytes = [*enumerate(sized)]

    def __call__(self, *arguments: Any) -> None:
        """Run the function on these tensors."""
        if len(arguments) != self._count:
            raise TypeError(f"takes {self._count} tensors, got {len(arguments)}: {self.signature}")
        if self._threads:
            use_threads(self._threads)
        tensors = self._borrow_all(arguments) if self._direct else None
        if tensors is None:
            self._call_checked(arguments)
            return
        try:
            self.entry(*tensors)
        except Exception:
            # The generated code refuses an argument before it does anything.
            self._check(arguments)
            raise

    def as_torch_op(self, name: str) -> Any:
        """Register it as an operator of torch: it takes tensors, and returns new ones.

        ``torch.compile`` and ``torch.export`` keep it whole: they know the types and shapes of its
        outputs. It has no derivative: torch's ``backward`` refuses it by its name. Inputs that are
        not contiguous are copied. A parameter that is read and written is changed in place.

        Parameters
        ----------
        name: such as ``"mylib::gemm"``: ``torch.ops.mylib.gemm`` is the operator then. One that is
            registered again takes the place of the first, in models that were compiled before too:
            give kernels of other shapes other names.

        Raises ``LibraryError`` for another name, for a program on a GPU and one whose extents are
        not fixed. The operator raises ValueError for another shape or type.
        """
        if not self._in_main_memory:
            raise LibraryError(f"{self.signature} runs on a GPU, and operators are made for CPUs")
        return as_torch_op(self, self.signature, name)

    def _borrow_all(self, arguments: tuple[Any, ...]) -> list[Any] | None:
        """Return the arguments as compiled code takes them; None if one needs a closer look."""
        try:
            tensors = [one if type(one) is _Tensor else _take[type(one)](one) for one in arguments]
            addresses = [tensor.data_ptr() for tensor in tensors]
        except Exception:
            found = self._borrow_constants(arguments)
            if found is None:
                return None
            tensors, addresses = found
        if self._element_bytes:
            return self._apart(tensors, addresses)
        for one, two, below, above in self._overlaps:
            if below < addresses[one] - addresses[two] < above:
                return None
        return tensors

    def _apart(self, tensors: list[Any], addresses: list[int]) -> list[Any] | None:
        """Return tensors whose sizes the program does not fix; None where two may overlap."""
        sizes = [tensors[at].numel() * each for at, each in self._element_bytes]
        for one, two, _, _ in self._overlaps:
            if -sizes[one] < addresses[one] - addresses[two] < sizes[two]:
                return None
        return tensors

    def _borrow_constants(self, arguments: tuple[Any, ...]) -> tuple[list[Any], list[int]] | None:
        """Do it for types that are new, and read-only arrays, which numpy gives on request only."""
        try:
            tensors = [
                runtime.borrow_read_only(one)
                if type(one) is np.ndarray and not (one.flags.writeable or parameter.written)
                else (_take.get(type(one)) or checked.taker_of(type(one)))(one)
                for one, parameter in zip(arguments, self._parameters, strict=True)
            ]
            return tensors, [tensor.data_ptr() for tensor in tensors]
        except Exception:
            return None

    def _check(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the arguments as TVM's tensors. Raise TypeError and ValueError."""
        tensors = [
            argument
            if parameter.shape is None
            else checked.as_tensor(position, argument, parameter, self._device)
            for position, (argument, parameter) in enumerate(
                zip(arguments, self._parameters, strict=True)
            )
        ]
        checked.check(tensors, self._parameters, self._device)
        return tensors

    def _call_checked(self, arguments: tuple[Any, ...]) -> None:
        tensors = self._check(arguments)
        self._separate(tensors)
        self.entry(*tensors)
        if self._in_main_memory:
            return
        for argument, tensor, parameter in zip(arguments, tensors, self._parameters, strict=True):
            if parameter.written and isinstance(argument, np.ndarray):
                argument[...] = tensor.numpy()

    def _separate(self, tensors: list[Any]) -> None:
        """Copy the inputs that share memory with an output."""
        for one, two, _, _ in self._overlaps:
            if not runtime.share_memory(tensors[one], tensors[two]):
                continue
            inputs = [at for at in (one, two) if not self._parameters[at].written]
            if not inputs:
                raise ValueError(
                    f"arguments {one} and {two} share memory, and the program writes both: "
                    f"{self.signature}"
                )
            tensors[inputs[0]] = runtime.copy_tensor(tensors[inputs[0]])

    def __repr__(self) -> str:
        """Write its signature."""
        return f"<compiled {self.signature}>"


class CompiledProgram:
    """The functions of a compiled module: call it to run ``main``, or take a function by its name.

    ``program(a, b, c)`` runs ``main``, or the only function there is. ``program["add"]`` and
    ``program.add`` are the function ``add``; ``functions`` has all of them.

    With ``sizes``, and where the functions are those of a set of shapes, they are one program at
    several sizes: ``program(a, b, c)`` runs the one of the arguments' shapes.
    """

    def __init__(self, functions: Mapping[str, CompiledFunction], *, sizes: bool = False) -> None:
        self.functions = dict(functions)
        every = list(self.functions.values())
        served = [one.signature.served for one in every]
        self._served = [one for one in served if one is not None]
        self._has_sizes = sizes or (bool(every) and None not in served)
        self._by_shapes: dict[Any, CompiledFunction] = {}
        if sizes:
            for one in every:
                self._by_shapes[tuple(each.shape for each in one.signature.parameters)] = one
        self._main = self.functions.get(program.MAIN, every[0] if len(every) == 1 else None)

    def __call__(self, *arguments: Any) -> None:
        """Run ``main``, or the size of the arguments; see ``CompiledFunction``.

        Raises TypeError where there is neither, and ValueError for another size, or shapes that are
        those of several.
        """
        if self._has_sizes:
            self._of_size(arguments)(*arguments)
            return
        if self._main is None:
            names = ", ".join(self.functions)
            raise TypeError(f"has no function main; call one of these by its name: {names}")
        self._main(*arguments)

    def _of_size(self, arguments: tuple[Any, ...]) -> CompiledFunction:
        shapes = tuple([tuple(getattr(one, "shape", ())) for one in arguments])
        found = self._by_shapes.get(shapes)
        if found is None:
            found = self._serving(shapes)
            self._by_shapes[shapes] = found
        return found

    def _serving(self, shapes: tuple[tuple[int, ...], ...]) -> CompiledFunction:
        every = list(self.functions.values())
        places = [*fitting(self._served, shapes).values()]
        if len(places) == 1:
            return every[places[0]]
        given = ", ".join(str(list(shape)) for shape in shapes)
        if places:
            names = ", ".join(every[place].signature.name for place in places)
            raise ValueError(f"tensors {given} fit several: call one of {names} by its name")
        known = "; ".join(_written(one.signature) for one in every)
        raise ValueError(f"there is no size for tensors {given}; there are: {known}")

    def __getitem__(self, name: str) -> CompiledFunction:
        """Return the function ``name``. KeyError lists those there are."""
        if name not in self.functions:
            raise KeyError(f"no function {name!r}; there are: {', '.join(self.functions)}")
        return self.functions[name]

    def __getattr__(self, name: str) -> CompiledFunction:
        """Return the function ``name``."""
        functions: dict[str, CompiledFunction] = self.__dict__.get("functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"no function {name!r}; there are: {', '.join(functions)}")

    def __dir__(self) -> list[str]:
        """List the functions too."""
        return [*super().__dir__(), *self.functions]

    def __repr__(self) -> str:
        """Write the signatures."""
        return f"<compiled {'; '.join(str(one.signature) for one in self.functions.values())}>"


def _written(signature: Signature) -> str:
    return f"{signature}" + ("" if signature.served is None else f" for {signature.served}")


# -- Operators of torch, which its compiler keeps whole -------------------------------------------

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)
_NUMBERS = {"float32": "float", "float64": "float", "bool": "bool"}
_NUMBERS |= {f"{sign}int{bits}": "int" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def as_torch_op(function: Callable[..., None], signature: Signature, name: str) -> Any:
    """Register a function as an operator; see ``CompiledFunction.as_torch_op``."""
    torch = require("torch", "an operator of torch")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LibraryError(f"{name!r} is no name of an operator; such as 'mylib::gemm'")
    if not any(one.shape is not None and one.role != "output" for one in signature.parameters):
        raise LibraryError(f"{signature} takes no tensor, and operators of torch do")
    operator = _Operator(torch, function, signature)
    made = torch.library.custom_op(
        name,
        operator.run,
        mutates_args=operator.mutated,
        device_types="cpu",
        schema=operator.schema,
    )
    made.register_fake(operator.fake)
    return made


class _Operator:
    """What torch runs and asks, for one function."""

    def __init__(self, torch: Any, function: Callable[..., None], signature: Signature) -> None:
        self._torch, self._function = torch, function
        self._parameters = signature.parameters
        self._types = [_type_of(torch, signature, one) for one in signature.parameters]
        self._taken = [one for one in signature.parameters if one.role != "output"]
        names = identifiers([one.name for one in self._taken], keyword.kwlist)
        self.mutated = [
            name for one, name in zip(self._taken, names, strict=True) if one.role == "inout"
        ]
        declared = ", ".join(map(_declared, self._taken, names, range(len(names))))
        made = sum(one.role == "output" for one in signature.parameters)
        returned = "Tensor" if made == 1 else f"({', '.join(['Tensor'] * made)})"
        self.schema = f"({declared}) -> {returned}"

    def run(self, *arguments: Any) -> Any:
        """Run the function on tensors; return its outputs."""
        return self._called(arguments, self._function)

    def fake(self, *arguments: Any) -> Any:
        """Return what the outputs look like."""
        return self._called(arguments, None)

    def _called(self, arguments: Sequence[Any], function: Callable[..., None] | None) -> Any:
        left = iter(arguments)
        passed, made = [], []
        for one, kind in zip(self._parameters, self._types, strict=True):
            if one.role == "output":
                made.append(self._torch.empty(one.shape, dtype=kind, device=_device(arguments)))
                passed.append(made[-1])
            else:
                passed.append(self._checked(next(left), one, kind))
        if function is not None:
            function(*passed)
        if len(made) == 1:
            return made[0]
        return tuple(made) if made else None

    def _checked(self, value: Any, parameter: KernelParameter, kind: Any) -> Any:
        """Return an argument as the function takes it; torch has looked at its sort."""
        if parameter.shape is None:
            return value
        if value.dtype != kind or tuple(value.shape) != parameter.shape:
            raise ValueError(
                f"{parameter.name}: got {str(value.dtype).removeprefix('torch.')}"
                f"{list(value.shape)}, and the kernel takes {parameter}"
            )
        if parameter.written and not value.is_contiguous():
            raise ValueError(f"{parameter.name} is written, and not contiguous: copy it first")
        return value.detach().contiguous()


def _device(arguments: Sequence[Any]) -> Any:
    return next((one.device for one in arguments if hasattr(one, "device")), "cpu")


def _declared(parameter: KernelParameter, name: str, place: int) -> str:
    if parameter.shape is None:
        return f"{_NUMBERS[parameter.dtype]} {name}"
    return f"Tensor(a{place}!) {name}" if parameter.written else f"Tensor {name}"


def _type_of(torch: Any, signature: Signature, parameter: KernelParameter) -> Any:
    kind = getattr(torch, parameter.dtype, None)
    if kind is None or (parameter.shape is None and parameter.dtype not in _NUMBERS):
        raise LibraryError(f"torch has no type for {parameter}, in {signature}")
    if parameter.shape is not None and None in parameter.shape:
        raise LibraryError(f"the extents of {parameter} are not fixed, in {signature}")
    return kind
