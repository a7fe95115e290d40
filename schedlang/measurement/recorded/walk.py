"""Walking a recorded space: searches draw, choose and replay in it without TVM.

A program of a space is a function of what its draws and choices are answered, so its runs are the
branches of a tree: the tree of the recorded ways answers for the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedlang.distributions import Decision, Distribution
from schedlang.errors import InvalidTrace, RecordingError, SchedlangError, SpaceError
from schedlang.instructions.choices import Decider, option_label, plain_decision
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Choice
from schedlang.interpreters.replay import Change, Decide, Misfit, as_recorded
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement.recorded.recording import RecordedSpace, Way, line_of, sites_of
from schedlang.printed import first_line
from schedlang.spaces.space import Space
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

_ABSENT = object()
"""Stands for the options of a choice that was rolled back: its ways do not have the site."""


@dataclass(slots=True)
class _Node:
    """A draw or choice that all ways meet which were answered alike before; or the end of one."""

    step: Instruction | None = None
    distribution: Distribution | None = None
    labels: tuple[str, ...] = ()
    next: dict[Any, _Node] = field(default_factory=dict)
    trace: RecalledTrace | None = None
    way: Way | None = None

    @property
    def chooses(self) -> bool:
        return bool(self.labels)


class WalkedSpace(Space):
    """The space of a recording: it has no modules, and takes the recorded ways only.

    SpaceError for another workload. ``InvalidTrace`` for a way that gave no program when the space
    was recorded.
    """

    def __init__(self, recorded: RecordedSpace) -> None:
        super().__init__([], f"recorded {recorded.workload.name}")
        self.part = (recorded.digest,)
        self.known_features = {}
        self._recorded = recorded
        self._skeletons = [sites_of(line) for line in recorded.ways.skeletons]
        self._root = self._grow(list(recorded.ways), 0)

    # -- the tree --------------------------------------------------------------------------------

    def _grow(
        self, ways: Sequence[Way], depth: int, skipped: Mapping[int, int] | None = None
    ) -> _Node:
        ends = [way for way in ways if depth == len(way.decisions)]
        asked: dict[str, list[Way]] = {}
        for way in ways:
            if depth < len(way.decisions):
                asked.setdefault(self._step(way, depth).site, []).append(way)
        if not asked:
            return _Node(way=ends[0])
        # Where ways meet different sites, some had a choice rolled back that the others have.
        sites = sorted(asked, key=lambda site: not self._is_choice(asked[site][0], depth))
        site = sites[0]
        others = [way for name in sites[1:] for way in asked[name]] + ends
        step = self._step(asked[site][0], depth)
        if others and not isinstance(step.kind, Choice):
            other = repr(sites[1]) if sites[1:] else "nothing"
            raise RecordingError(
                f"the recording of {self._recorded.workload.name} is no complete space: after "
                f"equal decisions, programs draw {site!r} and {other}"
            )
        node = _Node(step, self._recorded.ways.distributions[asked[site][0].distributions[depth]])
        if isinstance(step.kind, Choice):
            node.labels = tuple(option_label(option) for option in step.args[0])
        answered: dict[Any, list[Way]] = {}
        for way in asked[site]:
            answered.setdefault(way.decisions[depth], []).append(way)
        node.next = {answer: self._grow(some, depth + 1) for answer, some in answered.items()}
        if others:
            node.next[_ABSENT] = self._grow(others, depth)
        return node

    def _step(self, way: Way, depth: int) -> Instruction:
        return self._skeletons[way.skeleton][depth]

    def _is_choice(self, way: Way, depth: int) -> bool:
        return isinstance(self._step(way, depth).kind, Choice)

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
            node, there = self._follow(node, plain_decision(answer))
            if not there:
                decider.undone(1)
        return self._end(node)

    def rerun(self, trace: Trace, decide: Decide) -> Schedule:
        """Take the way with the choices of a trace, and what ``decide`` answers at its draws."""
        known = {one.site: one for one in trace.instructions if one.site}
        node = self._root
        while (step := node.step) is not None:
            old, distribution = known.get(step.site), node.distribution
            assert distribution is not None
            if node.chooses:
                absent = old is None and _ABSENT in node.next
                node = node.next[_ABSENT] if absent else self._follow(node, _decision(old))[0]
                continue
            if old is None:
                raise _refused(step.site, None)
            node, _ = self._follow(node, plain_decision(decide(old, distribution)))
        return self._end(node)

    def _follow(self, node: _Node, answer: Decision) -> tuple[_Node, bool]:
        """Return what comes after an answer, and whether its site stays in the trace."""
        assert node.step is not None and node.distribution is not None
        found = node.next.get(answer)
        if found is not None:
            return found, True
        if not node.distribution.permits(answer):
            raise InvalidTrace(
                f"decision {answer} of {node.step.site!r} is not in the support of "
                f"{node.distribution}",
                reason="decision",
                site=node.step.site,
                value=answer,
                support=str(node.distribution),
            )
        if _ABSENT in node.next:
            return node.next[_ABSENT], False
        raise _refused(node.step.site, answer)

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


def _decision(instruction: Instruction | None) -> Any:
    return None if instruction is None else instruction.decision


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

    space: WalkedSpace | None = field(default=None, repr=False)

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
        own = self.__dict__.get("_instructions")
        return own is not None and len(own) != len(self._recalled.instructions)

    @property
    def workload(self) -> Workload:
        return self._recalled.workload_or()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_recalled", "_program_key"):
            raise AttributeError(name)
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
        self.__dict__.update(made.__dict__ | self.__dict__)
        return getattr(self, name)
