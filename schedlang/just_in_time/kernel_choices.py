"""Which kernel a program gets: of a database, of a set of shapes, a tuned one, or the default."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from schedlang.database import Database
from schedlang.errors import RunInUseError, SchedlangError
from schedlang.just_in_time.kernel_cache import KernelCache, StoredDefault
from schedlang.language.schedule import Trace
from schedlang.measurement import describe_latency
from schedlang.targets import CompiledFunction, Target
from schedlang.tuning.kernels.defaults import default_schedule
from schedlang.tuning.kernels.ladder import Ladder
from schedlang.tuning.kernels.match import Match
from schedlang.tuning.kernels.rungs import Lead
from schedlang.tuning.tune_workload import tune
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

DEFAULT = "default schedule, not measured"


class FindsKernels(Protocol):
    """Kernels for shapes, such as a set that was tuned for many of them."""

    def find(self, extents: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Return the kernel for these values of the template's parameters; None without one.

        It takes all tensors of the program, in order, and writes the outputs.
        """


@dataclass(frozen=True)
class Origin:
    """Where a kernel comes from.

    Attributes
    ----------
    text: in a few words.
    latency: of the record, in seconds; None where nothing was measured.
    notes: what a user should know besides.
    """

    text: str
    latency: float | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        measured = [] if self.latency is None else [describe_latency(self.latency)]
        return "; ".join((", ".join((self.text, *measured)), *self.notes))


@dataclass(frozen=True)
class KernelChoice:
    """A kernel that a program may get, and what makes it. ``build`` raises BuildError."""

    origin: Origin
    build: Callable[[], Callable[..., Any]]


@dataclass(frozen=True)
class Chooser:
    """Chooses kernels.

    Attributes
    ----------
    target: the machine.
    database: where records are, and go, if anywhere.
    database_name: as the user wrote it.
    shapes: a set of kernels, if there is one.
    trials, seconds: the budget of tuning; 0 and None do not tune.
    cache: keeps what is compiled.
    """

    target: Target
    database: Database | Path | None
    database_name: str
    shapes: FindsKernels | None
    trials: int
    seconds: float | None
    cache: KernelCache

    @property
    def tunes(self) -> bool:
        """Whether it may tune."""
        return self.trials > 0 or self.seconds is not None

    def choices(self, workload: Workload, values: Mapping[str, Any]) -> Iterator[KernelChoice]:
        """Yield kernels for a program, the best first: whoever asks takes the first that builds."""
        found = self._recorded(workload)
        if found is not None:
            yield self._of_match(found)
        given = None if self.shapes is None else self.shapes.find(dict(values))
        if given is not None:
            yield KernelChoice(self._of_shapes(), partial(_returned, given))
        notes = []
        if found is None and self.tunes:
            note = self._tune(workload)
            found = self._recorded(workload)
            if found is not None:
                yield self._of_match(found)
            notes = [note or f"tuning found no verified program; see {self.database_name}"]
        notes += self._lacking()
        yield KernelChoice(
            Origin(DEFAULT, None, tuple(notes)), partial(self._build_default, workload)
        )
        origin = Origin("the unscheduled program", None, ("nothing else could be compiled",))
        yield KernelChoice(origin, partial(self._build, workload, workload.key, workload.mod))

    def foreseen(self, workload: Workload, values: Mapping[str, Any]) -> Origin:
        """Return where the kernel would come from; nothing is tuned or compiled."""
        found = self._recorded(workload)
        if found is not None:
            return self._of_match(found).origin
        if self.shapes is not None and self.shapes.find(dict(values)) is not None:
            return self._of_shapes()
        if self.tunes:
            seconds = [] if self.seconds is None else [f"seconds={self.seconds:g}"]
            budget = ", ".join([f"trials={self.trials}"] * (self.trials > 0) + seconds)
            return Origin(f"no kernel yet: the first call tunes it ({budget})")
        return Origin(DEFAULT, None, tuple(self._lacking()))

    def _lacking(self) -> list[str]:
        if self.database is None:
            return []
        if isinstance(self.database, Path) and not self.database.exists():
            return [f"there is no file {self.database_name}"]
        return [f"{self.database_name} has no record of it"]

    # -- records -------------------------------------------------------------------------------

    def _recorded(self, workload: Workload) -> Match | None:
        """Return the best verified record of this very program, if a search made one."""
        if self.database is None:
            return None
        if isinstance(self.database, Path) and not self.database.exists():
            return None  # nobody has tuned yet
        with ExitStack() as stack:
            ladder = Ladder(self.database, self.target, stack, similar=False)
            found = next(ladder.climb(workload, "recorded"), None)
        ladder.unreadable.warn(stacklevel=5)
        assert not isinstance(found, Lead)
        return found

    def _of_match(self, found: Match) -> KernelChoice:
        how = "tuned, verified"
        if found.unscheduled:
            how = "the unscheduled program: no candidate is faster"
        origin = Origin(
            f"record {found.record.id} of {self.database_name} ({how})", found.latency, found.notes
        )
        key = program.structural_key(found.mod)
        return KernelChoice(origin, partial(self._build, found.workload, key, found.mod))

    def _of_shapes(self) -> Origin:
        return Origin(f"a kernel of the {type(self.shapes).__name__} given as shapes=")

    def _tune(self, workload: Workload) -> str:
        """Tune a program into the database; return why that was not done, else nothing.

        KeyboardInterrupt where Ctrl-C ended it: the call of a kernel does not go on then.
        """
        with _TUNING.lock:
            if self._recorded(workload) is not None:
                return ""  # another thread has just tuned it
            try:
                result = tune(
                    workload,
                    self.target,
                    trials=self.trials or None,
                    seconds=self.seconds,
                    database=self.database,
                )
            except RunInUseError:
                return "another process is tuning it: refresh() takes its result"
        if result.interrupted:
            raise KeyboardInterrupt
        return ""

    # -- building ------------------------------------------------------------------------------

    def _build(self, workload: Workload, key: str, mod: program.TensorProgram) -> CompiledFunction:
        found = self.cache.load(workload, key)
        return found or self.cache.build(workload, key, workload.labelled(mod))

    def _build_default(self, workload: Workload) -> CompiledFunction:
        """Build the default schedule, from a library or a trace that another process has left."""
        stored = self.cache.find_default(workload)
        if stored is not None:
            kernel = self.cache.load(workload, stored.program_key)
            if kernel is not None:
                return kernel
        mod = None if stored is None else _replayed(stored, workload)
        if mod is None:
            schedule = default_schedule(workload, self.target)
            mod, key = schedule.mod, schedule.program_key
            self.cache.keep_default(workload, StoredDefault(key, schedule.trace.to_json()))
        return self._build(workload, program.structural_key(mod), mod)


def _replayed(stored: StoredDefault, workload: Workload) -> program.TensorProgram | None:
    try:
        schedule = Trace.from_json(stored.trace, workload).replay()
    except SchedlangError:
        return None
    return schedule.mod if schedule.program_key == stored.program_key else None


def _returned(given: Callable[..., Any]) -> Callable[..., Any]:
    return given


class _OneAtATime:
    """One run at a time: runs beside each other would disturb each other's measurements."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_TUNING = _OneAtATime()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_TUNING.__init__)  # type: ignore[misc]
