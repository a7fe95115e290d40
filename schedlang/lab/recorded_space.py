"""A recorded space: searches draw, choose and replay in it without TVM, and are judged on it.

A program of a space is a function of what its draws and choices are answered, so its runs are the
branches of a tree: the tree of the recorded ways answers for the program.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from schedlang.distributions import Distribution
from schedlang.errors import InvalidTrace, RecordingError, SchedlangError, SpaceError
from schedlang.instructions.choices import Decider, option_label, plain_decision
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Choice
from schedlang.interpreters.replay import Change, Decide, Misfit, as_recorded
from schedlang.lab.recording import Contents, RecordedProgram, Way, line_of, sites_of, write
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement.measurement import Status
from schedlang.printed import first_line
from schedlang.spaces.space import Space
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload


@dataclass(slots=True, eq=False)
class _Node:
    """A draw or choice that all ways meet which were answered alike before; or the end of one.

    Attributes
    ----------
    chosen: number of choices before it.
    undone: what follows where its module does not apply: its ways do not have the site.
    """

    step: Instruction | None = None
    distribution: Distribution | None = None
    labels: tuple[str, ...] = ()
    chosen: int = 0
    next: dict[Any, _Node] = field(default_factory=dict)
    undone: _Undone | None = None
    trace: RecalledTrace | None = None
    way: Way | None = None

    @property
    def chooses(self) -> bool:
        return bool(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class _Undone:
    """What follows the sites of a module that are rolled back together.

    Attributes
    ----------
    module: its path.
    chosen: number of choices before the first of them.
    node: what all ways meet that do not have them.
    """

    module: str
    chosen: int
    node: _Node


class RecalledSpace(Space):
    """The space of a recording: it has no modules, and takes the recorded ways only.

    SpaceError for another workload. ``InvalidTrace`` for a way that gave no program when the space
    was recorded.
    """

    def __init__(self, recorded: Contents) -> None:
        super().__init__([], f"recorded {recorded.workload.name}")
        self.known_features = {}
        self.restorable = False
        self._recorded = recorded
        self._skeletons = [sites_of(line) for line in recorded.ways.skeletons]
        self._sites = [{one.site for one in drawn} for drawn in self._skeletons]
        self._root = self._grow(list(recorded.ways), 0)

    @property
    def part(self) -> tuple[Any, ...]:
        return (self._recorded.digest,)

    # -- the tree --------------------------------------------------------------------------------

    def _grow(
        self,
        ways: Sequence[Way],
        depth: int,
        chosen: int = 0,
        around: _Undone | None = None,
    ) -> _Node:
        ends = [way for way in ways if depth == len(way.decisions)]
        asked: dict[str, list[Way]] = {}
        for way in ways:
            if depth < len(way.decisions):
                asked.setdefault(self._step(way, depth).site, []).append(way)
        if not asked:
            return _Node(way=ends[0], chosen=chosen)
        site = self._first(asked, depth) if len(asked) > 1 else next(iter(asked))
        here = asked.pop(site)
        step, distribution = self._step(here[0], depth), self._distribution(here[0], depth)
        node = _Node(step, distribution, chosen=chosen)
        if isinstance(step.kind, Choice):
            node.labels = tuple(option_label(option) for option in step.args[0])
        # Ways that do not have the site: its module was undone there.
        if others := [*itertools.chain(*asked.values()), *ends]:
            node.undone = _Undone(step.module, chosen, self._grow(others, depth, chosen, around))
        elif around is not None and _is_within(step.module, around.module):
            node.undone = around
        answered: dict[Any, list[Way]] = {}
        for way in here:
            answered.setdefault(way.decisions[depth], []).append(way)
        for answer, some in answered.items():
            node.next[answer] = self._grow(some, depth + 1, chosen + node.chooses, node.undone)
        return node

    def _first(self, asked: Mapping[str, Sequence[Way]], depth: int) -> str:
        """Return the site that a program meets first, of those that ways with equal answers have.

        Ways with another one had it rolled back: they do not meet it later, and some of its answers
        are missing.
        """

        def comes_late(site: str) -> bool:
            others = (way for name, ways in asked.items() if name != site for way in ways)
            return any(site in self._sites[way.skeleton] for way in others)

        def is_complete(site: str) -> bool:
            distribution = self._distribution(asked[site][0], depth)
            return len({way.decisions[depth] for way in asked[site]}) == distribution.size()

        return min(asked, key=lambda site: (comes_late(site), is_complete(site)))

    def _step(self, way: Way, depth: int) -> Instruction:
        return self._skeletons[way.skeleton][depth]

    def _distribution(self, way: Way, depth: int) -> Distribution:
        return self._recorded.ways.distributions[way.distributions[depth]]

    # -- runs ------------------------------------------------------------------------------------

    def run(self, workload: Workload | Any, decider: Decider) -> Schedule:
        """Take the way that ``decider`` answers."""
        self._check(as_workload(workload))
        node = self._root
        while (step := node.step) is not None:
            site, distribution = step.site, node.distribution
            assert distribution is not None
            if node.chooses:
                answer = decider.choose(site, distribution, node.labels)  # type: ignore[arg-type]
            else:
                answer = decider.decide(site, distribution)
            node, undone = self._follow(node, plain_decision(answer))
            if undone:
                decider.undone(undone)
        return self._end(node)

    def rerun(self, trace: Trace, decide: Decide) -> Schedule:
        """Take the way with the choices of a trace, and what ``decide`` answers at its draws."""
        known = {one.site: one for one in trace.instructions if one.site}
        node = self._root
        while (step := node.step) is not None:
            old, distribution = known.get(step.site), node.distribution
            assert distribution is not None
            if old is None:
                if node.undone is None:
                    raise _refused(step.site, None)
                node = node.undone.node
                continue
            answer = old.decision if node.chooses else plain_decision(decide(old, distribution))
            node, _ = self._follow(node, answer)
        return self._end(node)

    def restored(self, trace: Trace) -> Trace:
        """Return the recorded way that a stored trace is."""
        return self.rerun(trace, lambda old, _: old.decision).trace

    def _follow(self, node: _Node, answer: Any) -> tuple[_Node, int]:
        """Return what comes after an answer, and how many choices are undone with it."""
        assert node.step is not None and node.distribution is not None
        if not node.distribution.permits(answer):
            raise InvalidTrace(
                f"decision {answer} of {node.step.site!r} is not in the support of "
                f"{node.distribution}",
                reason="decision",
                site=node.step.site,
                value=answer,
                support=str(node.distribution),
            )
        if answer in node.next:
            return node.next[answer], 0
        if node.undone is None:
            raise _refused(node.step.site, answer)
        return node.undone.node, node.chosen + node.chooses - node.undone.chosen

    def _end(self, node: _Node) -> Schedule:
        assert node.way is not None
        if node.trace is None:
            line = line_of(self._recorded.ways, node.way)
            node.trace = RecalledTrace(line, self._recorded.workload, self)
        return RecalledSchedule.of(node.trace, self._recorded.programs[node.way.program].key)

    def _check(self, workload: Workload) -> None:
        if workload.key != self._recorded.workload.key:
            raise SpaceError(
                f"the space of {self._recorded.workload.name} was recorded, and cannot run on "
                f"{workload.name}"
            )


def _is_within(module: str, around: str) -> bool:
    """Whether one of two modules, given by their paths, is used by the other, or is it."""
    return f"{module}/".startswith(f"{around}/") or f"{around}/".startswith(f"{module}/")


def _refused(site: str, answer: Any) -> InvalidTrace:
    return InvalidTrace(
        f"{site}={answer}: no program when the space was recorded",
        reason="instruction",
        site=site,
        value=answer,
    )


@dataclass(frozen=True, eq=False)
class RecalledTrace(Trace):
    """A trace of a recorded space, which is replayed there.

    Attributes
    ----------
    space: where.
    """

    space: RecalledSpace | None = field(default=None, repr=False)

    def replay(
        self,
        workload: Workload | Any = None,
        *,
        misfit: Misfit = "reject",
        seed: int | None = None,
    ) -> Schedule:
        """Take its way, with its decisions; on another workload, apply its instructions."""
        if self._is_elsewhere(workload):
            return super().replay(workload, misfit=misfit, seed=seed)
        changes: list[Change] = []
        decide = as_recorded(misfit, seed, changes)
        assert self.space is not None
        sch = self.space.rerun(self, decide)
        sch.changes = tuple(changes)
        return sch

    def rerun(self, decide: Decide, workload: Workload | Any = None) -> Schedule:
        """Take its way; ``decide(instruction, distribution)`` answers each draw."""
        if self._is_elsewhere(workload):
            return super().rerun(decide, workload)
        assert self.space is not None
        return self.space.rerun(self, decide)

    def with_decisions(self, decisions: Mapping[str, Any]) -> Trace:
        """Return a trace with other decisions, which is replayed in the recorded space too."""
        return RecalledTrace(
            super().with_decisions(decisions).instructions, self.workload, self.space
        )

    def _is_elsewhere(self, workload: Workload | Any) -> bool:
        return workload is not None and as_workload(workload) != self.workload


class RecalledSchedule(Schedule):
    """A schedule of a recorded space: its program is made when it is first asked for."""

    _recalled: RecalledTrace
    _program_key: str
    _made: tuple[dict[str, Any], Line]

    @classmethod
    def of(cls, trace: RecalledTrace, program_key: str) -> RecalledSchedule:
        """Return the schedule of a trace, whose program has this structural key."""
        sch = cls.__new__(cls)
        sch._recalled, sch._program_key = trace, program_key
        return sch

    @property
    def trace(self) -> Trace:
        return super().trace if self._goes_on else self._recalled

    @property
    def program_key(self) -> str:
        return super().program_key if self._goes_on else self._program_key

    @property
    def _goes_on(self) -> bool:
        """Whether instructions were applied besides the recorded ones."""
        made = self.__dict__.get("_made")
        return made is not None and tuple(self._instructions) != made[1]

    @property
    def workload(self) -> Workload:
        return self._recalled.workload_or()

    def copy(self) -> Schedule:
        self._make()
        return super().copy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_recalled", "_program_key") or self._make():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self, name)

    def _make(self) -> bool:
        """Make the program; return whether it was made before."""
        if "raw" in self.__dict__:
            return True
        trace = self._recalled
        try:
            made = Trace(trace.instructions, trace.workload).replay()
        except SchedlangError as error:
            raise RecordingError(
                f"program {self._program_key} of the recorded space of {self.workload.name} cannot "
                f"be made any more: {first_line(error)}"
            ) from error
        if made.program_key != self._program_key:
            raise RecordingError(
                f"the recorded space of {self.workload.name} has program {self._program_key}, and "
                f"its trace now makes {made.program_key}: instructions or TVM have changed since"
            )
        # Of threads that make it at the same time, all take what the first one made.
        state, _ = self.__dict__.setdefault("_made", (vars(made), made.trace.instructions))
        self.__dict__.update(state | self.__dict__)
        return False


class RecordedSpace(Contents):
    """A complete space on one workload, all of whose programs were measured on one machine.

    ``space`` is a space without modules: it takes the recorded ways, so that it stays what it was
    when modules change. ``SimulatedMeasurer`` measures its programs. Its parameters are the
    attributes of ``Contents``.
    """

    @cached_property
    def space(self) -> RecalledSpace:
        """The space, for ``tune`` and every search."""
        return RecalledSpace(self)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Numbers of the programs by structural key."""
        return {one.key: number for number, one in enumerate(self.programs)}

    def program(self, key: str) -> RecordedProgram:
        """Return what was measured of a program; RecordingError names one that it does not have."""
        number = self.numbers.get(key)
        if number is None:
            raise RecordingError(
                f"the recorded space of {self.workload.name} has no program {key}: it has "
                f"{len(self.programs)}; the search left it, or it was given another space"
            )
        return self.programs[number]

    @cached_property
    def latencies(self) -> list[float]:
        """Latencies of the programs in seconds, in their order; infinite for those that failed."""
        return [one.latency for one in self.programs]

    @property
    def optimum(self) -> float:
        """Latency of the fastest program in seconds; infinite where all failed."""
        return min(self.latencies, default=math.inf)

    def save(self, path: Any) -> None:
        """Write it to a file, which ``schedlang.load_survey`` reads; FileError where that fails."""
        write(self, path)

    def __repr__(self) -> str:
        ok = sum(one.status is Status.OK for one in self.programs)
        return (
            f"<recorded space of {self.workload.name} on {self.target_key}: {len(self.programs)} "
            f"programs, {ok} with a latency, the fastest {self.optimum * 1e6:.1f} us>"
        )
