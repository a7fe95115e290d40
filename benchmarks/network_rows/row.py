"""One network: imported, tuned, compiled and timed beside its peers."""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import schedlang as sl
from network_rows import our_sides, torch_sides, tvm_side
from network_rows.command import Keep
from network_rows.models import make
from network_rows.side import Side, SideError, SideProcess, Spec
from network_rows.turns import errors, time_in_turns

# At most until a side is ready: torch's max-autotune compiles and times many candidates.
_COMPILE_SECONDS = 900.0
EAGER, CHANNELS_LAST, COMPILED = "eager", "eager, channels last", "compiled"
UNSCHEDULED, DEFAULT, TUNED, TVM = "unscheduled", "default", "tuned", "tune_relax"
BACKEND, C_LIBRARY = "backend", "C library"

SIDES: Mapping[str, Callable[[Spec], Side]] = {
    EAGER: torch_sides.eager,
    CHANNELS_LAST: torch_sides.eager_channels_last,
    COMPILED: torch_sides.compiled,
    UNSCHEDULED: our_sides.unscheduled,
    DEFAULT: our_sides.default,
    TUNED: our_sides.tuned,
    BACKEND: our_sides.by_backend,
    C_LIBRARY: our_sides.c_library,
    TVM: tvm_side.tune_relax,
}


@dataclass(frozen=True)
class Plan:
    """What to do with each network.

    Attributes
    ----------
    trials, seconds: of ``tune_network``; ``seconds`` is None without a limit of time.
    sides: those that are compiled and timed.
    peer_trials: of ``tune_relax``; 0 leaves it out. peer_each: as many for each task.
    peer_seconds: at most, for its tuning.
    rounds, round_seconds: of timing in turns.
    threads: of every side.
    folder: holds the databases.
    """

    trials: int
    seconds: float | None
    sides: Sequence[str]
    peer_trials: int
    peer_each: bool
    peer_seconds: float
    rounds: int
    round_seconds: float
    threads: int
    folder: Path
    seed: int = 0


def measure(name: str, plan: Plan, keep: Keep) -> dict[str, Any]:
    """Return the row of a network. ``keep`` is given what there is after each step."""
    row: dict[str, Any] = {"network": name, "complete": False, "failed": {}}
    spec = Spec(name, plan.threads, {"database": str(plan.folder / f"{name}.db")})
    try:
        row |= _tune(name, plan, spec)
    except Exception as error:
        traceback.print_exc()
        row["failed"][TUNED] = f"{type(error).__name__}: {error}".splitlines()[0]
    keep(row)
    with Started() as started:
        for side in plan.sides:
            if side in row["failed"] or (side == TVM and not plan.peer_trials):
                continue
            options = dict(spec.options)
            if side == TVM:
                options = {
                    "trials": plan.peer_trials,
                    "seconds": plan.peer_seconds,
                    "each": plan.peer_each,
                }
            limit = _COMPILE_SECONDS + (plan.peer_seconds if side == TVM else 0.0)
            failure = started.start(side, SIDES[side], Spec(name, plan.threads, options), limit)
            if failure:
                row["failed"][side] = failure
        row |= _facts(started.sides)
        keep(row)
        medians, failed = time_in_turns(started.sides, plan.rounds, plan.round_seconds)
    row["failed"] |= failed
    row["rounds"] = medians
    row["latency"] = {side: statistics.median(times) for side, times in medians.items()}
    row["complete"] = True
    keep(row)
    return row


def _tune(name: str, plan: Plan, spec: Spec) -> dict[str, Any]:
    model = make(name)
    network, result, found = tune(lambda: our_sides.imported(model), plan, spec)
    return found | {
        "convolutional": model.convolutional,
        "calls": len(network.calls),
        "untunable": dict(network.untunable) | found["untunable"],
        "sum of tasks": result.latency,
        "sum of unscheduled tasks": sum(result.reference_latencies),
        "each task": [
            {
                "task": one.name,
                "weights": one.weights,
                "trials": one.trials,
                "latency": one.latency,
                "unscheduled": one.reference_latency,
                "history": list(one.history),
                "finished": one.finished,
            }
            for one in result.tasks
        ],
    }


def tune(imported: Callable[[], Any], plan: Any, spec: Spec) -> tuple[Any, Any, dict[str, Any]]:
    """Import and tune networks; return them, the result, and what a row says of it.

    ``plan`` has the trials, seconds and seed.
    """
    started = time.perf_counter()
    networks = imported()
    seconds = time.perf_counter() - started
    print(networks, flush=True)
    result = sl.tune_network(
        networks,
        our_sides.target_of(spec),
        trials=plan.trials,
        seconds=plan.seconds,
        database=spec.options["database"],
        seed=plan.seed,
        progress=True,
    )
    print(result, flush=True)
    found = {
        "import seconds": seconds,
        "tasks": len(result.tasks),
        "tasks tuned": sum(one.trials > 0 and not one.failed for one in result.tasks),
        "untunable": {one.name: one.failed for one in result.tasks if one.failed},
        "trials": result.trials,
        "tuning seconds": result.seconds,
        "finished": result.finished,
    }
    return networks, result, found


def _facts(sides: list[SideProcess]) -> dict[str, Any]:
    """Return what the sides tell, and the errors of their outputs against torch eager's."""
    facts: dict[str, Any] = {"facts": {}, "first seconds": {}, "errors": {}}
    expected = next((side.outputs for side in sides if side.name == EAGER), None)
    for side in sides:
        facts["facts"][side.name] = side.facts
        facts["first seconds"][side.name] = side.first_seconds
        if expected is not None and side.name != EAGER:
            facts["errors"][side.name] = errors(side.outputs, expected)
    return facts


class Started:
    """Sides that are ready, closed at the end."""

    def __init__(self) -> None:
        self.sides: list[SideProcess] = []

    def start(self, name: str, make: Callable[[Spec], Side], spec: Spec, seconds: float) -> str:
        """Start a side and wait for it; return why it failed, empty if it did not."""
        side = SideProcess(name, make, spec)
        try:
            side.wait(seconds)
        except SideError as error:
            side.close()
            print(f"{spec.network}: {name}: {error}", flush=True)
            return str(error)
        self.sides.append(side)
        print(f"{spec.network}: {name} is ready; first call {side.first_seconds:.3f} s", flush=True)
        return ""

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *exception: object) -> None:
        for side in self.sides:
            side.close()
