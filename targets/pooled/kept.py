"""``measurer()``: workers that stay between calls."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from schedlang.errors import SchedlangError, TargetError
from schedlang.measurement import Measurer
from schedlang.measurement.problem import Problem
from schedlang.targets.errors import describe
from schedlang.targets.pooled.measurer import PooledMeasurer
from schedlang.targets.target import Target, as_target

_SAID_BY_CALLS = frozenset(field.name for field in fields(Problem))


def measurer(target: Target | str | Any = "cpu", **options: Any) -> Measurer:
    """Return a measurer of this machine whose workers stay between calls; the caller closes it.

    ``with sl.measurer("cpu") as m: sl.tune(a, measurer=m); sl.tune(b, measurer=m)`` starts workers
    once, which is most of the time of a small run. Each call verifies as it would without the
    measurer, and is the same run: an interrupted one continues with it or without. One call uses it
    at a time, for this target.

    Parameters
    ----------
    target: a Target, its name, or one of TVM's.
    options: of the target's measurer: how many workers there are, how long builds and runs may
        take, how often candidates run (``schedlang.targets.LocalCPU`` has those of a CPU).

    Raises TargetError for a target that this machine is not, and where measurers of the kind do not
    stay or need a workload; TypeError for an option that it does not have, or that each call says
    itself.
    """
    machine = as_target(target)
    machine.check_present()
    if said := sorted(options.keys() & _SAID_BY_CALLS):
        raise TypeError(f"measurer: {said[0]}= is said by each call: tune(..., {said[0]}=...)")
    try:
        made = machine.measurer(None, **options)
    except SchedlangError:
        raise
    except Exception as error:
        if options and isinstance(error, (TypeError, ValueError)):
            raise  # of an option
        raise TargetError(
            f"{machine.kind!r} has no measurer without a workload ({describe(error)}), whose "
            "workers could stay between calls: the target's method `measurer` must accept "
            "None for it, and return a schedlang.targets.PooledMeasurer"
        ) from error
    if not isinstance(made, PooledMeasurer):
        made.close()
        raise TargetError(
            f"{type(made).__name__}, which measures on {machine.kind!r}, takes no problem from a "
            "call; its class must derive from schedlang.targets.PooledMeasurer"
        )
    made.keep(machine.key)
    return made
