"""One graph of ``torch.compile``: run by a compiled network where that gives what torch gives."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import require
from schedlang.networks.compiled.network import CompiledNetwork
from schedlang.networks.importing import import_network
from schedlang.networks.tensor import as_numpy
from schedlang.networks.torch_backend.settings import Settings
from schedlang.networks.verification import compare

# Where dynamo says that a placeholder is from a module's state.
_STATE = re.compile(r"\._(parameters|buffers)\[")
# A graph whose weights change more often, or that is called with more sizes, runs eagerly.
_MOST_PROGRAMS = 8
_MOST_TEXT = 400


class EagerGraphWarning(UserWarning):
    """A graph of ``torch.compile`` is run by torch; the message says why."""


@dataclass
class _Program:
    """A compiled network, for the weights and the sizes that it was made for.

    Attributes
    ----------
    stamps: where the weights are, and how often torch has changed them.
    results: what the graph returned, without tensors: shape and strides of each, the number of an
        input that it returns as it is, or the value of what is no tensor.
    """

    network: CompiledNetwork
    stamps: list[tuple[int, int]]
    results: list[Any]


@dataclass(frozen=True)
class _Made:
    """A tensor that a graph makes: its strides, where they are not C's."""

    strides: tuple[int, ...] | None


@dataclass(frozen=True)
class _Passed:
    """An input that a graph returns as it is."""

    number: int


class Graph:
    """A graph that dynamo captured: callable with its inputs, as torch would call it.

    The first call is torch's own, and the compiled network has to give the same: types, shapes, and
    values within the tolerance of ``Network.verify``. A graph that changes or returns (a view of)
    an input, that records gradients, or that cannot be imported, is run by torch.

    Attributes
    ----------
    operators: number of calls in it.
    eager: why torch runs it; empty where it is compiled, or was not called yet.
    seconds: what compiling it took.
    """

    def __init__(self, module: Any, settings: Settings) -> None:
        self._torch = require("torch", "torch.compile")
        self._module, self._settings = module, settings
        nodes = list(module.graph.nodes)
        self._is_weight = [_is_state(one) for one in nodes if one.op == "placeholder"]
        # Where dynamo does not pass the state of modules.
        self._own = [*module.parameters(), *module.buffers()]
        self.operators = sum(one.op.startswith("call_") for one in nodes)
        self._programs: dict[tuple[Any, ...], _Program] = {}
        self._made = 0
        self.eager = ""
        self.seconds = 0.0

    @property
    def compiled(self) -> bool:
        """Whether schedlang's kernels run it."""
        return bool(self._programs) and not self.eager

    def __call__(self, *inputs: Any) -> Any:
        """Return what the graph returns, as a sequence."""
        torch = self._torch
        if self.eager or (
            torch.is_grad_enabled()
            and any(one.requires_grad for one in inputs if isinstance(one, torch.Tensor))
        ):
            return self._by_torch(inputs)
        program = self._programs.get(self._key(inputs))
        weights = self._weights(inputs)
        if program is None or program.stamps != _stamps(weights):
            return self._first(inputs, weights)
        return self._results(program, inputs)

    def _by_torch(self, inputs: Sequence[Any]) -> Any:
        if not self.eager and not self._programs:
            self._give_up(
                "it records gradients; torch.no_grad() or inference_mode() turns that off"
            )
        return self._module(*inputs)

    def _give_up(self, reason: str) -> None:
        self.eager = reason
        text = f"torch runs a graph of {self.operators} operators: {reason}"
        warnings.warn(text, EagerGraphWarning, stacklevel=5)

    def _key(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return what may differ between calls where sizes are dynamic."""
        pairs = zip(inputs, self._is_weight, strict=True)
        return tuple(
            (one.dtype, one.shape, one.stride()) if isinstance(one, self._torch.Tensor) else one
            for one, weight in pairs
            if not weight
        )

    def _weights(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the tensors that are fixed while a program is used."""
        pairs = zip(inputs, self._is_weight, strict=True)
        return self._own + [one for one, weight in pairs if weight and not one.is_inference()]

    def _given(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the tensors that a network takes in each call."""
        pairs = zip(inputs, self._is_weight, strict=True)
        return [
            one
            for one, weight in pairs
            if isinstance(one, self._torch.Tensor) and (not weight or one.is_inference())
        ]

    def _results(self, program: _Program, inputs: Sequence[Any]) -> list[Any]:
        returned = iter(program.network(*self._given(inputs)))
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

    def _first(self, inputs: Sequence[Any], weights: Sequence[Any]) -> Any:
        """Run it by torch, and make a program that does the same."""
        torch = self._torch
        tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
        before = [_state(one) for one in tensors]
        expected = self._module(*inputs)
        changed = [not _is_same(*pair) for pair in zip(tensors, before, strict=True)]
        reason, results = "", list[Any]()
        if any(changed):
            reason = "it changes a tensor that it is given"
        elif any(one.device.type != "cpu" for one in tensors):
            reason = "its tensors are not on the CPU"
        elif self._made >= _MOST_PROGRAMS:
            reason = f"its sizes or weights changed {self._made} times"
        else:
            reason, results = self._described(inputs, expected)
        if reason:
            self._give_up(reason)
            return expected
        self._made += 1
        started = time.monotonic()
        try:
            program = _Program(self._compiled(inputs), _stamps(weights), results)
            reason = self._differs(self._results(program, inputs), expected)
        except Exception as error:  # torch can run it, whatever it is that TVM cannot
            reason = " ".join(str(error).split())[:_MOST_TEXT]
        self.seconds += time.monotonic() - started
        if reason:
            self._give_up(reason)
        else:
            self._programs[self._key(inputs)] = program
        return expected

    def _compiled(self, inputs: Sequence[Any]) -> CompiledNetwork:
        model = _frozen(self._torch, self._module, inputs, self._is_weight)
        network = import_network(model, tuple(self._given(inputs)), name="torch.compile")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of functions that have no record
            return self._settings.compile(network)

    def _described(self, inputs: Sequence[Any], expected: Sequence[Any]) -> tuple[str, list[Any]]:
        """Say why a network cannot return what torch returned, if so; and describe that."""
        torch = self._torch
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


def _stamps(weights: Sequence[Any]) -> list[tuple[int, int]]:
    return [(one.data_ptr(), one._version) for one in weights]


def _state(tensor: Any) -> Any:
    """Return what tells whether a tensor was changed: a copy where torch does not count changes."""
    return tensor.clone() if tensor.is_inference() else tensor._version


def _is_same(tensor: Any, before: Any) -> bool:
    return bool(tensor.equal(before) if tensor.is_inference() else tensor._version == before)


def _memory(tensor: Any) -> Any:
    return tensor.untyped_storage().data_ptr() or id(tensor)


def _frozen(torch: Any, module: Any, inputs: Sequence[Any], is_weight: Sequence[bool]) -> Any:
    """Return a module that takes the tensors of each call, and has all else."""

    class Frozen(torch.nn.Module):  # type: ignore[misc]
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

    return Frozen()
