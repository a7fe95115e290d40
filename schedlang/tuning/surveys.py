"""``survey()``: measure all programs of a small space, for searches to be judged without noise.

All ways through the space are recorded first, and each different program is measured once, in
random order. What comes out is a recorded space, on which searches run without measuring.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedlang.database import Database, Record
from schedlang.database.history import TrialRow
from schedlang.errors import InstructionError, InvalidTrace, RecordingError, SpaceError
from schedlang.lab import RecordedProgram, RecordedSpace, Ways
from schedlang.lab.recording import as_stored, line_of, read
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Status
from schedlang.search.base import Enumerator, ProposingStrategy
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.targets import Target, as_target
from schedlang.terminal import announced
from schedlang.tuning.options import SURVEY, SURVEY_SIZE, check_values
from schedlang.tuning.result import TuneResult
from schedlang.tuning.tasks import as_space
from schedlang.tuning.tune_workload import tune
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

# -- The survey of a workload ---------------------------------------------------------------------


class UnfinishedSurvey(RecordingError):
    """A survey ended before all programs were measured.

    Attributes
    ----------
    missing: number of programs that are not measured.
    programs: number of programs of the space.
    finished: why it ended.
    interrupted: whether that was Ctrl-C.
    """

    def __init__(self, message: str, result: TuneResult, missing: int, programs: int) -> None:
        super().__init__(message)
        self.missing, self.programs = missing, programs
        self.finished, self.interrupted = result.finished, result.interrupted


def survey(
    workload: Workload | Any,
    target: Target | str = "cpu",
    *,
    space: Space | Module | None = None,
    size: int = SURVEY_SIZE,
    seconds: float | None = None,
    seed: int = 0,
    database: Database | str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> RecordedSpace:
    """Measure every program of a space, in random order, and return the recorded space.

    Each program is verified, none is given up for being slow, and all samples are kept. Other work
    on the machine counts as in ``tune``: what it disturbed is timed again. The 1,422 programs of a
    product of 128 x 128 x 128 took seven minutes on two cores.

    Parameters
    ----------
    workload, target: as ``tune`` takes them.
    space: one that is small enough to be measured as a whole; by default the target's own,
        restricted to ``size`` (``Space.restricted``).
    size: approximate maximum number of ways through the part of the default space.
    seconds: wall-clock limit of measuring, for all calls that continue a survey together: with the
        same ``database``, the same call with more seconds goes on.
    seed: of the restriction, the order and the random inputs.
    database: where the records go, so that a survey that was interrupted goes on. Give each survey
        one of its own: records of other runs stand for measurements of this one.
    progress: as in ``tune``.

    Returns a complete recording only. RecordingError where time was over before all programs were
    measured, or none works; it says how many are missing. SpaceError for a space of more than
    50,000 programs. Other errors as from ``tune``.
    """
    check_values(SURVEY, locals())
    workload, machine = as_workload(workload), as_target(target)
    machine.check_present()
    if space is None:
        space = machine.default_space().restricted(workload, size, seed)
    given = as_space(space)
    with announced(f"running all ways through the space of {workload.name}"):
        ways, keys = enumerated(given, workload)
        if not keys:
            raise RecordingError(f"no way through the space of {workload.name} gives a program")
        check_found_again(workload, ways, keys)
    with machine.measurer(workload, verify="all", seed=seed, gives_up=False) as measurer:
        result = tune(
            workload,
            machine,
            space=given,
            search=Listed(given, workload, seed, ways=ways, keys=keys),
            trials=len(keys),
            seconds=seconds,
            seed=seed,
            database=database,
            measurer=measurer,
            transfer=False,
            verify="all",
            finals=0,
            progress=progress,
        )
    return _recorded(result, machine.key, ways, keys, kept=database is not None)


def load_survey(path: str | os.PathLike[str]) -> RecordedSpace:
    """Read a recorded space that ``RecordedSpace.save`` wrote; runs no code from the file.

    RecordingError for a file that is damaged, partial or no recorded space, for one of another
    schema, and for one with instructions of modules that are not imported; it names the file.
    """
    import schedlang.modules  # noqa: F401  (their instructions are known from then on)

    return RecordedSpace(**vars(read(path)))


def _recorded(
    result: TuneResult, target_key: str, ways: Ways, keys: Sequence[str], *, kept: bool
) -> RecordedSpace:
    rows: dict[str, TrialRow] = {one.record.program_key: one for one in result.history.rows}
    missing = [key for key in keys if key not in rows]
    name = result.workload.name
    if missing:
        how = "the same call" if result.interrupted else "the same call with more seconds"
        raise UnfinishedSurvey(
            f"{len(missing)} of {len(keys)} programs of {name} are not measured "
            f"({result.finished.partition(';')[0]}); "
            + (f"{how} goes on" if kept else f"with a database, {how} would go on"),
            result,
            len(missing),
            len(keys),
        )
    usual = _usual_seconds(rows.values())
    programs = [as_stored(_program(key, rows[key], usual)) for key in keys]
    if not any(one.samples for one in programs):
        raise RecordingError(f"no program of {name} works; the first: {programs[0].message}")
    disturbance = result.disturbance
    return RecordedSpace(
        result.workload,
        target_key,
        rows[keys[0]].record.toolchain_key,
        ways,
        programs,
        (result.reference_latency,),
        {
            "machine": platform.processor() or platform.machine(),
            "measured": time.strftime("%Y-%m-%d"),
            "seconds": round(max(one.seconds for one in rows.values()), 1),
            "disturbed": round(disturbance.share, 4) if disturbance.share is not None else None,
        },
    )


def _usual_seconds(rows: Iterable[TrialRow]) -> tuple[float, float]:
    """Return the median seconds of building a program, and of running and verifying it."""
    timed = [one for one in rows if one.build is not None]
    if not timed:
        return 0.0, 0.0
    builds = statistics.median(one.build or 0.0 for one in timed)
    return builds, statistics.median((one.run or 0.0) + (one.verify or 0.0) for one in timed)


def _program(key: str, row: TrialRow, usual: tuple[float, float]) -> RecordedProgram:
    record: Record = row.record
    ok = record.status is Status.OK
    seconds = row.build or 0.0, (row.run or 0.0) + (row.verify or 0.0)
    if row.build is None and record.status is not Status.REJECTED:
        # Another run measured it, or a call of this one that died before it stored its times.
        seconds = usual
    return RecordedProgram(
        key, record.status, record.samples if ok else (), "" if ok else record.message, *seconds
    )


# -- All ways through a space, and a search that proposes each program ----------------------------

MOST_PROGRAMS = 50_000


def enumerated(space: Space, workload: Workload) -> tuple[Ways, list[str]]:
    """Run a space in all ways; return them, and the structural keys of its programs, each once.

    SpaceError where there are more than 50,000.
    """
    decider, ways = Enumerator(None), Ways()
    keys: dict[str, int] = {}
    going = True
    while going:
        try:
            sch = space.run(workload, decider)
            ways.add(sch.trace.instructions, keys.setdefault(sch.program_key, len(keys)))
        except (InvalidTrace, InstructionError):
            pass  # it is in no recording, and a search that meets it there is refused
        if len(keys) > MOST_PROGRAMS:
            raise SpaceError(
                f"the space of {workload.name} has more than {MOST_PROGRAMS} programs; "
                "space.restricted(workload, size=5000) is a part of it"
            )
        going = decider.advance()
    return ways, list(keys)


def check_found_again(workload: Workload, ways: Ways, keys: Sequence[str]) -> None:
    """SpaceError where a recording of these ways would not lead to all of their programs."""
    programs = [RecordedProgram(key, Status.REJECTED) for key in keys]
    recorded = RecordedSpace(workload, "", "", ways, programs, ())
    _, found = enumerated(recorded.space, workload)
    if lost := set(keys).difference(found):
        raise SpaceError(
            f"{len(lost)} of {len(keys)} programs of {workload.name} would not be found in the "
            "recording: modules draw or choose, then do not apply, and others use the same names; "
            "give their sites names of their own"
        )


class Listed(ProposingStrategy):
    """Proposes the programs of a list in random order.

    Parameters
    ----------
    space, workload: what the programs are of.
    seed: of the order.
    ways, keys: as from ``enumerated``.
    """

    name = "survey"

    def __init__(
        self, space: Space, workload: Workload, seed: int = 0, *, ways: Ways, keys: Sequence[str]
    ) -> None:
        super().__init__(space, workload, seed)
        self._ways = ways
        first = ways.first()
        self._order = [first[program] for program in range(len(keys))]
        random.Random(seed).shuffle(self._order)
        self._next = 0

    def propose(self) -> Schedule | None:
        way = self._order[self._next]
        self._next += 1
        return Trace(line_of(self._ways, way), self.workload).replay()

    @property
    def finished(self) -> str | None:
        done = self._next >= len(self._order)
        return f"all {len(self._order)} programs proposed" if done else None

    @property
    def settings(self) -> Mapping[str, object]:
        return {"programs": len(self._order)}

    def state(self) -> Mapping[str, Any]:
        return {"next": self._next}

    def restore(self, stored: Any) -> None:
        self._next = int(stored["next"])
