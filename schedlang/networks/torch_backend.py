"""``torch.compile(model, backend="schedlang")``: graphs of torch as compiled networks.

torch finds ``backend`` by its name, and calls it with each graph that dynamo captured. A
``CapturedGraph`` is run by a compiled network where that gives what torch gives, and by torch
elsewhere.
"""

from __future__ import annotations

import re
import time
import warnings
import weakref
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import NetworkError, UntunedWarning, ValueOutOfRangeError, require
from schedlang.networks.compiled_network import CompiledNetwork
from schedlang.networks.from_torch import exported, tracing
from schedlang.networks.importing import import_network
from schedlang.networks.network import compare
from schedlang.networks.torch_hazards import Stamp, bytes_of, hazard, in_parts
from schedlang.networks.torch_settings import Settings
from schedlang.targets.deployment.tensor_arguments import as_numpy

# -- The backend, which torch finds by its name ---------------------------------------------------

_graphs: list[weakref.ref[CapturedGraph]] = []


def backend(
    module: Any, _: Sequence[Any], *, options: Mapping[str, Any] | None = None, **others: Any
) -> CapturedGraph:
    """Compile a graph of torch: ``torch.compile(model, backend="schedlang", options=...)``.

    ``docs/torch_compile.md`` has the options: database, trials, seconds, seed, target. Raises
    ``NetworkError`` for others.
    """
    for name, value in others.items():
        if value is not None:
            raise NetworkError(f"torch.compile(backend='schedlang') has no {name}; it has options=")
    graph = CapturedGraph(module, Settings.read(options))
    _graphs[:] = [*(one for one in _graphs if one() is not None), weakref.ref(graph)]
    return graph


# Torch names a backend by this in its messages.
backend.__name__ = "schedlang"


def torch_graphs() -> list[CapturedGraph]:
    """Return the graphs that ``torch.compile`` has given to the backend and still has, in order."""
    return [graph for one in _graphs if (graph := one()) is not None]


# -- One graph of ``torch.compile`` ---------------------------------------------------------------

# Where dynamo says that a placeholder is from a module's state.
_STATE = re.compile(r"\._(parameters|buffers)\[")
# Of one graph, for sizes and states of its weights; torch runs it with more of them.
_MOST_PROGRAMS = 8
_MOST_TEXT = 400


class EagerGraphWarning(UserWarning):
    """A graph of ``torch.compile`` is run by torch; the message says why."""


@dataclass
class _CompiledGraph:
    """A compiled network, for the weights and the sizes that it was made for.

    Attributes
    ----------
    stamp: tells whether the weights are the same.
    weights, given: which inputs of the graph are weights, and which tensors the network takes.
    results: what the graph returned, without tensors: the strides of one that it made, the number
        of an input that it returns as it is, or the value of what is no tensor.
    """

    network: CompiledNetwork
    stamp: Stamp
    weights: Sequence[int]
    given: Sequence[int]
    results: list[Any]


@dataclass(frozen=True)
class _Made:
    """A tensor that a graph makes: its strides, where they are not C's."""

    strides: tuple[int, ...] | None


@dataclass(frozen=True)
class _Passed:
    """An input that a graph returns as it is."""

    number: int


