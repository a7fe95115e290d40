"""Where programs for a workload come from, the nearest source first: the rungs of a ladder.

``Rungs`` has those of one database and one machine: records of the program itself and of programs
that compute the same, then schedules to try, of other machines, of the program's family, and of
programs of other shapes. Those of similar programs are rule 5 of deplodock, part 3. Searches start
from the same programs of other shapes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile

from schedlang.database import Database, Record, best_first, timing_in
from schedlang.database.programs import Unreadable, replayed
from schedlang.errors import DatabaseError, SchedlangError
from schedlang.interpreters.stored_trace import same_steps
from schedlang.language.schedule import Schedule, Trace
from schedlang.search import Proposal
from schedlang.spaces.mutation import carry_over
from schedlang.spaces.space import Space
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.kernels.match import PACKED, UNVERIFIED, Kind, Match
from schedlang.tuning.records import packed_ahead
from schedlang.tvm import program
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.workloads.structural_key import coordinates
from schedlang.workloads.workload import Workload

RECORDS = 16
"""Number of records of a workload that are tried."""
# Number of workloads with the same exact key, or of the same family, that are looked at.
_WORKLOADS = 8
# Number of programs of other machines, of programs of other shapes, and of the fastest records of
# each program on each machine.
_OF_MACHINES = 4
_KIN = 4
_OF_EACH = 2


@dataclass(frozen=True)
class Lead:
    """A schedule to try.

    Attributes
    ----------
    proposal: the schedule, of the workload that was looked up.
    kind: of the match that it makes.
    origin: where it is from, as part of a sentence.
    """

    proposal: Proposal
    kind: Kind
    origin: str


_Found = Iterator[tuple[Schedule, Kind, str]]


@dataclass(frozen=True)
class Rungs:
    """The sources of programs in one database for one machine.

    Attributes
    ----------
    database, target: as given.
    unreadable: rows that would have been used and cannot be read are noted here.
    """

    database: Database
    target: Target
    unreadable: Unreadable

    # -- records of the workload itself, and of programs that compute the same ------------------

    def own(self, workload: Workload, left_out: Collection[int | None] = ()) -> Match | None:
        """Return the best record of the program itself, but for those with ids in ``left_out``."""
        return self._usable(workload, workload.key, "same", left_out)

    def equal(self, workload: Workload, left_out: Collection[int | None] = ()) -> Match | None:
        """Return the best record of another program that computes the same."""
        for key, _ in self.database.workloads(exact_key=workload.exact_key)[:_WORKLOADS]:
            if key != workload.key:
                found = self._usable(workload, key, "exact", left_out)
                if found is not None:
                    return found
        return None

    def frozen(self, workload: Workload, left_out: Collection[int | None] = ()) -> Match:
        """Return the winner of a frozen database.

        Which one it is does not depend on what this process can replay: that of the very program,
        else the fastest of those that compute the same. DatabaseError where it is not there, or is
        refused.
        """
        database = self.database
        keys = self.target.key, toolchain_key()
        others = [key for key, _ in database.workloads(exact_key=workload.exact_key)]
        records = database.query(workload.key, *keys) or [
            one for key in others for one in database.query(key, *keys)
        ]
        reason = "it was not frozen with it"
        if records:
            winner = min(records, key=lambda one: (timing_in(database, one).latency, one.id))
            kind: Kind = "same" if winner.workload_key == workload.key else "exact"
            found = self._usable(workload, winner.workload_key, kind, left_out)
            # The unscheduled form of an equal program has a key of its own.
            if found is not None and (
                found.unscheduled or found.schedule.program_key == winner.program_key
            ):
                return found
            reason = "its winner cannot be compiled here"
            if found is not None:
                reason = "its winner makes another program here than where it was measured"
            elif self.unreadable:
                reason = self.unreadable.listed
        elif elsewhere := [one for key in {workload.key, *others} for one in database.query(key)]:
            reason = f"its winner is of {elsewhere[0].target_key} and {elsewhere[0].toolchain_key}"
        raise DatabaseError(
            f"the frozen database {database.path} has no program for {workload.name} on {keys[0]} "
            f"with {keys[1]}: {reason}; tune it, and freeze again"
        )

    def _usable(
        self, workload: Workload, key: str, kind: Kind, left_out: Collection[int | None]
    ) -> Match | None:
        """Return the best record under a key that still applies; preferably of this toolchain."""
        database, target = self.database, self.target
        source = self.unreadable.workload(database, key)
        if source is None or (kind == "same" and source != workload):
            return None  # of two programs with one hash
        order = _parameter_order(source, workload)
        if order is None:
            return None
        for toolchain in (toolchain_key(),) if database.frozen else (toolchain_key(), None):
            for record in best_first(database, key, target.key, toolchain, n=RECORDS):
                if record.id in left_out:
                    continue
                notes = []
                if record.unscheduled:
                    schedule: Schedule | None = Schedule(workload)
                    order = tuple(range(len(workload.args)))
                    [fastest] = database.best(key, target.key, toolchain)
                    if not fastest.verified:
                        notes.append(UNVERIFIED)
                else:
                    # Blocks may have other names in the program that was stored first.
                    programs = (source, workload) if kind == "same" else (source,)
                    schedule = replayed(record, *programs, unreadable=self.unreadable)
                    if schedule is not None and _is_another(record, schedule):
                        reason = f"host {record.provenance['host']} measured another program"
                        self.unreadable.note_record(record, DatabaseError(reason))
                        continue
                if schedule is None:
                    continue
                if kind == "exact":
                    notes.append(f"tuned as {record.workload_name!r}, which computes the same")
                if packed_ahead(record):
                    notes.append(PACKED)
                if toolchain is None:
                    notes.append(f"measured with another toolchain: {record.toolchain_key}")
                timing = timing_in(database, record)
                return Match(workload, record, schedule, kind, tuple(notes), target, order, timing)
        return None

    # -- schedules of relatives, to be tried ----------------------------------------------------

    def nearest(self, workload: Workload) -> list[Lead]:
        """Return schedules of the nearest relatives that have any.

        These are, in this order: the program itself on other machines, the nearest machine first
        (``Target.relatives``); programs of its family on this one; programs of other shapes on this
        one. A program that the database has a record of is not among them.
        """
        for source, most in ((self._machines, _OF_MACHINES), (self._family, None)):
            if some := list(islice(self._unknown(source(workload), workload), most)):
                return some
        return list(self.kin(workload))

    def kin(self, workload: Workload) -> Iterator[Lead]:
        """Yield schedules of the nearest programs of other shapes on this machine.

        These are the fastest verified ones of each, with the nearest tiles for this program.
        """
        yield from self._unknown(self._carried(workload), workload)

    def is_known(self, proposal: Proposal, workload: Workload) -> bool:
        """Tell whether the database has a record of a program on this machine."""
        keys = workload.key, self.target.key, toolchain_key()
        return bool(self.database.query(*keys, limit=1, program_key=proposal.program_key))

    def _unknown(self, found: _Found, workload: Workload) -> Iterator[Lead]:
        """Yield those that differ from each other, and of which the database has no record."""
        seen: set[str] = set()
        for schedule, kind, origin in found:
            proposal = Proposal(len(seen), schedule)
            if proposal.program_key not in seen and not self.is_known(proposal, workload):
                seen.add(proposal.program_key)
                yield Lead(proposal, kind, origin)

    def _machines(self, workload: Workload) -> _Found:
        """Yield schedules of other machines: fitted to this one, and as they are."""
        machines = recorded_elsewhere(workload, self.target, self.database)
        if not machines:
            return
        space = self._space(workload)
        keys = _equal_keys(workload, self.database)
        sources = [(key, self.unreadable.workload(self.database, key)) for key in keys]
        for machine in machines:
            for key, source in sources:
                base = None if source is None else _with_blocks_of(source, workload)
                if source is None or base is None:
                    continue
                fastest = best_first(self.database, key, machine, n=_OF_EACH)[:_OF_EACH]
                for record in takewhile(lambda one: not one.unscheduled, fastest):
                    refitted = carried_over(record, source, base, space)
                    if refitted is not None:
                        yield refitted, "device", f"re-fitted a schedule of {machine}"
                    noted = self.unreadable if refitted is None else None
                    unchanged = replayed(record, base, unreadable=noted)
                    if unchanged is not None:
                        yield unchanged, "device", f"took a schedule of {machine} as it is"

    def _family(self, workload: Workload) -> _Found:
        """Yield schedules of programs of the family."""
        for key, _ in self.database.workloads(family_key=workload.family_key)[:_WORKLOADS]:
            source = self.unreadable.workload(self.database, key)
            base = None if source is None else _with_blocks_of(source, workload)
            if base is None:
                continue
            for record in self._fastest(key):
                schedule = replayed(record, base)
                if schedule is not None:
                    yield schedule, "family", _of_similar(record)

    def _carried(self, workload: Workload) -> _Found:
        """Yield schedules of the nearest programs of other shapes."""
        space = self._space(workload)
        kin = nearest_kin(self.database, workload, self.unreadable)
        tuned = ((key, source) for key, source in kin if self._fastest(key))
        for key, source in islice(tuned, _KIN):
            for record in self._fastest(key):
                schedule = carried_over(record, source, workload, space)
                if schedule is not None:
                    yield schedule, "kin", f"{_of_similar(record)} of other shapes"

    def _space(self, workload: Workload) -> Space:
        moves = only_moves_data(workload.func)
        return self.target.movement_space() if moves else self.target.default_space()

    def _fastest(self, key: str) -> list[Record]:
        """Return the fastest records of a workload; one slower than no schedule is of no use."""
        found = self.database.best(key, self.target.key, n=_OF_EACH, verified=True)
        return list(takewhile(lambda record: not record.unscheduled, found))


def recorded_elsewhere(workload: Workload, target: Target, database: Database) -> list[str]:
    """Return keys of other machines with records of a program, those nearest to a target first."""
    equal = _equal_keys(workload, database)
    return target.relatives({key for one in equal for key in database.target_keys(one)})


def _equal_keys(workload: Workload, database: Database) -> list[str]:
    """Return the keys of the program, and of others that compute the same."""
    others = (key for key, _ in database.workloads(exact_key=workload.exact_key))
    return [workload.key, *(key for key in others if key != workload.key)][: 1 + _WORKLOADS]


def _is_another(record: Record, schedule: Schedule) -> bool:
    """Whether a host has sent a trace that makes another program than the one it names.

    A trace to which reading adds what older ones lack was another one when it was measured.
    """
    if "host" not in record.provenance or record.program_key == schedule.program_key:
        return False
    return same_steps(record.trace_json, schedule.trace.to_json())


def _of_similar(record: Record) -> str:
    return f"applied the schedule of the similar program {record.workload_name!r}"


def _parameter_order(source: Workload, workload: Workload) -> tuple[int, ...] | None:
    """Return the place in ``source`` of each parameter of ``workload``; None if shapes differ."""
    if source.key == workload.key:
        return tuple(range(len(workload.args)))
    theirs, ours = source.structure, workload.structure
    place = dict(zip(ours.parameters, theirs.parameters, strict=True))
    order = tuple(place[position] for position in range(len(workload.args)))
    for argument, other in zip(workload.args, order, strict=True):
        found = source.args[other]
        if (argument.shape, argument.dtype) != (found.shape, found.dtype):
            return None
    return order


def _with_blocks_of(source: Workload, workload: Workload) -> Workload | None:
    """Return ``workload`` with the names of the blocks of another program, matched by their order.

    None where they cannot be matched.
    """
    theirs, ours = source.structure.blocks, workload.structure.blocks
    if theirs == ours:
        return workload
    if len(theirs) != len(ours) or len(set(theirs)) != len(theirs):
        return None
    named = program.rename_blocks(workload.func, dict(zip(ours, theirs, strict=True)))
    return Workload(program.as_main(named), workload.name)


# -- Programs of the same structure and other shapes ----------------------------------------------

# Number of programs that are compared, the newest ones: reading one takes a millisecond or two.
_COMPARED = 64


def nearest_kin(
    database: Database, workload: Workload, unreadable: Unreadable | None = None
) -> Iterator[tuple[str, Workload]]:
    """Yield key and program of the other workloads with the kin key, the nearest shapes first.

    The distance is that of the loops' extents (``nearness``). Programs that cannot be read are
    skipped, and noted in ``unreadable``.
    """
    known = [key for key, _ in database.workloads(kin_key=workload.kin_key)][-_COMPARED:]
    unreadable = Unreadable() if unreadable is None else unreadable
    read = [(key, unreadable.workload(database, key)) for key in known if key != workload.key]
    found = [(key, source) for key, source in read if source is not None]
    yield from sorted(found, key=lambda one: _distance(one[1], workload))


def carried_over(
    record: Record, source: Workload, workload: Workload, space: Space
) -> Schedule | None:
    """Return the schedule of a record of ``source`` carried over to ``workload``.

    None where it cannot be read, or does not apply.
    """
    try:
        trace = Trace.from_json(record.trace_json, source)
        return carry_over(trace, workload, space, _renamed_sites(trace, source, workload))
    except SchedlangError:
        return None


def _distance(one: Workload, other: Workload) -> float:
    pairs = zip(program.loop_extents(one.func), program.loop_extents(other.func), strict=False)
    sizes = [(a, b) for (_, a), (_, b) in pairs if isinstance(a, int) and isinstance(b, int)]
    ours, theirs = (coordinates(pair[k] for pair in sizes) for k in (0, 1))
    return math.fsum(abs(a - b) for a, b in zip(ours, theirs, strict=True))


def _renamed_sites(trace: Trace, source: Workload, workload: Workload) -> dict[str, str]:
    """Return the names that the sites of a trace have in a program with other names."""
    theirs, ours = program.block_loops(source.func), program.block_loops(workload.func)
    arguments = zip(source.args, workload.args, strict=False)
    names = {one.name: other.name for one, other in arguments}
    names |= {a: b for (a, _), (b, _) in zip(theirs, ours, strict=False)}
    loops = {
        block: dict(zip(variables, others, strict=False))
        for (block, variables), (_, others) in zip(theirs, ours, strict=False)
    }
    sites = (one.site for one in trace.instructions if one.site)
    return {site: _renamed(site, names, loops) for site in sites}


def _renamed(site: str, names: Mapping[str, str], loops: Mapping[str, Mapping[str, str]]) -> str:
    """Rename the block, or tensor, and the loop in a site such as ``"panel:conv2d:h"``."""
    site, mark, count = site.partition("#")
    around: Mapping[str, str] = {}
    words = []
    for word in site.split(":"):
        # A copy of a tensor has the tensor's name and an ending.
        known = (name for name in names if f"{word}_".startswith(f"{name}_"))
        name = max(known, default="", key=len)
        if name:
            around = loops.get(name, {})
            words.append(names[name] + word[len(name) :])
        else:
            words.append(around.get(word, word))
    return ":".join(words) + mark + count
