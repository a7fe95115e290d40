"""Schedulers compared: the gradient against equal split, at equal trials and at half of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import schedlang as sl
from network_rows import our_sides
from network_rows.models import make
from network_rows.side import Spec
from schedlang.search.tasks import TaskProgress, make_scheduler, network_latencies

GRADIENT, EQUAL = "gradient", "equal_split"


class Recorded:
    """A scheduler that keeps the network's latency after each slice.

    Attributes
    ----------
    curve: (trials of all tasks, seconds of all calls); NaN until each task has had a slice.
    order: the task of each slice.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self._scheduler = make_scheduler(name, seed=seed)
        self.curve: list[tuple[int, float]] = []
        self.order: list[int | None] = []

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return what the scheduler says."""
        trials = sum(task.trials for task in progress)
        self.curve.append((trials, sum(network_latencies(progress))))
        self.order.append(self._scheduler.next(progress))
        return self.order[-1]


def compare(name: str, trials: int, threads: int, seed: int, folder: Path) -> dict[str, Any]:
    """Tune a network twice from nothing, and return both curves and what they come to."""
    model = make(name)
    network = our_sides.imported(model)
    runs: dict[str, Any] = {}
    for scheduler in (GRADIENT, EQUAL):
        database = folder / f"{name}-{scheduler}-{seed}.db"
        database.unlink(missing_ok=True)
        recorded = Recorded(scheduler, seed)
        result = sl.tune_network(
            network,
            our_sides.target_of(Spec(name, threads)),
            trials=trials,
            scheduler=recorded,
            database=database,
            seed=seed,
            progress=True,
        )
        runs[scheduler] = {
            "trials": result.trials,
            "seconds": result.seconds,
            "latency": result.latency,
            "curve": recorded.curve,
            "order": recorded.order,
            "histories": [
                {"weight": sum(one.weights), "trials": one.trials, "history": list(one.history)}
                for one in result.tasks
            ],
        }
    gradient, equal = runs[GRADIENT], runs[EQUAL]
    half = latency_at(gradient["curve"], trials // 2)
    return {
        "network": name,
        "seed": seed,
        "trials": trials,
        "equal split over gradient": equal["latency"] / gradient["latency"],
        "half over gradient": half / latency_at(gradient["curve"], trials),
        "half over equal split": half / latency_at(equal["curve"], trials),
        "trials to equal split's": _reached(gradient["curve"], latency_at(equal["curve"], trials)),
        "runs": runs,
    }


def latency_at(curve: Sequence[tuple[int, float]], trials: int) -> float:
    """Return the network's latency after so many trials, as it was measured in the search."""
    return [latency for count, latency in curve if count <= trials][-1]


def _reached(curve: Sequence[tuple[int, float]], latency: float) -> int | None:
    return next((count for count, now in curve if now <= latency), None)


def line(row: dict[str, Any]) -> str:
    """Return a comparison in one line."""
    reached = row["trials to equal split's"]
    return (
        f"{row['network']}, seed {row['seed']}, {row['trials']} trials: equal split takes "
        f"{row['equal split over gradient']:.3f} times the gradient's latency; with half of the "
        f"trials the gradient takes {row['half over gradient']:.3f} times its own with all and "
        f"{row['half over equal split']:.3f} times equal split's with all, which it reaches after "
        f"{reached if reached is not None else 'more'} trials"
    )
