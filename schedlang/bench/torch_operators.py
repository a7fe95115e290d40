"""Workloads in torch, eager and compiled: one call of each, on the workload's own tensors.

Layouts suit torch where this costs nothing at run time: channels last for convolutions of two and
three dimensions, as in the workloads, and weights reordered for torch in advance. Work that eager
mode repeats in every call is part of the timed call.

``torch.compile`` gets frozen weights. They are constants, as they are in a model that is served:
Inductor packs and folds them when it compiles (its ``freezing``), and only the data is an argument.
Matrix products have two arguments.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.bench import TORCH_DTYPES
from schedlang.errors import SchedlangError, WorkloadError
from schedlang.targets.measure.inputs import random_inputs
from schedlang.targets.measure.numerics import compare, numerics_of
from schedlang.targets.measure.timing import TimingPolicy, collect
from schedlang.terminal import redirected
from schedlang.workloads.operators import factory, short_name

if TYPE_CHECKING:
    from schedlang.workloads.workload import Workload

try:
    import torch
    import torch.nn.functional as F
except ImportError:  # an extra of schedlang
    torch = None


# Extents of the arguments by the sizes that they are, for operators without other sizes.
_SHAPES = {
    "matmul": (("n", "k"), ("k", "m"), ("n", "m")),
    "GMM": (("batch", "n", "k"), ("batch", "k", "m"), ("batch", "n", "m")),
    "NRM": (("batch", "m", "n"), ("batch",)),
    "SFM": (("m", "n"), ("m", "n")),
}


class NoPeer(SchedlangError):
    """Another library has no equivalent of a workload; the message says why."""


def parameters_of(workload: Workload) -> tuple[str, dict[str, Any]]:
    """Return the name of the operator that a workload is, and all of its parameters.

    A workload that a database holds does not say them: they follow from its shapes, for some
    operators. ``NoPeer`` where nothing is known.
    """
    name, given = _from_source(workload) or _from_shapes(workload)
    declared = inspect.signature(factory(name)).parameters
    return name, {key: one.default for key, one in declared.items()} | given


def _from_source(workload: Workload) -> tuple[str, dict[str, Any]] | None:
    """Read ``sl.workloads.matmul(n=512, ...)``."""
    if not workload.source:
        return None
    call = ast.parse(workload.source, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return call.func.attr, {one.arg or "": ast.literal_eval(one.value) for one in call.keywords}


def _from_shapes(workload: Workload) -> tuple[str, dict[str, Any]]:
    name = short_name(workload.name)
    try:
        make = factory(name)
    except WorkloadError:
        raise NoPeer(f"{name} is no operator of schedlang.workloads") from None
    sizes: dict[str, Any] = {"dtype": workload.args[0].dtype} if workload.args else {}
    for argument, names in zip(workload.args, _SHAPES.get(name, ()), strict=False):
        sizes |= dict(zip(names, argument.shape, strict=False))
    try:
        same = make(**sizes).exact_key == workload.exact_key
    except WorkloadError:
        same = False
    if not same:
        raise NoPeer(f"the sizes of {name} are not known; name it with them")
    return name, sizes


_CHANNELS_LAST = {2: "channels_last", 3: "channels_last_3d"}


@dataclass(frozen=True)
class Eager:
    """A workload in torch: ``call`` computes it, ``layout`` gives the workload's order of axes."""

    call: Callable[[], Any]
    layout: Callable[[Any], Any] = lambda result: result


def available() -> bool:
    """Whether torch is installed."""
    return torch is not None


