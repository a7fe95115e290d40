"""Which sizes of a model are tuned first, and how a scheduler goes about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedlang.networks.sizes import NetworkSet
from schedlang.networks.sizes.labels import differing
from schedlang.networks.sizes.representatives import representatives
from schedlang.search.tasks import TaskProgress
from schedlang.search.tasks.representatives import HALF
from schedlang.tuning.session import Call

# Fewest trials for each task of a representative: fewer would leave all of them half tuned.
_TRIALS_EACH = 24
_MOST = 4
# About what a trial takes, where only seconds are given.
_SECONDS_EACH = 1.0


def chosen_representatives(networks: NetworkSet, call: Call) -> tuple[int, ...]:
    """Return the places of the sizes to tune first: as many as the budget serves, 4 at most.

    A size that is never called is none of them.
    """
    trials = call.trials
    if trials is None:
        trials = int(call.budget.seconds / _SECONDS_EACH)
    computing = sum(not task.moves_data for one in networks for task in one.tasks)
    each = _TRIALS_EACH * max(computing / len(networks), 1)
    count = min(max(int(HALF * trials / each), 1), _MOST, sum(one > 0 for one in networks.weights))
    return representatives(differing(networks.shapes), networks.weights, count)


def used_part(call: Call) -> Callable[[Sequence[TaskProgress]], float]:
    """Return a function that says which fraction of trials, or of the time, is used."""

    def used(progress: Sequence[TaskProgress]) -> float:
        by_time = call.budget.used / call.budget.seconds
        if call.trials is None:
            return by_time
        return max(sum(task.trials for task in progress) / max(call.trials, 1), by_time)

    return used
