"""A worker that compiles candidates and runs them in its own process."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from schedlang import host
from schedlang.measurement import Status
from schedlang.measurement.disturbance import Sample
from schedlang.targets.errors import RUNS_UNSCHEDULED, Fault, faults
from schedlang.targets.measure.backend import CompilingBackend, LoadedProgram
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.calls import PackedProgram
from schedlang.targets.measure.contention import Contention
from schedlang.targets.measure.runner import CandidateRunner
from schedlang.targets.measure.timing import ProgramTiming, TimingPolicy
from schedlang.targets.worker.executor import read_run_header
from schedlang.targets.worker.fork_server import keep_descendants, show_torch
from schedlang.targets.worker.process_state import (
    compute_by_default,
    end_forked_copies,
    no_new_processes,
    unchanged_process,
)
from schedlang.targets.worker.protocol import Dispatcher, Request, refusal, serve
from schedlang.tvm.analysis.races import with_parallel_loops
from schedlang.tvm.program import TensorProgram, from_json

_QUIET_SECONDS = 0.5


class InProcessWorker(Dispatcher):
    """Builds programs, and runs them one after the other; a subclass makes the backend.

    A program that leaves this process other than it was is refused, and the worker ends with it:
    so none runs in the state that another one left. Only the unscheduled program may change it.

    Attributes
    ----------
    unwatched: what its programs may change, as ``process_state`` calls it.
    """

    unwatched: Collection[str] = ()
    _backend: CompilingBackend
    _binding: Binding
    _runner: CandidateRunner

    def __init__(self) -> None:
        super().__init__()
        self._built: dict[int, LoadedProgram] = {}
        self._unscheduled: LoadedProgram | None = None
        # A subclass says what disturbs its machine.
        self._contention = Contention(())

    def on_bind(self, request: Request) -> dict[str, Any]:
        """Work for another workload from now on."""
        return self.bind(Binding.unpack(request.header, request.blobs))

    def bind(self, binding: Binding) -> dict[str, Any]:
        """Make the workload's data; where nobody knows the right results, run the unscheduled
        program for them.
        """
        self._built.clear()
        self._unscheduled = None
        if hasattr(self, "_runner"):
            del self._runner  # its tensors go before the next ones come
        self._binding = binding
        self._runner = CandidateRunner(self._backend, binding)
        seconds = None
        if binding.verifies and binding.reference is None:
            program = self._unscheduled_program()
            wide = self._wide_program() if binding.values is None else None
            # If it crashes, this tells the parent what did.
            print(RUNS_UNSCHEDULED, file=sys.stderr, flush=True)
            seconds = self._runner.learn(program, wide).seconds
            compute_by_default()
        return {
            "reference_seconds": seconds,
            "unreached": list(self._runner.unreached),
            "spent": self._runner.stopwatch.take(),
        }

    def on_build(self, request: Request) -> dict[str, Any]:
        """Compile a program and generate its machine code, unless that is too large."""
        if request.header["discard"]:
            self._built.clear()
        most, sizes = request.header["most_size"], [0]

        def accept(size: int) -> None:
            sizes.append(size)
            if most is not None and size > most:
                raise Fault(Status.BUILD_TIMEOUT, f"its code is of the size {size}")

        try:
            # Code may run when it is loaded.
            with unchanged_process(self.unwatched), faults(Status.BUILD_ERROR):
                program = self.compile_candidate(from_json(request.blobs[0].decode()), accept)
        except Fault as fault:
            if fault.status is not Status.BUILD_TIMEOUT:
                raise
            return {**refusal(fault.status, str(fault)), "size": sizes[-1]}
        self._built[request.header["id"]] = program
        return {"size": sizes[-1]}

    def compile_candidate(self, mod: TensorProgram, accept: Callable[[int], None]) -> LoadedProgram:
        """Compile a candidate; ``accept`` is told the size of its code where that is known."""
        return self._backend.compile(mod)

    def on_run(self, request: Request) -> dict[str, Any]:
        """Time a program that was built, and verify it."""
        header = request.header
        policy, best, verify_factor, repeats = read_run_header(header)
        program = self._built[header["id"]]
        if not header["keep"]:
            del self._built[header["id"]]

        def may_win(timing: ProgramTiming, slower: float) -> bool:
            return best is None or timing.fastest / slower <= policy.margin * best

        with self.guarded():
            timing = self._contention.undisturbed(
                lambda: self._runner.run(
                    program, policy, best, verify_factor, repeats, log=self.log
                ),
                may_win,
                policy.patience_seconds,
            )
        return {
            "samples": list(timing.samples),
            "verified": timing.verified,
            "disturbance": None if timing.disturbance is None else asdict(timing.disturbance),
            "packed_ahead": isinstance(program, PackedProgram),
            "spent": self._runner.stopwatch.take(),
        }

    def on_sample(self, request: Request) -> dict[str, Any]:
        """Take one more sample of each of some programs that were kept, one after the other."""
        header = request.header
        policy, taken = TimingPolicy(**header["policy"]), list[Sample]()
        for number, calls in header["programs"]:
            take = partial(
                self._runner.sample,
                self._built[number],
                calls,
                policy,
                verify=header["verify"],
                busy=bool(taken),
            )
            with self.guarded():
                taken.append(
                    self._contention.undisturbed(take, patience_seconds=policy.patience_seconds)
                )
        return {"samples": taken, "spent": self._runner.stopwatch.take()}

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Refuse a candidate that starts processes or leaves this one changed."""
        if self._backend.waits is not None:
            self._backend.waits.look_for_threads()
        # Copies of this process end in the inner one.
        with unchanged_process(self.unwatched), no_new_processes():
            yield

    def on_learn(self, request: Request) -> dict[str, Any]:
        """Find the right results: with a schedule and a part of the program to check it with.

        Without both, the unscheduled program gives them.
        """
        if not request.blobs:
            program, threads = self._unscheduled_program(), self._threaded_program()
            reference = self._runner.learn(program, threads=threads)
            compute_by_default()
        else:
            with self.guarded():
                with faults(Status.BUILD_ERROR):
                    schedule, part = (
                        self._backend.compile(from_json(blob.decode())) for blob in request.blobs
                    )
                reference = self._runner.learn_from(schedule, part)
        header, blobs = reference.pack()
        return {"reference": header, "blobs": blobs, "spent": self._runner.stopwatch.take()}

    def on_compare_given(self, request: Request) -> dict[str, Any]:
        """Compare the unscheduled program, or a part of it, with the results of the binding."""
        with faults(Status.BUILD_ERROR):
            program = (
                self._backend.compile(from_json(request.blobs[0].decode()))
                if request.blobs
                else self._unscheduled_program()
            )
        mismatch = self._runner.given_mismatch(program, part=bool(request.blobs))
        compute_by_default()
        return {"mismatch": mismatch, "spent": self._runner.stopwatch.take()}

    def on_build_reference(self, request: Request) -> dict[str, Any]:
        """Compile the unscheduled program, so that timing it starts at once."""
        self._unscheduled_program()
        return {}

    def on_time_reference(self, request: Request) -> dict[str, Any]:
        """Time the unscheduled program."""
        policy = TimingPolicy(**request.header["policy"])
        samples = self._runner.time_reference(self._unscheduled_program(), policy)
        compute_by_default()
        return {"samples": list(samples)}

    def on_settle(self, request: Request) -> dict[str, Any]:
        """Wait until TVM's threads sleep: after a parallel loop they spin for a while."""
        end = time.perf_counter() + _QUIET_SECONDS
        while time.perf_counter() < end and _other_threads_run():
            time.sleep(0.0005)
        return {}

    def _wide_program(self) -> LoadedProgram | None:
        """Compile the program in float64, if that is possible."""
        mod = self._binding.widened
        try:
            return None if mod is None else self._backend.compile(mod)
        except Exception:
            # Not every operation exists in float64; results are judged without it then.
            return None

    def _threaded_program(self) -> LoadedProgram | None:
        """Compile the program with its outermost loops in parallel, if that is possible."""
        try:
            mod = with_parallel_loops(self._binding.unscheduled)
            return None if mod is None else self._backend.compile(mod)
        except Exception:  # TVM's errors have many types: one thread does it then
            return None

    def _unscheduled_program(self) -> LoadedProgram:
        if self._unscheduled is None:
            with faults(Status.BUILD_ERROR):
                self._unscheduled = self._backend.compile(self._binding.unscheduled)
        return self._unscheduled


def limit_memory(limit: int) -> None:
    """Limit the data of this process, in bytes."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def run_worker(worker: Dispatcher) -> None:
    """Be a worker: answer requests until standard input ends.

    From now on ``fork`` makes no copy that lives; ``subprocess`` can be used.
    """
    show_torch()
    _be_killed_first()
    # A program's leftover processes stay below this one, where they are found.
    keep_descendants()
    end_forked_copies()
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What is imported stays: the collector would go through it while programs run.
    gc.freeze()
    serve(worker.answer)


def _be_killed_first() -> None:
    """When the system runs out of memory, it shall end this process, not the one that tunes."""
    try:
        (host.PROCESSES / "self/oom_score_adj").write_text("1000")
    except OSError:
        pass


def _other_threads_run() -> bool:
    threads = host.processes(host.THREADS)
    return any(stat.state == "R" and number != os.getpid() for number, stat in threads)