@contextlib.contextmanager
def without_errors() -> Iterator[None]:
    """Drop what C++ writes to standard error: notes of a library that nobody can act on."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirected(sys.stderr, nowhere):
        yield


Define = Callable[[Sequence[Any]], Eager]
"""Makes a workload in torch from its inputs, as tensors."""


class TorchOperator:
    """A workload in torch, with random inputs.

    Parameters
    ----------
    workload: what to compute.
    threads: number of threads of torch.
    define: how torch computes it; by default the workload is an operator of
        ``schedlang.workloads``, and torch's own operator computes it.

    Raises ``NoPeer`` for a workload that is no operator, where ``define`` does not say more, and
    for element types that torch computes in another way.
    """

    def __init__(self, workload: Workload, threads: int, define: Define | None = None) -> None:
        dtypes = {arg.dtype for arg in workload.args}
        make = _operator(workload) if define is None else define
        if make is None or len(dtypes) != 1 or not dtypes <= set(TORCH_DTYPES):
            raise NoPeer(
                f"torch has no equivalent of {workload.name} on {', '.join(sorted(dtypes))}"
            )
        if torch is None:
            raise NoPeer("torch is not installed: pip install torch")
        torch.set_num_threads(threads)
        self._workload = workload
        self._inputs = random_inputs(workload.args, seed=0)
        tensors = [torch.from_numpy(value) for value in self._inputs if value is not None]
        self._eager = make(tensors)

    def latency(self) -> float:
        """Median seconds of a call, timed as the measurer times programs."""

        def run(calls: int) -> float:
            start = time.perf_counter()
            for _ in range(calls):
                self._eager.call()
            return (time.perf_counter() - start) / calls

        with torch.inference_mode():
            samples = collect(run, TimingPolicy()).samples
        return float(np.median(samples))

    def slowest_call(self) -> str:
        """Return the operator of torch in which a call spends most time, such as ``aten::bmm``."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        profiler = torch.profiler.profile(activities=activities)
        with torch.inference_mode(), without_errors(), profiler as profile:
            self._eager.call()
        spent = {one.key: one.self_cpu_time_total for one in profile.key_averages()}
        called = [name for name in spent if name.startswith("aten::")]
        return max(called, key=spent.__getitem__, default="")

    def mismatch(self, program: Callable[..., Any]) -> str | None:
        """Describe how a verified program's results differ, in one line; ``None`` if they agree."""
        with torch.inference_mode():
            ours = self._eager.layout(self._eager.call()).contiguous().numpy()
        args = self._workload.args
        arrays = [
            np.zeros(arg.shape, arg.dtype) if value is None else value
            for arg, value in zip(args, self._inputs, strict=True)
        ]
        program(*arrays)
        numerics = numerics_of(self._workload.mod, [len(args) - 1])
        return compare([ours], [arrays[-1]], [args[-1].dtype], numerics)


def _operator(workload: Workload) -> Define | None:
    """Return how torch computes an operator of ``schedlang.workloads``; None where it has none."""
    name, parameters = parameters_of(workload)
    if name not in _OPERATORS:
        return None
    return lambda tensors: _OPERATORS[name](tensors, parameters)


def _convolution(tensors: Sequence[Any], p: Mapping[str, Any]) -> Eager:
    rank = tensors[0].ndim - 2
    inputs, weight = _convolution_operands(*tensors[:2])
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    options = {"stride": p["stride"], "padding": p["padding"]}
    options |= {"dilation": p.get("dilation", 1), "groups": p.get("groups", 1)}
    return Eager(lambda: convolve(inputs, weight, **options), _channels_last)


def _convolution_operands(inputs: Any, weight: Any) -> tuple[Any, Any]:
    """(n, spatial.., ci) and (kernel.., ci, co) as torch wants them: channels before space."""
    rank = inputs.ndim - 2
    inputs = inputs.movedim(-1, 1)
    weight = weight.movedim((-1, -2), (0, 1))
    if rank == 1:
        return inputs.contiguous(), weight.contiguous()
    form = getattr(torch, _CHANNELS_LAST[rank])
    return inputs, weight.contiguous(memory_format=form)


def _channels_last(result: Any) -> Any:
    return result.movedim(1, -1)


def _depthwise(tensors: Sequence[Any], p: Mapping[str, Any]) -> Eager:
    inputs, weight = tensors
    # With one group per channel, (1, kh, kw, c) becomes (kh, kw, 1, c).
    operands = [inputs, weight.movedim(0, 2)]
    return _convolution(operands, {**p, "groups": p["channels"]})


def _transposed_convolution(tensors: Sequence[Any], p: Mapping[str, Any]) -> Eager:
    inputs, weight = tensors
    x = inputs.movedim(-1, 1)
    w = weight.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)
    return Eager(
        lambda: F.conv_transpose2d(x, w, stride=p["stride"], padding=p["padding"]), _channels_last
    )


def _capsule_convolution(tensors: Sequence[Any], p: Mapping[str, Any]) -> Eager:
    """A convolution of each row of the capsules: their columns and channels are its channels."""
    inputs, weight = tensors
    n, h, w, rows, columns, channels = inputs.shape
    kh, kw, _, _, _, out_channels = weight.shape
    # (kh, kw, k, j, ci, co) -> (j co, k ci, kh, kw)
    kernel = weight.permute(3, 5, 2, 4, 0, 1).reshape(-1, columns * channels, kh, kw)
    kernel = kernel.contiguous(memory_format=torch.channels_last)

    def call() -> Any:
        x = inputs.permute(0, 3, 1, 2, 4, 5).reshape(n * rows, h, w, columns * channels)
        return F.conv2d(x.movedim(-1, 1), kernel, stride=p["stride"], padding=p["padding"])

    def layout(result: Any) -> Any:
        out_h, out_w = result.shape[2:]
        parts = result.reshape(n, rows, columns, out_channels, out_h, out_w)
        return parts.permute(0, 4, 5, 1, 2, 3)

    return Eager(call, layout)


def _fused_convolution(tensors: Sequence[Any], p: Mapping[str, Any]) -> Eager:
    inputs, weight, bias, offset, scale = tensors
    x, w = _convolution_operands(inputs, weight)
    scale, offset = (value.reshape(-1, 1, 1) for value in (scale, offset))
    options = {"stride": p["stride"], "padding": p["padding"]}
    return Eager(lambda: F.relu(F.conv2d(x, w, bias, **options) * scale + offset), _channels_last)


