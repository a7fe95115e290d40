"""Timing and verifying libraries of one workload on servers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from schedlang.measurement import Status
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.inputs import TensorSpec
from schedlang.targets.measure.runner import Outcome, numerics
from schedlang.targets.measure.timing import TimingPolicy, collect
from schedlang.targets.measure.verify import instability
from schedlang.targets.rpc.dataset import RemoteData, RemoteReference, learn_reference
from schedlang.tvm.program import from_json
from schedlang.tvm.rpc import RemoteLibrary, RemoteSession

_TRIES = 3
# A call this long is timed by our own clock: the way to the server does not count, and TVM's
# evaluator would run it twice.
_LONG_SECONDS = 1.0
_SLACK_SECONDS = 0.005
# More than the last-level cache of most servers, which do not say how large theirs is.
_FLUSH_BYTES = 128 << 20


class RemoteBench:
    """One workload, measured on one server after the other.

    Parameters
    ----------
    program: the unscheduled program, as TVM's JSON.
    args: the tensors of one call.
    seed: of the random inputs.
    shortest_time: seconds below which no call is to be believed.
    """

    def __init__(
        self, program: str, args: Sequence[TensorSpec], seed: int, shortest_time: float
    ) -> None:
        self._args = tuple(args)
        self._seed = seed
        self._numerics = numerics(from_json(program))
        self._shortest_time = shortest_time
        self._references: dict[str, RemoteReference] = {}

    def knows(self, server: str) -> bool:
        """Whether results from this server can be verified."""
        return server in self._references

    def learn(self, session: RemoteSession, server: str, library: Path) -> None:
        """Run the unscheduled program there; Fault when it fails or gives no numbers."""
        with faults(Status.RUN_ERROR):
            loaded = session.load(library)
        self._references[server] = learn_reference(
            lambda data: loaded.entry(*data.tensors),
            lambda positive: RemoteData(session, self._args, self._seed, positive=positive),
        )

    def run(
        self,
        session: RemoteSession,
        server: str,
        library: Path,
        policy: TimingPolicy,
        best: float | None,
        verify_factor: float | None,
    ) -> Outcome:
        """Time a library there.

        Verified when its median is at most ``verify_factor * best``, or there is no best; with None
        never. Raises Fault.
        """
        reference = self._references.get(server)
        with faults(Status.RUN_ERROR):
            program = session.load(library)
            positive = reference is not None and reference.positive
            data = RemoteData(session, self._args, self._seed, positive=positive)
            timer = _Timer(program, data, session, flush_cache=policy.flush_cache)
            samples = collect(timer.seconds, policy, best).samples
        verified = False
        if verify_factor is not None and (
            best is None or statistics.median(samples) <= verify_factor * best
        ):
            if reference is None:
                raise RuntimeError(f"there is no reference for {server}")
            self._verify(program, data, reference)
            verified = True
        self._check(samples)
        return Outcome(samples, verified)

    def _verify(self, program: RemoteLibrary, data: RemoteData, reference: RemoteReference) -> None:
        _call_afresh(program, data)
        if (reason := data.changed_input()) is not None:
            raise Fault(Status.WRONG_RESULT, reason)
        if (reason := reference.mismatch(data, self._numerics)) is not None:
            reason += instability(lambda: _call_afresh(program, data), data.outputs)
            raise Fault(Status.WRONG_RESULT, reason)

    def _check(self, samples: tuple[float, ...]) -> None:
        lowest = min(samples)
        reason = None
        if not lowest > 0:
            reason = f"a call took {lowest:g} s by the server's clock"
        elif lowest < self._shortest_time:
            reason = (
                f"a call took {lowest:.3g} s, and its arithmetic takes the target more than "
                f"{self._shortest_time:.3g} s"
            )
        if reason is not None:
            raise Fault(Status.SUSPICIOUS_TIME, reason, samples=samples)


def _call_afresh(program: RemoteLibrary, data: RemoteData) -> None:
    data.restore()
    with faults(Status.RUN_ERROR):
        program.entry(*data.tensors)


class _Timer:
    """Times calls of one library on one server."""

    def __init__(
        self,
        program: RemoteLibrary,
        data: RemoteData,
        session: RemoteSession,
        *,
        flush_cache: bool,
    ) -> None:
        self._program = program
        self._data = data
        self._flush_bytes = _FLUSH_BYTES if flush_cache else 0
        # What may pass between our clock's readings besides the calls.
        self._slack = _SLACK_SECONDS + 10 * session.round_trip
        self._timers: dict[int, Callable[..., float]] = {}
        self._called = False

    def seconds(self, calls: int) -> float:
        """Seconds per call of ``calls`` in a row, by the server's clock; one more comes before.

        Raises Fault when our clock contradicts it.
        """
        if self._data.in_place:
            self._data.restore()
        if not self._called:
            self._called = True
            start = time.perf_counter()
            self._program.entry(*self._data.tensors)
            wall = time.perf_counter() - start
            if wall >= _LONG_SECONDS:
                return wall
            if self._data.in_place:
                self._data.restore()
        if calls not in self._timers:
            self._timers[calls] = self._program.timer(calls, self._flush_bytes)
        timer = self._timers[calls]
        for _ in range(_TRIES):
            start = time.perf_counter()
            seconds = timer(*self._data.tensors)
            wall = time.perf_counter() - start
            if self._plausible(seconds, wall, calls):
                return seconds
        raise Fault(
            Status.SUSPICIOUS_TIME,
            f"{calls} calls took {seconds * calls:.3g} s by the server's clock, and with the way "
            f"there {wall:.3g} s by ours",
            samples=(seconds,),
        )

    def _plausible(self, seconds: float, wall: float, calls: int) -> bool:
        """Whether the server's clock, which may be stepped, agrees with our monotonic one."""
        if seconds * calls > wall:
            return False
        return bool(self._flush_bytes) or seconds >= 0.25 * (wall - self._slack) / (calls + 1)