class CapturedGraph:
    """A graph that dynamo captured: callable with its inputs, as torch would call it.

    The first call is torch's own, and the compiled network has to give the same: types, shapes, and
    values within the tolerance of ``Network.verify``. A graph that changes or returns (a view of)
    an input, that records gradients, or that cannot be imported, is run by torch. One that may
    fail for some values is cut where it may: torch runs these operators, and others are graphs.

    Attributes
    ----------
    operators: number of calls in it.
    eager: why torch runs it, or a part of it; empty where it is compiled, or was not called yet.
    parts: the graphs that it was cut into, without what torch runs.
    seconds: what compiling it took.
    """

    def __init__(self, module: Any, settings: Settings, *, is_part: bool = False) -> None:
        self._torch = require("torch", "torch.compile")
        self._module, self._settings, self._is_part = module, settings, is_part
        self._uncompiled = module
        self.parts: list[CapturedGraph] = []
        nodes = list(module.graph.nodes)
        self._is_weight = [_is_state(one) for one in nodes if one.op == "placeholder"]
        self._others = [place for place, weight in enumerate(self._is_weight) if not weight]
        # Where dynamo does not pass the state of modules.
        self._own = [*module.parameters(), *module.buffers()]
        self.operators = sum(one.op.startswith("call_") for one in nodes)
        self._programs: dict[tuple[Any, ...], _CompiledGraph] = {}
        self._made = 0
        self.eager = ""
        self.seconds = 0.0

    @property
    def compiled(self) -> bool:
        """Whether schedlang's kernels run it, or a part of it."""
        if self.eager:
            return any(part.compiled for part in self.parts)
        return bool(self._programs)

    def __call__(self, *inputs: Any) -> Any:
        """Return what the graph returns, as a sequence."""
        torch = self._torch
        if self.eager or torch.autograd.forward_ad._current_level >= 0:
            return self._uncompiled(*inputs)
        if torch.is_grad_enabled() and any(
            one.requires_grad for one in inputs if isinstance(one, torch.Tensor)
        ):
            if not self._programs:
                self._give_up("it records gradients; torch.no_grad() turns that off")
            return self._module(*inputs)
        program = self._program(inputs)
        if program is None:
            with tracing():
                program = self._program(inputs)
                if program is None:
                    return self._first(inputs)
        try:
            return self._results(program, inputs)
        except ValueOutOfRangeError:
            return self._module(*inputs)  # which says what is wrong

    def _program(self, inputs: Sequence[Any]) -> _CompiledGraph | None:
        """Return the program for these inputs; where weights have changed, forget all."""
        program = self._programs.get(self._key(inputs))
        if program is None or program.stamp.holds(self._weights(inputs, program.weights)):
            return program
        self._programs.clear()
        return None

    def _weights(self, inputs: Sequence[Any], places: Sequence[int]) -> list[Any]:
        return [*self._own, *[inputs[place] for place in places]]

    def _give_up(self, reason: str) -> None:
        self.eager = reason
        self._programs.clear()
        self._warn(reason)

    def _warn(self, reason: str) -> None:
        if self._is_part:
            return  # its whole has said that it was cut
        ours = sum(part.operators for part in self.parts)
        what = f"{self.operators - ours} of the {self.operators} operators of a graph"
        if not ours:
            what = f"a graph of {self.operators} operators"
        text = f"torch runs {what}: {reason}"
        warnings.warn(text, EagerGraphWarning, stacklevel=6)

    def _key(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return what may differ between calls where sizes are dynamic."""
        others = [inputs[place] for place in self._others]
        return tuple(
            (one.dtype, one.shape, one.stride()) if isinstance(one, self._torch.Tensor) else one
            for one in others
        )

    def _places(self, inputs: Sequence[Any]) -> tuple[list[int], list[int]]:
        """Return which inputs are fixed while a program is used, and which tensors are not."""
        weights, given = [], []
        for place, (one, weight) in enumerate(zip(inputs, self._is_weight, strict=True)):
            if weight and not one.is_inference():
                weights.append(place)
            elif isinstance(one, self._torch.Tensor):
                given.append(place)
        return weights, given

    def _results(self, program: _CompiledGraph, inputs: Sequence[Any]) -> list[Any]:
        returned = iter(program.network(*[inputs[place] for place in program.given]))
        found: list[Any] = []
        for one in program.results:
            value = next(returned)
            if isinstance(one, _Passed):
                found.append(inputs[one.number])
            elif not isinstance(one, _Made):
                found.append(one)
            elif one.strides is None:
                found.append(value)
            else:  # what follows was compiled for them
                placed = self._torch.empty_strided(value.shape, one.strides, dtype=value.dtype)
                found.append(placed.copy_(value))
        return found

    def _first(self, inputs: Sequence[Any]) -> Any:
        """Run it by torch, and make a program that does the same."""
        tensors = [one for one in inputs if isinstance(one, self._torch.Tensor)]
        before = [self._state(one) for one in tensors]
        expected = self._module(*inputs)
        try:
            changed = any(self._state(one) != was for one, was in zip(tensors, before, strict=True))
            reason = "it changes a tensor that it is given" if changed else ""
            if not reason and self._made >= _MOST_PROGRAMS:
                if self._made == _MOST_PROGRAMS:
                    self._made += 1
                    self._warn(f"its sizes or weights changed {_MOST_PROGRAMS} times")
                return expected
            reason = reason or self._make(inputs, expected)
        except Exception as error:  # torch can run it, whatever it is that TVM cannot
            reason = f"{type(error).__name__}: {error}"
        if reason:
            self._give_up(" ".join(reason.split())[:_MOST_TEXT])
        return expected

    def _make(self, inputs: Sequence[Any], expected: Sequence[Any]) -> str:
        """Make a program that returns the same; say why there is none."""
        reason, results = self._described(inputs, expected)
        if reason:
            return reason
        self._made += 1
        started = time.monotonic()
        weights, places = self._places(inputs)
        given = [inputs[place] for place in places]
        stamp = Stamp(self._torch, self._weights(inputs, weights))
        model = _frozen(self._torch, self._module, inputs, self._is_weight)
        captured = exported(model, tuple(given), "torch.compile")
        reason = hazard(self._torch, captured.graph)
        if reason:
            self._cut()
            return reason
        program = _CompiledGraph(self._compiled(captured), stamp, weights, places, results)
        reason = self._differs(self._results(program, inputs), expected)
        if not reason and self._proves_little(given, expected):
            found = program.network.verify()
            reason = "" if found.passed else f"its results are not torch's: {found}"
        self.seconds += time.monotonic() - started
        if not reason:
            self._programs[self._key(inputs)] = program
        return reason

    def _proves_little(self, given: Sequence[Any], expected: Sequence[Any]) -> bool:
        """Tell whether a result is constant, as of zeros, and other inputs can be drawn."""
        tensor = self._torch.Tensor
        results = [one for one in expected if isinstance(one, tensor) and one.numel() > 1]
        constant = any(bool((one == one.reshape(-1)[0]).all()) for one in results)
        return constant and all(one.is_floating_point() for one in given)

    def _state(self, tensor: Any) -> Any:
        """Return what tells whether a tensor was changed, which torch may not count."""
        if not tensor.is_inference():
            return tensor._version
        # Others are not compiled anyway.
        kinds = (self._torch.Tensor, self._torch.nn.Parameter)
        plain = tensor.device.type == "cpu" and tensor.layout is self._torch.strided
        plain = plain and type(tensor) in kinds
        return zlib.crc32(bytes_of(self._torch, tensor)) if plain else None

    def _cut(self) -> None:
        """Have torch run only what may fail, where the rest can be graphs of their own."""

        def part(module: Any) -> CapturedGraph:
            self.parts.append(CapturedGraph(module, self._settings, is_part=True))
            return self.parts[-1]

        try:
            cut = None if self._is_part else in_parts(self._torch, self._module, part)
        except Exception:  # torch cuts what dynamo made, whatever that is, or runs it whole
            self.parts, cut = [], None
        self._uncompiled = cut or self._module

    def _compiled(self, captured: Any) -> CompiledNetwork:
        network = import_network(captured, name="torch.compile")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntunedWarning)  # of functions that have no record
            return self._settings.compile(network)

    def _described(self, inputs: Sequence[Any], expected: Sequence[Any]) -> tuple[str, list[Any]]:
        """Say why a network cannot return what torch returned, if so; and describe that."""
        torch = self._torch
        plain = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        tensors = [one for one in (*inputs, *expected) if isinstance(one, torch.Tensor)]
        if any(one.device.type != "cpu" for one in tensors):
            return "its tensors are not all on the CPU", []
        if any(type(one) not in plain or one.layout is not torch.strided for one in tensors):
            return "a tensor is of another class, or sparse", []
        if any(one.requires_grad for one in expected if isinstance(one, torch.Tensor)):
            return "it records gradients", []
        owners = {_memory(one) for one in inputs if isinstance(one, torch.Tensor)}
        found: list[Any] = []
        for value in expected:
            if not isinstance(value, torch.Tensor):
                found.append(value)
                continue
            number = next((k for k, one in enumerate(inputs) if one is value), None)
            if number is not None:
                found.append(_Passed(number))
                continue
            if value.numel() and _memory(value) in owners:
                return "a result shares memory with an input or another result", []
            pairs = zip(value.shape, value.stride(), strict=True)
            if any(extent > 1 and stride == 0 for extent, stride in pairs):
                return "a result is expanded", []
            owners.add(_memory(value))
            found.append(_Made(None if value.is_contiguous() else value.stride()))
        return "", found

    def _differs(self, results: Sequence[Any], expected: Sequence[Any]) -> str:
        """Say in what results differ from those of torch; empty where they do not."""
        torch = self._torch
        pairs = [
            (f"result {place}", one, right)
            for place, (one, right) in enumerate(zip(results, expected, strict=True))
            if isinstance(right, torch.Tensor)
        ]
        names, ours, theirs = zip(*pairs, strict=True) if pairs else ((), (), ())
        for name, one, right in pairs:
            if (one.dtype, one.shape) != (right.dtype, right.shape):
                return f"{name} has another type or shape than torch's"
        got, wanted = ([as_numpy(one.detach()) for one in side] for side in (ours, theirs))
        found = compare(names, got, wanted)
        wrong = next((str(one) for one in found.outputs if not one.passed), "")
        return wrong and f"its results are not torch's: {wrong}"


def _is_state(node: Any) -> bool:
    """Tell whether a placeholder is a parameter or a buffer of a module."""
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", None)
    name = getattr(source, "name", "")
    return bool(_STATE.search(name() if callable(name) else name))


def _memory(tensor: Any) -> Any:
    return tensor.untyped_storage().data_ptr() or id(tensor)


def _frozen(torch: Any, module: Any, inputs: Sequence[Any], is_weight: Sequence[bool]) -> Any:
    """Return a module that takes the tensors of each call, and has all else."""

    class FrozenModule(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.graph_module = module
            self.fixed: list[str | None] = []
            self.values: dict[int, Any] = {}
            for place, (one, weight) in enumerate(zip(inputs, is_weight, strict=True)):
                name = None
                if not isinstance(one, torch.Tensor):
                    self.values[place] = one
                elif weight and not one.is_inference():
                    name = f"weight_{place}"
                    self.register_buffer(name, one.detach())
                self.fixed.append(name)

        def forward(self, *tensors: Any) -> Any:
            left = iter(tensors)
            taken = []
            for place, name in enumerate(self.fixed):
                if place in self.values:
                    taken.append(self.values[place])
                else:
                    taken.append(next(left) if name is None else getattr(self, name))
            return tuple(self.graph_module(*taken))

    return FrozenModule()
