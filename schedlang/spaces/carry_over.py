"""Carrying the decisions of a trace over to a program of other shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.distributions import Categorical, Distribution
from schedlang.instructions.choices import option_label
from schedlang.instructions.instruction import Instruction
from schedlang.language.schedule import Schedule, Trace
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


def carry_over(
    trace: Trace, workload: Workload, space: Space, sites: Mapping[str, str] | None = None
) -> Schedule:
    """Run a space's program on another workload, with the decisions of a trace as far as they fit.

    A draw takes the decision nearest to that of the trace (``Distribution.nearest``), a choice the
    option of the same name. What the trace does not have takes its origin, and what the space does
    not ask for is left out. ``sites`` says which site of the trace decides a site of another name.

    Raises ``InstructionError`` when an instruction does not apply.
    """
    decided = {one.site: one for one in trace.instructions if one.site}
    renamed = {(sites or {}).get(site, site): one for site, one in decided.items()}
    return space.run(workload, _CarryOver(renamed))


class _CarryOver:
    """Decide as a trace did, or nearly so."""

    def __init__(self, decided: Mapping[str, Instruction]) -> None:
        self._decided = decided

    def decide(self, site: str, distribution: Distribution) -> Any:
        known = self._decided.get(site)
        if known is None or type(known.distribution) is not type(distribution):
            return distribution.origin()
        return distribution.nearest(known.decision)

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        known = self._decided.get(site)
        if known is not None and known.args:
            taken = option_label(known.args[0][known.decision])
            if taken in labels and distribution.permits(list(labels).index(taken)):
                return list(labels).index(taken)
        return distribution.origin()

    def undone(self, count: int) -> None:
        """Do nothing: the trace holds no choices that were rolled back."""
