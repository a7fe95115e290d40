"""schedlang's records as TVM's traces, and the stored workloads that equal a function.

TVM must make the same program of each trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from schedlang.database import Database, Record
from schedlang.database.programs import Unreadable
from schedlang.errors import SchedlangError, TargetError, TraceFormatError
from schedlang.interpreters.conversions import TVMForm, to_tvm
from schedlang.interpreters.document import short
from schedlang.language.schedule import Trace
from schedlang.targets import as_target
from schedlang.tvm import errors, metaschedule as tvm_metaschedule, program
from schedlang.tvm.codegen import llvm_target
from schedlang.tvm.codegen.pipeline import written_for_tvm
from schedlang.tvm.metaschedule import kind_of
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget
    from schedlang.tvm.program import TensorFunction, TensorProgram


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A stored program and its structural key; ``problem`` says why it cannot be read."""

    origin_free: TensorProgram | None
    key: str
    problem: str = ""


def origin_free(func: TensorFunction) -> TensorProgram:
    """Return the function as it is compared: without a name and without attributes of origin."""
    return program.as_main(tvm_metaschedule.without_origin(func))


@lru_cache(maxsize=4096)
def _known(key: str, text: str) -> _Known:
    try:
        mod = origin_free(tvm_metaschedule.read_function(text))
    except ValueError as error:
        return _Known(None, "", str(error))
    return _Known(mod, program.structural_key(mod))


class Lookup:
    """Finds the workloads equal to a function, attributes aside; reads each workload once.

    Attributes
    ----------
    unreadable: the programs that could not be read.
    """

    def __init__(self, database: Database) -> None:
        self.unreadable = Unreadable()
        self._database = database
        self._read: set[str] = set()
        self._keys: dict[str, list[tuple[str, TensorProgram]]] = {}

    def workload_keys(self, func: TensorFunction) -> list[str]:
        """Return the keys of the workloads that are this function, oldest first."""
        self._refresh()
        mod = origin_free(func)
        candidates = self._keys.get(program.structural_key(mod), [])
        return [key for key, known in candidates if program.structurally_equal(known, mod)]

    def _refresh(self) -> None:
        for key, _ in self._database.workloads():
            if key not in self._read:
                self._read.add(key)
                known = _known(key, self._database.get_workload(key) or "")
                if known.origin_free is None:
                    self.unreadable.note_program(self._database, key, known.problem)
                else:
                    self._keys.setdefault(known.key, []).append((key, known.origin_free))


# TVM ranks records by their times alone, and the program of a record in part was not measured: it
# comes behind all that were. Among themselves, records in part keep their order.
_PART = 1e6


