"""One workload's data on a server, and the libraries that are run on them there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.measurement import Status
from schedlang.targets import inputs
from schedlang.targets.inputs import TensorSpec
from schedlang.targets.verification import Array
from schedlang.targets.workbench import Fault, Workbench, _Program
from schedlang.tvm import runtime
from schedlang.tvm.program import MAIN

if TYPE_CHECKING:
    from tvm.target import Target as TVMTarget

    from schedlang.tvm.rpc import RemoteSession

_TRIES = 3
# A call this long is timed by our own clock: the way to the server does not count, and TVM's
# evaluator would run it twice.
_LONG_SECONDS = 1.0
_SLACK_SECONDS = 0.005


class RemoteBench(Workbench):
    """A workbench whose tensors and programs are on the server of the attached session.

    Inputs are made here from the seed, so that they are the same on every server. The reference is
    learnt on one server at a time and kept in a file for other processes.
    """

    def __init__(
        self, program: str, args: Sequence[TensorSpec], target: TVMTarget, seed: int
    ) -> None:
        super().__init__(program, args, target, (), seed, reference=False)
        self._seed = seed
        self._session: RemoteSession | None = None
        self._library = Path()
        self._sent: list[Array | None] | None = None
        self._fresh = True
        self._positive = False
        self._recalled = Path()

    def attach(self, session: RemoteSession) -> None:
        """Use the server of ``session``, with tensors of its own."""
        self._session = session
        self._tensors = [session.empty_tensor(arg.shape, arg.dtype) for arg in self._args]
        self._sent = None

    def detach(self) -> None:
        """Let go of everything on the server: the session ends with the last of it."""
        self._built.clear()
        self._reference = self._session = None
        self._tensors = []

    def learn_reference(self, library: Path, store: Path) -> None:
        """Run the unscheduled program's library on the server and keep its results in ``store``.

        Raises Fault when it fails or gives no numbers.
        """
        self._library = library
        self._compute_reference(self._seed)
        self._recalled, self._positive = Path(), self._inputs_are_positive()
        arrays = {"positive": np.array(self._positive)}
        for i, (value, untouched) in enumerate(self._expected_pairs()):
            arrays[f"value{i}"] = np.frombuffer(value.tobytes(), np.uint8)
            if untouched is not None:
                arrays[f"untouched{i}"] = untouched
        partial = store.with_suffix(f".{os.getpid()}")
        with partial.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
        os.replace(partial, store)

    def recall_reference(self, store: Path) -> None:
        """Compare with the results in ``store`` from now on."""
        if store == self._recalled:
            return
        with np.load(store, allow_pickle=False) as arrays:
            positive = bool(arrays["positive"])
            if positive != self._positive:
                self._inputs = inputs.random_inputs(self._args, self._seed, positive=positive)
            self._expected, self._untouched = [], []
            for i, position in enumerate(self._written):
                arg = self._args[position]
                raw: Array = arrays[f"value{i}"]
                self._expected.append(raw.view(np.dtype(arg.dtype)).reshape(arg.shape))
                self._untouched.append(arrays.get(f"untouched{i}"))
        self._recalled, self._positive, self._checksum = store, positive, self._digest()

    def load(self, identity: int, library: Path) -> None:
        """Upload a library and load it on the server; ``run`` then takes it by its identity."""
        self._restore()
        self._built[identity] = self._load(library)

    def _inputs_are_positive(self) -> bool:
        wanted = inputs.random_inputs(self._args, self._seed, positive=True)
        return all(
            mine is None or mine.tobytes() == other.tobytes()
            for mine, other in zip(self._inputs, wanted, strict=True)
            if other is not None
        )

    def _compile(self, mod: Any) -> _Program:
        """The reference has been compiled already."""
        return self._load(self._library)

    def _load(self, library: Path) -> _Program:
        assert self._session is not None
        module = self._session.load(library)
        self._fresh = True
        return _Program(module, module.entry)

    def _restore(self) -> None:
        # Inputs travel once a session: a program that changes one is refused for that anyway.
        for tensor, arg, value in zip(self._tensors, self._args, self._inputs, strict=True):
            if value is None:
                tensor.copyfrom(inputs.poison(arg.shape, arg.dtype))
            elif arg.role != "input" or self._sent is not self._inputs:
                tensor.copyfrom(value)
        self._sent = self._inputs

    def _time_one(self, program: _Program) -> float:
        if self._fresh:
            self._fresh = False
            start = time.perf_counter()
            program.entry(*self._tensors)
            wall = time.perf_counter() - start
            if wall >= _LONG_SECONDS:
                return wall
        return self._time_batch(program, runtime.batch_timer(program.module, MAIN, 1), 1)

    def _time_batch(self, program: _Program, timer: Callable[..., float], calls: int) -> float:
        assert self._session is not None
        slack = _SLACK_SECONDS + 10 * self._session.round_trip
        for _ in range(_TRIES):
            start = time.perf_counter()
            seconds = timer(*self._tensors)
            wall = time.perf_counter() - start
            # The server's clock may be stepped while it counts; our monotonic one also sees the
            # way there and back.
            if 0.25 * (wall - slack) / (calls + 1) <= seconds <= wall / calls and seconds > 0:
                return seconds
        raise Fault(
            Status.SUSPICIOUS_TIME,
            f"the server's clock says {seconds:.3g} s a call, ours {wall / (calls + 1):.3g} s",
        )

    @contextmanager
    def _pinned(self) -> Iterator[None]:
        yield  # no generated code runs in this process
