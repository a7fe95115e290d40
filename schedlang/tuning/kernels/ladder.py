"""``Ladder`` answers which kernel a program gets, of a database; ``best`` and ``apply`` ask it.

Its rungs, from the top: records of the program itself and of programs that compute the same;
schedules of relatives, which are raced on this machine; schedules of programs of other shapes as
they are carried over. Whoever asks names the rungs. What no rung has gets a default schedule
(``defaults``).
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from schedlang.database import Database, Record
from schedlang.database.opening import opened_for_reading
from schedlang.database.programs import Unreadable
from schedlang.errors import (
    DatabaseError,
    PackingWarning,
    TargetError,
    UntunedWarning,
    WorkloadError,
)
from schedlang.measurement.problem import Problem
from schedlang.printed import listed
from schedlang.targets import Target, as_target
from schedlang.targets.kinds import class_of
from schedlang.tuning.kernels.match import PACKED, Match, caution
from schedlang.tuning.kernels.race import race
from schedlang.tuning.kernels.rungs import Lead, Rungs, recorded_elsewhere
from schedlang.tuning.measuring import Measuring
from schedlang.tuning.records import packed_ahead
from schedlang.tvm import program
from schedlang.tvm.codegen.pipeline import written_for_tvm
from schedlang.workloads.construct import as_workload, from_prim_func
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


# -- ``best`` and ``apply`` -----------------------------------------------------------------------

P = ParamSpec("P")
T = TypeVar("T")


def _or_target_first(function: Callable[P, T]) -> Callable[P, T]:
    """Let ``function(what, database, target)`` take ``(what, target, database)`` too, as before.

    A ``Database`` and a path are told from a ``Target`` and its name. Raises TypeError for words
    that may be either.
    """

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> T:
        what, places = args[:1], args[1:]
        if len(places) == 1 and "target" not in named:
            if "database" in named or _role(places[0], places) == "target":
                return function(*what, target=places[0], **named)  # type: ignore[arg-type]
        elif len(places) == 2:
            one, other = (_role(place, places) for place in places)
            if one == other == "target":
                raise _unclear(places)
            # A word that is no target's name, before what is a database, is a misspelt target.
            misspelt = one == other and not _is_there(places[0]) and _is_there(places[1])
            if one == "target" or misspelt:
                return function(*what, *places[::-1], **named)  # type: ignore[arg-type]
        return function(*args, **named)

    return call


def _role(place: Any, places: tuple[Any, ...]) -> Literal["database", "target"]:
    """Tell whether an argument is a database or a target; ``places`` are for the message."""
    if place is None or isinstance(place, Database | os.PathLike):
        return "database"
    if not isinstance(place, str):
        return "target"
    try:
        class_of(place)
    except TargetError:
        return "database"
    if _is_there(place):
        raise _unclear(places)
    return "target"


def _is_there(database: Any) -> bool:
    return isinstance(database, Database) or os.path.exists(database or "")


def _unclear(places: tuple[Any, ...]) -> TypeError:
    said = ", ".join(map(repr, places))
    return TypeError(
        f"best(workload, {said}): is that a database or a target? write database= and target="
    )


@_or_target_first
def best(
    workload: Workload | Any,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    *,
    similar: bool = True,
) -> Match | None:
    """Return the best verified program that a database has for a workload, or None.

    Records of the same program come first, then those of programs with the same exact key; of
    each, records of this toolchain are preferred. Of the records of one program the winner of the
    newest finals comes first, unless one that took no part in them is clearly faster, by more than
    10%; without finals it is the fastest. The unscheduled program is one of them, as ``tune``
    measures it too: where nothing is faster, the match is the program as it is
    (``Match.unscheduled``).

    With ``similar``, schedules of relatives are next, where this machine is the target. They are
    those of this program on other machines, the nearest machine first (``Target.relatives``), each
    fitted to this machine and as it is; without any, those of programs of the same family; without
    any, those of programs of other shapes (``Workload.kin_key``), with the nearest tiles. They are
    verified, measured and raced against the default schedule and the unscheduled program, which
    takes some seconds. The fastest is returned, and ``Match.notes`` say what it is. The records are
    kept, so that this happens once.

    Parameters
    ----------
    workload: what ``tune`` takes.
    database: a path or a ``Database``; a file is not changed unless something is measured.
    target: a ``Target`` or its name. The order ``best(workload, target, database)`` works too.
    similar: whether to try schedules of other machines and of similar programs. An
        ``UntunedWarning`` says so where there are records of other machines and none can be tried.

    Rows that would have been used and cannot be read are named by an ``UnreadableWarning``. Raises
    ``DatabaseError`` when the database cannot be opened, for a path without a file, and where a
    frozen one (``schedlang.freeze``) does not have the program.
    """
    workload, target = as_workload(workload), as_target(target)
    with ExitStack() as stack:
        ladder = Ladder(database, target, stack, similar=similar)
        found = ladder.find(workload)
    ladder.unreadable.warn(stacklevel=3)
    if found is None and similar and ladder.advice:
        message = f"{workload.name} has no record on {target.key}{ladder.advice}"
        warnings.warn(message, UntunedWarning, stacklevel=3)
    return found


def apply(
    mod: TensorProgram | Any,
    database: Database | str | os.PathLike[str],
    target: Target | str = "cpu",
    *,
    similar: bool = False,
    strict: bool = False,
) -> TensorProgram:
    """Return a module with the best programs of a database in place of its functions.

    A function stays as it is where the database says that no candidate is faster. An index that
    TVM 0.27's own pipeline would compute wrongly is written so that it computes it right.

    Functions that cannot be scheduled (Relax functions, functions with symbolic shapes or without
    blocks) stay as they are. So does a function that could be tuned but has no record; an
    ``UntunedWarning`` names it, and one whose faster records were not verified. A function whose
    record was measured with weights packed ahead is complete here, and packs them in each call: a
    ``PackingWarning`` names it. ``compile_network`` packs them once.

    Parameters
    ----------
    mod: an IRModule, or anything that ``tune`` takes.
    database: a path or a ``Database``.
    target: a ``Target`` or its name.
    similar: also try schedules of other machines and of similar programs, as ``best`` does; a
        warning says what was taken.
    strict: DatabaseError instead of the warning, and instead of the ``UnreadableWarning`` for rows
        that cannot be read.
    """
    target = as_target(target)
    if not isinstance(mod, program.TensorProgram):
        mod = as_workload(mod).mod
    replaced: dict[str, Any] = {}
    untuned: list[str] = []
    packing: list[str] = []
    with ExitStack() as stack:
        ladder = Ladder(database, target, stack, similar=similar)
        for name, func in program.named_functions(mod).items():
            try:
                workload = from_prim_func(func, name)
            except WorkloadError:
                continue
            found = ladder.find(workload)
            if found is None:
                untuned.append(name)
                continue
            if text := caution(found):
                warnings.warn(text, UntunedWarning, stacklevel=2)
            if not found.unscheduled:
                replaced[name] = found.in_place_of(func)
                if packed_ahead(found.record):
                    packing.append(name)
    if ladder.unreadable and strict:
        rows = ladder.unreadable.listed
        raise DatabaseError(f"tune again, or leave out strict=True: rows cannot be read: {rows}")
    ladder.unreadable.warn()
    if untuned:
        names = listed(untuned)
        if strict:
            raise DatabaseError(
                f"tune first, or leave out strict=True: no record on {target.key}"
                f"{ladder.advice} for: {names}"
            )
        message = f"what has no record on {target.key} stays unscheduled{ladder.advice}: {names}"
        warnings.warn(message, UntunedWarning, stacklevel=2)
    if packing:
        message = f"each call packs the weights, and {PACKED}: {listed(packing)}"
        warnings.warn(message, PackingWarning, stacklevel=2)
    return written_for_tvm(program.replace_functions(mod, replaced))


# -- The rungs, one after the other ---------------------------------------------------------------

Rung = Literal["recorded", "carried"]
"""Records, or what raced as well as they; schedules of other shapes that nothing has measured."""
# Number of other machines that a message names.
_NAMED = 3


class Ladder:
    """The look-ups of one call in one database.

    Parameters
    ----------
    database: a path or a ``Database``; DatabaseError where it cannot be opened.
    target: the machine.
    stack: closes the file that was opened, and what measures: workers start when one is needed.
    similar: race schedules of relatives where there is no record; they are measured.

    Attributes
    ----------
    database: it, opened.
    target: as given.
    unreadable: rows that would have been used and cannot be read.
    elsewhere: keys of other machines that have records of programs that ``find`` did not find.
    """

    def __init__(
        self,
        database: Database | str | os.PathLike[str] | None,
        target: Target,
        stack: ExitStack,
        *,
        similar: bool,
    ) -> None:
        self.database = opened_for_reading(database, stack)
        self.target = target
        self.unreadable = Unreadable()
        self.elsewhere: dict[str, None] = {}
        self._given = database
        self._rungs = Rungs(self.database, target, self.unreadable)
        self._racing = Measuring(None, target, Problem(verify="all"), stack) if similar else None

    def find(self, workload: Workload, left_out: Collection[int | None] = ()) -> Match | None:
        """Return what ``best`` returns, but for the records with the ids in ``left_out``.

        Where records were left out, there are some of this machine: no relatives are tried.
        """
        rungs = self._rungs
        if self.database.frozen:
            return rungs.frozen(workload, left_out)
        found = rungs.own(workload, left_out)
        if found is None or found.unscheduled:
            other = rungs.equal(workload, left_out)
            if found is None or (other is not None and other.latency < found.latency):
                found = other
        if found is None and not left_out:
            if self._racing is not None:
                found = race(workload, rungs, self._given, self._racing)
            if found is None:
                elsewhere = recorded_elsewhere(workload, self.target, self.database)
                self.elsewhere |= dict.fromkeys(elsewhere)
        return found

    def climb(self, workload: Workload, *rungs: Rung) -> Iterator[Match | Lead]:
        """Yield programs for a workload, from the first of these rungs that has any, best first.

        What follows the first is for a program that cannot be compiled. The unscheduled program is
        a match only where a search looked for a faster one, and is the last one then. An
        ``UntunedWarning`` says where the program cannot be measured.
        """
        sources: dict[Rung, Callable[[Workload], Iterator[Match | Lead]]]
        sources = {"recorded": self._recorded, "carried": self._carried}
        for rung in rungs:
            empty = True
            try:
                for found in sources[rung](workload):
                    empty = False
                    yield found
            except WorkloadError as error:  # of measuring it
                text = f"{workload.name}: nothing can be tried on it: {error}"
                warnings.warn(text, UntunedWarning, stacklevel=5)
            if not empty:
                return

    def _recorded(self, workload: Workload) -> Iterator[Match]:
        tried: set[int | None] = set()
        while True:
            found = self.find(workload, tried)
            if found is None or found.record.id in tried:
                return
            if found.unscheduled and not _was_tuned(found.record, self.database):
                return  # nobody looked for a faster one
            yield found
            if found.unscheduled:
                return
            tried.add(found.record.id)

    def _carried(self, workload: Workload) -> Iterator[Lead]:
        """Yield schedules of other shapes; one that was measured here and is no match failed."""
        # A frozen database has the winners of the very programs alone.
        return iter(()) if self.database.frozen else self._rungs.kin(workload)

    @property
    def advice(self) -> str:
        """What to do with the records of other machines; empty where there are none to use.

        It is a part of a sentence, in brackets.
        """
        if not self.elsewhere:
            return ""
        named = ", ".join([*self.elsewhere][:_NAMED])
        more = len(self.elsewhere) - _NAMED
        machines = f"{named} and {more} more" if more > 0 else named
        try:
            self.target.check_present()
        except TargetError:
            return f" (with similar=True, the machine itself can try the records of {machines})"
        if self._racing is not None:
            return f" (no schedule of {machines} works here)"
        return f" (there are records of {machines}: similar=True fits them to this machine)"


def _was_tuned(record: Record, database: Database) -> bool:
    """Return whether candidates were measured besides the unscheduled program of a record."""
    if record.id is None or database.frozen:
        return True  # just now, or nothing else of them was kept
    measured = database.query(record.workload_key, record.target_key)
    return not all(one.unscheduled for one in measured)
