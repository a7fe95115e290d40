"""schedlang's side: run a space so that it reproduces a program of MetaSchedule.

The space's own Python runs. Each draw is given MetaSchedule's decision for the same thing, which
``Schedule`` refuses when it is outside the distribution's support; the choices are found by trying,
and a path is left as soon as it does something that MetaSchedule did not do. In the end it has the
same instructions, as many of each kind, in whatever order. Looking things up, annotations, and what
finishes the program (post-processors there, one instruction here) are not counted; what they
did is in the program.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import IRModule

import schedlang as sl
from schedlang.errors import InstructionError
from schedlang.instructions.choices import Path
from schedlang.instructions.instruction import InstructionKind
from schedlang.instructions.kinds import Primitive, Sampling
from tests.expressiveness.programs import same_program
from tests.expressiveness.sites import Key, key_of_draw

# Paths of choices that are tried before a program counts as not contained.
MAX_PATHS = 2_000


class DeadEnd(Exception):
    """This path of choices leads elsewhere."""


class Follower(sl.Schedule):
    """A schedule that takes given decisions and does nothing that is not expected."""

    def expect(
        self,
        instructions: Counter[str] | None,
        decisions: Mapping[Key, Any],
        key_of: Callable[[str | None], Key | None] | None = None,
    ) -> None:
        """Set the expected number of primitives by name, and the decisions to draw.

        ``None`` counts no primitives. ``key_of`` gives the key of a draw by its site, and None for
        one that the other side does not have.
        """
        self._expected = instructions
        self._wanted = decisions
        self._key_of = key_of
        self._keys: dict[str, Key] = {}

    @property
    def undone(self) -> list[str]:
        """Expected draws and instructions that are not in the trace."""
        met = set(self._keys.values()) & {self._keys.get(site) for site in self.trace.decisions}
        missing = [f"no draw {key}" for key in self._wanted if key not in met]
        if self._expected is None:
            return missing
        done = Counter(i.kind.name for i in self.trace.instructions)
        return missing + [f"too few {name}" for name, n in self._expected.items() if done[name] < n]

    def run(self, kind: InstructionKind, *args: Any) -> Any:
        if self._expected is not None and isinstance(kind, Primitive) and not kind.pure:
            done = sum(i.kind.name == kind.name for i in self.trace.instructions)
            if kind.name != "annotate" and done >= self._expected[kind.name]:
                raise DeadEnd(f"one {kind.name} too many")
        return super().run(kind, *args)

    def draw(self, kind: Sampling, args: Sequence[Any], site: str | None, decision: Any) -> Any:
        key = self._key(kind, args) if self._key_of is None else self._key_of(site)
        if key is None:
            return super().draw(kind, args, site, decision)
        if key not in self._wanted:
            raise DeadEnd(f"{site} draws {key}, which is not drawn there")
        drawn = super().draw(kind, args, site, self._wanted[key])
        self._keys[self.trace.instructions[-1].site] = key
        return drawn

    def _key(self, kind: Sampling, args: Sequence[Any]) -> Key:
        handle = args[0] if args and isinstance(args[0], (sl.BlockRV, sl.LoopRV)) else None
        return key_of_draw(kind.name, None if handle is None else self.get(handle))


@dataclass(frozen=True)
class Followed:
    """A program of a space that equals the wanted one.

    Attributes
    ----------
    prefix: the choices, by number; where to begin with other decisions.
    tried: how many paths of choices were run.
    """

    trace: sl.Trace
    prefix: tuple[int, ...]
    tried: int


def follow(
    space: sl.Space,
    workload: sl.Workload,
    wanted: IRModule,
    instructions: Counter[str] | None,
    decisions: Mapping[Key, Any],
    begin: tuple[int, ...] = (),
    key_of: Callable[[str | None], Key | None] | None = None,
) -> Followed | str:
    """Reproduce ``wanted`` with ``space``; return the trace, or why the last path failed.

    ``begin`` is a path of choices to try first; ``instructions`` and ``key_of`` are those of
    ``Follower.expect``.
    """
    pending: list[tuple[int, ...]] = [()]
    if begin:
        pending.append(begin)
    why = ""
    for tried in range(1, MAX_PATHS + 1):
        if not pending:
            return why
        prefix = pending.pop()
        path = Path(prefix, random.Random(0))
        sch = Follower(workload, decider=path)
        sch.expect(instructions, decisions, key_of)
        try:
            space.apply(sch)
            if not sch.undone and same_program(sch.mod, wanted):
                return Followed(sch.trace, _numbers(path, len(path.taken)), tried)
            why = ", ".join(sch.undone) or "another program"
        except (DeadEnd, InstructionError) as error:
            why = str(error)
        why = f"{dict(path.choices())}: {why}"
        if prefix == begin and begin:
            continue  # the search begins at the root again
        for depth in range(len(prefix), len(path.taken)):
            for number in reversed(path.alternatives[depth]):
                pending.append((*_numbers(path, depth), number))
    return f"no path of {MAX_PATHS} leads there; the last: {why}"


def _numbers(path: Path, depth: int) -> tuple[int, ...]:
    return tuple(number for _, _, number in path.taken[:depth])
