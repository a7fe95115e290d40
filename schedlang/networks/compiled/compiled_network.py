"""A compiled network: called like the model, exported, verified and profiled.

Tensors of callers become TVM's, and outputs theirs, without a copy where they are contiguous.
"""

from __future__ import annotations

import math
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from schedlang.errors import NetworkError
from schedlang.files import as_path
from schedlang.networks.compiled.building import Built
from schedlang.networks.compiled.c_library import Size, write_networks
from schedlang.networks.compiled.summary import Summary
from schedlang.networks.convention import Tensor, as_numpy
from schedlang.networks.network import Network, Verification
from schedlang.printed import html_method, show_text
from schedlang.targets import Target
from schedlang.targets.deployment import library
from schedlang.targets.deployment.callable import use_threads
from schedlang.targets.deployment.library import check_destination
from schedlang.tvm import codegen
from schedlang.tvm.codegen import runtime
from schedlang.tvm.relax.executable import NetworkExecutable
from schedlang.tvm.relax.straight_line import GETTER, write_weights

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import DeviceArray


# -- The compiled network -------------------------------------------------------------------------

# Most seconds that timing whole calls takes.
_CALLS_SECONDS = 1.0


class CompiledNetwork:
    """A compiled network. ``compile_network`` makes one; call it like the model.

    Takes numpy arrays, tensors of torch on the CPU and all others that have ``__dlpack__``, with
    the shapes and element types of the examples. The outputs are of the library of the first
    tensor that is passed, in the structure of the model's result; numbers count as numpy. No
    contiguous input is copied, and no output; any alignment will do. Each call returns memory of
    its own, which shares nothing with inputs or weights. No gradients are recorded.

    Threads may call it at the same time; their calls run one after the other. The weights are those
    of the network, in the same memory where nothing has changed their layout.

    Attributes
    ----------
    network: what was compiled; target: what for.
    summary: how each of its tasks is run.
    """

    def __init__(
        self,
        network: Network,
        target: Target,
        built: Built,
        summary: Summary,
        lock: threading.Lock | None = None,
    ) -> None:
        self.network = network
        self.target = target
        self.summary = summary
        self._built = built
        self._threads = target.pool_threads if built.parallel else 0
        # Networks with one lock run one after the other: each uses all cores.
        self._lock = lock or threading.Lock()

    @property
    def weights(self) -> tuple[np.ndarray, ...]:
        """The weights that its functions take, packed where their layout was changed."""
        return tuple(self._built.parameters.values())

    def load(self) -> None:
        """Generate the machine code, as the first call does. TargetError where it cannot run."""
        _ = self._machine

    @cached_property
    def _machine(self) -> NetworkExecutable:
        self.target.check_present()
        if self._threads:
            use_threads(self._threads)
        return NetworkExecutable(
            self._built.code.with_constants(self._built.parameters), self._lock
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it with the model's arguments.

        Raises ``NetworkError`` that names the input for another shape or element type, a tensor
        that is not on the CPU, and arguments of another structure.
        """
        return self.call_flat(self.network.convention.flatten(args, kwargs))

    def call_flat(self, values: Sequence[Any]) -> Any:
        """Run it with the tensors among the model's arguments, in order; return the model's result.

        Raises what calling it raises.
        """
        results = self._run(self._borrowed(values))
        return self.network.convention.unflatten(returned(results, values))

    def _borrowed(self, values: Sequence[Any]) -> list[DeviceArray]:
        return [*map(borrowed, values, self.network.inputs)]

    def _run(self, inputs: Sequence[DeviceArray]) -> Sequence[DeviceArray]:
        machine = self._machine
        if self._threads:
            use_threads(self._threads)
        return machine.run(inputs)

    def verify(
        self, *args: Any, seed: int = 0, tolerance: float | None = None, **kwargs: Any
    ) -> Verification:
        """Compare its outputs with those of the original model; see ``Network.verify``.

        The result has the largest error of each output, and ``passed``.
        """

        def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [*map(to_numpy, self._run(self._borrowed(inputs)))]

        return self.network.verify(*args, executable=run, seed=seed, tolerance=tolerance, **kwargs)

    def time_call(self, *args: Any, repeats: int = 10, **kwargs: Any) -> float:
        """Time calls of the whole network; return the median in seconds, which ``summary`` keeps.

        It is more than the latencies of the tasks add up to: each of them was measured alone. The
        summary says so where the difference is large.

        Parameters
        ----------
        args, kwargs: the model's arguments; without any, random ones are drawn.
        repeats: number of calls; fewer where they take longer than a second together, but one.
        """
        inputs = self._inputs(args, kwargs)
        self._run(inputs)
        samples: list[float] = []
        while len(samples) < max(repeats, 1) and math.fsum(samples) < _CALLS_SECONDS:
            began = time.perf_counter()
            self._run(inputs)
            samples.append(time.perf_counter() - began)
        self.summary = replace(self.summary, call=statistics.median(samples))
        return self.summary.call

    def _inputs(self, args: Any, kwargs: Any) -> list[DeviceArray]:
        if args or kwargs:
            return self._borrowed(self.network.convention.flatten(args, kwargs))
        return self._borrowed(self.network.random_inputs())

    def profile(self, *args: Any, repeats: int = 10, **kwargs: Any) -> Summary:
        """Time each function inside the network; return the summary with these latencies.

        Tasks that were not tuned have a latency then, and all of them find the caches as the
        functions before them leave them. Each latency includes 1 to 2 microseconds for the clock.

        Parameters
        ----------
        args, kwargs: the model's arguments; without any, random ones are drawn.
        repeats: number of calls of the network; the median counts.
        """
        inputs = self._inputs(args, kwargs)
        self._run(inputs)
        samples: dict[str, list[float]] = defaultdict(list)
        for _ in range(repeats):
            for name, seconds in self._machine.time_calls(inputs):
                samples[name].append(seconds)
        medians = {name: statistics.median(times) for name, times in samples.items()}
        latencies = {}
        for task in self.summary:
            found = [medians[name] for name in task.functions if name in medians]
            if found:
                latencies[task.name] = statistics.fmean(found)
        return self.summary.with_latencies(latencies, f"median of {repeats} calls of the network")

    def export_library(self, path: str | Path) -> Path:
        """Write it into a shared library, the weights included; TVM's run time alone runs it.

        ``docs/networks.md`` shows how. Raises ``LibraryError`` for a folder that is not there and a
        name that TVM does not load, and ``BuildError``, also without a C compiler to link with.
        """
        path = as_path(path)
        check_destination(path, codegen.SHARED_SUFFIXES)
        library.link(
            self._built.code.with_stored(GETTER),
            path,
            source=lambda folder: write_weights(self._built.parameters, folder),
        )
        return path

    def export_c(
        self, path: str | Path, *, name: str | None = None, compiler: str | None = None
    ) -> Path:
        """Write it into a library for C, the weights included, which needs no TVM.

        The function takes the inputs, and then memory for the outputs; see ``Target.export_c``.
        Raises ``BuildError`` also for a network with an operator that only TVM's machine runs.
        """
        return write_networks(
            [self.in_library()], self.target, as_path(path), name=name, compiler=compiler
        )

    def in_library(self, label: str = "") -> Size:
        """Return what a library for C is made of, with a label where it has several sizes."""
        return Size(label, self._built, self.network.inputs, self.network.outputs)

    _repr_pretty_ = show_text
    _repr_html_ = html_method("compiled_network")

    def __str__(self) -> str:
        """Write its name and the summary."""
        return f"network {self.network.name} for {self.target.key}\n{self.summary}"


# -- Tensors of callers as TVM's, and back --------------------------------------------------------

Wrap = Callable[["DeviceArray"], Any]
"""Makes a tensor of a library from one of TVM's, in the same memory."""


def borrowed(value: Any, tensor: Tensor) -> DeviceArray:
    """Return an input as a tensor of TVM's; one that is not contiguous is copied.

    Raises ``NetworkError`` that names the input for another shape, element type or device, and for
    what is no tensor.
    """
    if type(value) is np.ndarray and value.dtype == _dtype(tensor.dtype):
        if value.shape == tensor.shape and value.flags.c_contiguous:
            return runtime.borrow_array(value)
    elif _is_torch(value):
        return _from_torch(value, tensor)
    elif isinstance(value, bool | int | float):
        value = np.asarray(value).astype(tensor.dtype)
    elif (
        isinstance(value, runtime.DeviceArray) and str(value.dtype) == "bfloat16"
    ):  # numpy does not know it
        tensor.check(tuple(value.shape), "bfloat16")
        return value
    try:
        array = as_numpy(value)
    except NetworkError as error:
        raise NetworkError(f"input {tensor.name!r}: {error}") from None
    except Exception as error:  # of what gives the memory
        raise NetworkError(
            f"input {tensor.name!r}: a {type(value).__name__} does not give its memory to the CPU: "
            f"{error}"
        ) from error
    tensor.check(array.shape, array.dtype.name)
    if not (array.flags.c_contiguous and array.dtype.isnative):
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    return runtime.borrow_array(array)


@cache
def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(name)


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _from_torch(value: Any, tensor: Tensor) -> DeviceArray:
    tensor.check(tuple(value.shape), str(value.dtype).removeprefix("torch."))
    if value.device.type != "cpu":
        raise NetworkError(
            f"input {tensor.name!r} is on {value.device}, and the network runs on the CPU: pass "
            f"{tensor.name}.cpu()"
        )
    if value.requires_grad:
        value = value.detach()
    if value.layout is not sys.modules["torch"].strided:
        value = value.to_dense()
    if value.is_neg():
        value = value.resolve_neg()
    return runtime.borrow(value.contiguous())


def returned(results: Sequence[DeviceArray], inputs: Sequence[Any]) -> list[Any]:
    """Return outputs as tensors of the library that the inputs are from; of numpy by default."""
    wrap = _wrap(inputs)
    return [wrap(result) for result in results]


def _wrap(inputs: Sequence[Any]) -> Wrap:
    for value in inputs:
        if _is_torch(value):
            made: Wrap = sys.modules["torch"].from_dlpack
            return made
        if isinstance(value, np.ndarray | np.generic | bool | int | float):
            continue
        if isinstance(value, runtime.DeviceArray):
            return lambda tensor: tensor
        if hasattr(value, "__array_namespace__"):
            made = value.__array_namespace__().from_dlpack
            return made
    return to_numpy


def to_numpy(tensor: DeviceArray) -> np.ndarray:
    """Return an array in the memory of a tensor."""
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError):  # numpy does not know the element type
        return np.from_dlpack(runtime.reinterpreted(tensor, "uint16")).view(ml_dtypes.bfloat16)