class NotExpressed(SchedlangError):
    """A record of which TVM can apply nothing.

    Attributes
    ----------
    reason: a short text for counting; stable between versions.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {detail}")


@dataclass(frozen=True, slots=True)
class Expressed:
    """A record in the form that TVM applies.

    Attributes
    ----------
    record: of schedlang.
    form: TVM's trace, and what had to be left out of it.
    """

    record: Record
    form: TVMForm

    @property
    def samples(self) -> tuple[float, ...]:
        """The latencies in seconds by which TVM ranks it: in part, far behind all measured."""
        factor = _PART if self.form.left_out else 1.0
        return tuple(factor * sample for sample in self.record.samples)

    @property
    def latency(self) -> float:
        """The median of ``samples``."""
        return self.record.latency * (_PART if self.form.left_out else 1.0)


def expressed(
    records: Iterable[Record], mod: TensorProgram, refused: Callable[[Record, NotExpressed], None]
) -> Iterator[Expressed]:
    """Yield records, given fastest first, in TVM's form and in the order in which TVM ranks them.

    ``refused`` is called for those of which TVM can apply nothing.
    """
    waiting: list[tuple[float, int, Expressed]] = []
    numbers = count()
    for record in records:
        while waiting and waiting[0][0] <= record.latency:
            yield heapq.heappop(waiting)[2]
        try:
            found = Expressed(record, as_tvm_trace(record, mod))
        except NotExpressed as error:
            refused(record, error)
        else:
            heapq.heappush(waiting, (found.latency, next(numbers), found))
    while waiting:
        yield heapq.heappop(waiting)[2]


def as_tvm_trace(record: Record, mod: TensorProgram, *, numbers: bool = False) -> TVMForm:
    """Return a TVM trace of a record for a module of one function, and the program it makes.

    What TVM's traces cannot hold is left out, see ``to_tvm``. Raises ``NotExpressed`` when the
    trace cannot be read or applied, makes another program in TVM, or one that TVM's passes compute
    wrongly.
    """
    try:
        workload = Workload(mod, record.workload_name or program.MAIN)
        trace = Trace.from_json(record.trace_json, workload)
        ours = trace.replay().mod
    except TraceFormatError as error:
        raise NotExpressed("unreadable trace", str(error)) from None
    except SchedlangError as error:
        raise NotExpressed("does not apply", str(error)) from None
    try:
        form = to_tvm(trace.instructions, workload, numbers=numbers)
        if not form.trace.insts:
            # TVM ignores a record without instructions: the unscheduled program, if it was fastest.
            form = replace(form, trace=tvm_metaschedule.idle_trace(mod))
        theirs = tvm_metaschedule.apply_trace(form.trace, mod)
    except Exception as error:  # TVM's errors have many types
        raise NotExpressed("TVM refuses it", errors.reason_of(error)) from None
    check_same(form.mod if form.left_out else ours, theirs)
    if written_for_tvm(theirs) is not theirs:
        raise NotExpressed(
            "TVM may compute it wrongly",
            "its passes simplify an index of the program to another one; schedlang.apply(mod, "
            "database) puts a program in place that they compute right",
        )
    return form


def check_same(ours: TensorProgram, theirs: TensorProgram) -> None:
    """Raise ``NotExpressed`` unless both modules hold the same function, attributes aside."""
    functions = [tvm_metaschedule.only_function(mod) for mod in (ours, theirs)]
    one, other = (None if func is None else origin_free(func) for func in functions)
    if one is None or other is None or not program.structurally_equal(one, other):
        raise NotExpressed("another program", "TVM makes another program of its trace")


# -- The machine of a record: schedlang's target from one of TVM's --------------------------------

_MOST_CORES = 1 << 16


class Machine(Protocol):
    """The part of ``schedlang.Target`` that is used here."""

    @property
    def key(self) -> str:
        """The key; equal for machines whose records can be exchanged."""
        ...

    def tvm_target(self) -> CompilerTarget:
        """Return TVM's target for it."""
        ...


def as_machine(target: Machine | str | Any) -> Machine:
    """Return a target from a target, its name, or one of TVM's targets of kind llvm."""
    if hasattr(target, "key") and hasattr(target, "tvm_target"):
        machine: Machine = target
        return machine
    return as_target(target)


def machine_of_stored(stored: Any, given: Machine | None) -> Machine:
    """Return the machine of a record, from the target stored in it.

    ``given`` is the machine that the user names; then only its kind is compared. Raises
    ``TraceFormatError`` for what is no target, ``TargetError`` for one that is unknown or of
    another kind.
    """
    where = "target"
    if not isinstance(stored, dict) or not isinstance(stored.get("kind"), str):
        raise TraceFormatError(where, f"must be an object with a kind, not {short(repr(stored))}")
    kind = stored["kind"]
    if given is not None:
        wanted = kind_of(given.tvm_target())
        if kind != wanted:
            raise TargetError(f"it is for a target of kind {short(kind)}, not {wanted}")
        return given
    if kind != "llvm":
        raise TargetError(f"it is for a target of kind {short(kind)}; give target=... to read it")
    cores, mcpu, triple = stored.get("num-cores"), stored.get("mcpu", ""), stored.get("mtriple", "")
    features = stored.get("mattr", [])
    if type(cores) is not int or not 1 <= cores <= _MOST_CORES:
        raise TargetError("its target says no number of cores; give target=... to read it")
    if not (isinstance(mcpu, str) and mcpu):
        raise TargetError("its target says no CPU (mcpu); give target=... to read it")
    if not isinstance(triple, str) or not isinstance(features, list):
        raise TraceFormatError(where, "mtriple must be a text and mattr a list")
    if not all(isinstance(feature, str) for feature in features):
        raise TraceFormatError(where, "mattr must be a list of texts")
    return as_target(llvm_target(mcpu, cores, triple, tuple(features)))
