"""Coordinate descent: Droplet Search, with several line searches at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Schedule, Trace
from schedlang.search.coordinate_descent.line_searches import Lines
from schedlang.search.coordinate_descent.starting_points import StartingPoints
from schedlang.search.coordinate_descent.step_model import Expectations
from schedlang.search.prior import PATIENCE, nothing_new
from schedlang.search.proposals import Ledger
from schedlang.search.state import dump_state, load_state
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

_LEAST_PENDING = 4


class CoordinateDescent(Strategy):
    """Goes from a point to a neighbour that is surely faster, until there is none (Droplet Search).

    The coordinates of a trace are its draws and its choices; ``Distribution.neighbours`` gives the
    steps. A line search goes on as soon as a faster point is known, while others are pending: the
    outcomes that come late may still take it further. Several lines run at once, and the next
    proposal is always the one of which the lowest latency is expected, by what the step last did
    and by a model of the decisions (``Expectations``): so the best line goes first, and the others
    fill the batch (the open wish of the paper's 4.5). Equal programs are measured once, and a line
    that comes to where another one was ends.

    The first line starts at the origin of the space's distributions, the next ones at draws from
    the prior. Those that follow when lines end start near the fastest programs, several decisions
    away, where a model of the decisions expects most (``Kicks``); one in ten at a draw.

    Parameters
    ----------
    space, workload: what to search.
    seed: of the draws.
    start: traces to start at instead of the origin and the draws, measured first if they were not.
        What follows them starts near the fastest.
    lines: so many are open at once.
    pending: so many outcomes are waited for at most, as each of them may turn a line: ``ask`` gives
        fewer than it was asked for. More keep a larger machine busy, and need more trials. None is
        a quarter of what is asked for, but 4 at least.
    restarts: so many lines start in place of those that ended; None keeps starting them. A start
        that fails is replaced, and does not count.
    significance: level of the t-test that a neighbour is faster (Droplet Search, 3.3).
    most_loss: a step of which more than this is expected (logarithm of the latency after it over
        the one before) is left out, while lines may still start elsewhere and the model of
        decisions has learned enough.

    ValueError for numbers out of range.
    """

    name = "coordinate_descent"

    def __init__(
        self,
        space: Space,
        workload: Workload,
        seed: int = 0,
        *,
        start: Trace | Sequence[Trace] | None = None,
        lines: int = 8,
        pending: int | None = None,
        restarts: int | None = None,
        significance: float = 0.05,
        most_loss: float = 0.2,
    ) -> None:
        if (
            lines < 1
            or (pending is not None and pending < 1)
            or (restarts or 0) < 0
            or not 0 < significance < 1
        ):
            raise ValueError(
                f"lines={lines}, pending={pending}, restarts={restarts}, significance="
                f"{significance}: give 1 or more lines and pending proposals, 0 or more restarts, "
                "and a significance between 0 and 1"
            )
        if not most_loss >= 0:
            raise ValueError(f"most_loss={most_loss}: give 0 or more; math.inf leaves none out")
        given = [start] if isinstance(start, Trace) else start
        self._ledger = Ledger(workload)
        self._expect = Expectations(self._ledger, seed)
        self._lines = Lines(space, self._ledger, self._expect, significance)
        draws = lines - 1 if given is None else 0
        self._starts = StartingPoints(space, self._ledger, self._expect, seed, given, draws)
        self._most_lines = lines
        self._most_pending = pending
        self._most_loss = most_loss
        self._starts_left = math.inf if restarts is None else restarts
        self._starts_left += lines if given is None else len(given)
        self._barren = 0

    # -- the contract ----------------------------------------------------------------------------

    def ask(self, n: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        most = self._most_pending or max(n // 4, _LEAST_PENDING)
        room = min(n, most - self._lines.pending)
        while len(proposals) < room and self.finished is None:
            starts = self._may_start
            proposal = self._start_line() if starts else self._lines.extend(self._most_expected)
            if proposal is not None:
                proposals.append(proposal)
            elif not starts and not self._may_start:
                break
        return proposals

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        self._starts_left += self._lines.tell(self._ledger.settle(outcomes))

    @property
    def finished(self) -> str | None:
        if self._lines or self._may_start:
            return None
        converged = self._lines.converged
        if not converged:
            return nothing_new(self._barren, self._ledger)
        lines = "1 line" if converged == 1 else f"{converged} lines"
        measured = len(self._lines.measured)
        return f"{lines} converged; best {self._lines.best:.4g} s after {measured} measurements"

    @property
    def rejections(self) -> Sequence[Rejection]:
        return self._ledger.rejections

    @property
    def report(self) -> str:
        return f"{len(self._lines)} lines descend, {self._lines.converged} converged"

    @property
    def seconds(self) -> Mapping[str, float]:
        return {"model": self._expect.seconds}

    def suggest(self, traces: Sequence[Trace]) -> None:
        """Start the first lines there."""
        self.start_at(traces)

    # -- what another search explored ------------------------------------------------------------

    def adopt(self, schedule: Schedule, program_key: str = "") -> Proposal | None:
        """Propose a program that another search made; None if it was proposed before.

        Its outcome is told here, as that of any proposal. No line measures it again.
        ``program_key`` is its structural key, where the caller has computed it already.
        """
        return self._ledger.admit(schedule, program_key)

    def start_at(self, traces: Sequence[Trace]) -> None:
        """Start lines here before any other."""
        self._starts.put_first(traces)
        self._starts_left += len(traces)

    # -- starts ----------------------------------------------------------------------------------

    @property
    def _has_starts(self) -> bool:
        """Whether lines may start yet, now or when others end."""
        return self._starts_left > 0 and self._barren < PATIENCE

    @property
    def _may_start(self) -> bool:
        return self._has_starts and len(self._lines) < self._most_lines

    @property
    def _most_expected(self) -> float:
        """What may be expected of a move at most: without other starts, none is hopeless."""
        choosy = self._has_starts and self._expect.learn()
        return self._most_loss if choosy else math.inf

    def _start_line(self) -> Proposal | None:
        """Open a line; a proposal if its start is not measured."""
        schedule = self._starts.next()
        started, proposal = (False, None) if schedule is None else self._lines.open(schedule)
        if started:
            self._barren = 0
            self._starts_left -= 1
        else:
            self._barren += 1
        return proposal

    # -- the state -------------------------------------------------------------------------------

    def save(self) -> str:
        left = self._starts_left
        state = {
            "ledger": self._ledger.save(),
            "starts": self._starts.save(),
            "starts_left": None if math.isinf(left) else int(left),
            "barren": self._barren,
            "lines": self._lines.save(),
            "expectations": self._expect.save(),
        }
        return dump_state(self.name, state)

    def load(self, state: str) -> None:
        def read(stored: Any) -> None:
            self._ledger.load(stored["ledger"])
            self._starts.load(stored["starts"])
            left = stored["starts_left"]
            self._starts_left = math.inf if left is None else int(left)
            self._barren = int(stored["barren"])
            self._lines.load(stored["lines"])
            self._expect.load(stored["expectations"])

        load_state(self.name, state, read)