def _matmul(tensors: Sequence[Any], _: Mapping[str, Any]) -> Eager:
    left, right = tensors
    return Eager(lambda: torch.matmul(left, right))


def _attention_scores(tensors: Sequence[Any], _: Mapping[str, Any]) -> Eager:
    query, value = tensors
    return Eager(lambda: torch.matmul(query.permute(0, 2, 1, 3), value.permute(0, 2, 3, 1)))


def _norm(tensors: Sequence[Any], _: Mapping[str, Any]) -> Eager:
    return Eager(lambda: torch.linalg.vector_norm(tensors[0], dim=(1, 2)))


def _softmax(tensors: Sequence[Any], _: Mapping[str, Any]) -> Eager:
    return Eager(lambda: torch.softmax(tensors[0], dim=1))


_OPERATORS: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Eager]] = {
    "C1D": _convolution,
    "C2D": _convolution,
    "C3D": _convolution,
    "CAP": _capsule_convolution,
    "CBR": _fused_convolution,
    "DEP": _depthwise,
    "DIL": _convolution,
    "GMM": _matmul,
    "GRP": _convolution,
    "NRM": _norm,
    "SFM": _softmax,
    "T2D": _transposed_convolution,
    "TBG": _attention_scores,
    "matmul": _matmul,
}


# The operators' names for the tensors that a model holds.
_WEIGHTS = ("weight", "w", "kernel", "bias", "scale", "offset")
_LIBRARY_CALL = re.compile(r"(?:extern_kernels|torch\.ops\.(?:aten|mkldnn|mkl))\.\w+(?=[.(])")
_GENERATED = re.compile(r"\bcpp_\w*(?=\()")


@dataclass(frozen=True)
class CompiledModule:
    """A module that torch compiled.

    Attributes
    ----------
    call: the compiled module.
    library_calls: what its code calls of a library, such as ``"bmm"`` for ``extern_kernels.bmm``;
        once for each call.
    generated_calls: the generated kernels that its code calls, once for each call.
    """

    call: Callable[..., Any]
    library_calls: tuple[str, ...]
    generated_calls: tuple[str, ...]


def compile_module(
    module: Callable[..., Any], *data: Any, mode: str = "max-autotune", **keywords: Any
) -> CompiledModule:
    """Compile a module of torch for these arguments. Raises the compiler's own exceptions.

    Weights are frozen. Caches of earlier runs are ignored: noise may have disturbed what they
    measured.
    """
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    compiled = torch.compile(module, mode=mode)
    settings = config.patch(freezing=True, force_disable_caches=True)
    # It prints every attempt.
    with settings, torch.inference_mode(), contextlib.redirect_stderr(io.StringIO()):
        _, sources = run_and_get_code(compiled, *data, **keywords)
    code = "\n".join(sources)
    return CompiledModule(
        compiled,
        tuple(name.split(".")[-1] for name in _LIBRARY_CALL.findall(code)),
        tuple(_GENERATED.findall(code)),
    )


class CompiledOperator(TorchOperator):
    """A compiled ``TorchOperator``. Raises the compiler's own exceptions, too.

    Attributes
    ----------
    library_calls: the functions of a library that the compiled code calls, such as
        ``extern_kernels.bmm``. max-autotune calls them where it cannot generate code, or none
        that is faster.
    kernels: number of generated kernels.
    """

    def __init__(self, workload: Workload, threads: int, define: Define | None = None) -> None:
        super().__init__(workload, threads, define)
        module, data = _as_model(self._eager.call)
        made = compile_module(module, *data)
        self.library_calls = sorted(set(made.library_calls))
        self.kernels = len(set(made.generated_calls))
        self._eager = Eager(lambda: made.call(*data), self._eager.layout)


def _as_model(call: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """Return a module that holds the weights which ``call`` captures, and its other inputs."""
    names = call.__code__.co_freevars
    values = [cell.cell_contents for cell in call.__closure__ or ()]
    bound = dict(zip(names, values, strict=True))
    tensors = {name: value for name, value in bound.items() if isinstance(value, torch.Tensor)}
    weights = {name: value for name, value in tensors.items() if name in _WEIGHTS}

    class FrozenModel(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, value in weights.items():
                self.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))

        def forward(self, *data: Any) -> Any:
            given = dict(zip(arguments, data, strict=True))
            cells = [
                types.CellType(getattr(self, name) if name in weights else given.get(name, value))
                for name, value in bound.items()
            ]
            return types.FunctionType(call.__code__, call.__globals__, closure=tuple(cells))()

    arguments = [name for name in tensors if name not in weights]
    return FrozenModel().eval(), [tensors[name] for name in arguments]
