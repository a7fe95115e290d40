"""Kernels as users write them: how many programs the default space has, and how fast the best is.

Nine kernels that are no matrix product (``tests/modules/users_kernels.py``). For each: the
distinct programs among ``--draws`` draws from the default space, counted up to 60; the best of
``tune`` and the calls of numpy and torch, in turns, the kernel in its own process (medians, TVM
and torch on the same number of threads); the part of the tuning time that is search; and how long a
call took that was given ``--seconds``.

Target: 30 programs or more each, and at least the speed of numpy and torch.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _results import store
from low_precision import seconds_of, time_alternately

import schedlang as sl

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.modules.users_kernels import LARGE, USERS_KERNELS  # noqa: E402

MOST = 60
Calls = dict[str, Callable[[], Any]]


def programs(workload: sl.Workload, draws: int) -> int:
    """Return how many different programs the default space gives, counted up to 60."""
    space = sl.default_space("cpu")
    found: set[str] = set()
    for seed in range(draws):
        found.add(space.sample(workload, seed=seed).program_key)
        if len(found) == MOST:
            break
    return len(found)


def inputs(name: str, workload: sl.Workload) -> list[Any]:
    """Return an array for each argument; indices of sparse matrices are valid."""
    rng = np.random.default_rng(0)
    arrays = []
    for arg in workload.args:
        if "int" in arg.dtype:
            arrays.append(rng.integers(0, 128, arg.shape).astype(arg.dtype))
        else:
            arrays.append(rng.standard_normal(arg.shape).astype(arg.dtype))
    if name.startswith("sparse"):
        rows, columns, each = LARGE[name]
        arrays[0][:] = np.arange(rows + 1) * each
        arrays[1][:] = rng.integers(0, columns, rows * each)
    return arrays


def peers(name: str, a: list[Any]) -> Calls:
    """Return the calls of numpy and torch that compute the same, where they have them."""
    t = [torch.from_numpy(one) for one in a]
    if name == "rotary":
        x, s, c = a[0], a[1][:, None], a[2][:, None]
        tx, ts, tc = t[0], t[1][:, None], t[2][:, None]
        half = x.shape[-1] // 2
        lo, hi, tlo, thi = x[..., :half], x[..., half:], tx[..., :half], tx[..., half:]
        return {
            "numpy": lambda: np.concatenate([lo * c - hi * s, hi * c + lo * s], -1),
            "torch": lambda: torch.cat([tlo * tc - thi * ts, thi * tc + tlo * ts], -1),
        }
    if name == "prefix_sum":
        return {"numpy": lambda: np.cumsum(a[0], 1), "torch": lambda: torch.cumsum(t[0], 1)}
    if name == "histogram":
        bins = LARGE[name][1]
        return {
            "numpy": lambda: np.bincount(a[0], minlength=bins),
            "torch": lambda: torch.bincount(t[0], minlength=bins),
        }
    if name == "butterfly":
        x = a[0].view(np.complex64)[..., 0]
        w = a[1].view(np.complex64)[..., 0]
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)

        def by_numpy() -> Any:
            turned = x[:, 1] * w
            return np.stack([x[:, 0] + turned, x[:, 0] - turned], 1)

        def by_torch() -> Any:
            turned = tx[:, 1] * tw
            return torch.stack([tx[:, 0] + turned, tx[:, 0] - turned], 1)

        return {"numpy": by_numpy, "torch": by_torch}
    if name.startswith("sparse"):
        rows, columns, _ = LARGE[name]
        matrix = torch.sparse_csr_tensor(t[0], t[1], t[2], (rows, columns))
        return {
            "numpy": lambda: np.add.reduceat(a[2] * a[3][a[1]], a[0][:-1]),
            "torch": lambda: matrix @ t[3],
        }
    if name == "bilateral":

        def filtered(image: Any, exp: Any) -> Any:
            rows, columns = LARGE[name]
            middle = image[2:-2, 2:-2]
            weights: Any = 0
            total: Any = 0
            for r in range(5):
                for s in range(5):
                    value = image[r : r + rows, s : s + columns]
                    weight = exp(-((value - middle) ** 2))
                    weights, total = weights + weight, total + weight * value
            return total / weights

        return {
            "numpy": lambda: filtered(a[0], np.exp),
            "torch": lambda: filtered(t[0], torch.exp),
        }
    if name == "sort_rows":
        return {"numpy": lambda: np.sort(a[0], 1), "torch": lambda: torch.sort(t[0], 1)}

    def product(w: Any, s: Any, x: Any, stacked: Any) -> Any:
        group = LARGE[name][2]
        values = stacked([w & 15, w >> 4]).reshape(w.shape[0], -1, group)
        return ((values - 8) * s[..., None]).reshape(w.shape[0], -1) @ x

    return {
        "numpy": lambda: product(
            a[0], a[1], a[2], lambda both: np.stack(both, -1).astype("float32")
        ),
        "torch": lambda: product(t[0], t[1], t[2], lambda both: torch.stack(both, -1).float()),
    }


def row(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Count, tune and time one kernel."""
    workload = USERS_KERNELS[name](*LARGE[name])
    arrays = inputs(name, workload)
    given_inputs = {
        arg.name: array
        for arg, array in zip(workload.args, arrays, strict=True)
        if arg.role != "output"
    }
    result = sl.tune(
        workload, trials=given.trials, seconds=given.seconds, seed=0, inputs=given_inputs
    )
    calls = {side: partial(seconds_of, call) for side, call in peers(name, arrays).items()}
    turns = time_alternately({"best": result}, calls, given_inputs, given.rounds)
    times = {side: statistics.median(samples) for side, samples in turns.items()}
    return {
        "name": name,
        "programs": programs(workload, given.draws),
        "microseconds": {side: seconds * 1e6 for side, seconds in times.items()},
        "verified": result.best.record.verified,
        "measured": len(result.records),
        "seconds": result.seconds,
        "search_share": result.time_split.get("search", 0.0) / result.seconds,
        "in_time": result.seconds <= given.seconds * 1.25,
        "finished": result.finished,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two kernels, 4 trials, 3 rounds")
    parser.add_argument("--kernels", nargs="+", choices=[*USERS_KERNELS], help="by default all")
    parser.add_argument("--trials", type=int, default=40, help="trials of each kernel")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds given to each call")
    parser.add_argument("--draws", type=int, default=200, help="draws to count programs among")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each side")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    names = given.kernels or [*USERS_KERNELS]
    if given.quick:
        names, given.trials, given.rounds = names[:2], 4, 3
    torch.set_num_threads(sl.Target("cpu").cores)
    rows = []
    print(f"{'':16}{'programs':>9}{'best us':>9}{'numpy':>9}{'torch':>9}{'trials':>8}", end="")
    print(f"{'seconds':>9}{'search':>8}  ended")
    for name in names:
        found = row(name, given)
        rows.append(found)
        spent = found["microseconds"]
        print(
            f"{name:16}{found['programs']:9}"
            + "".join(f"{spent[side]:9.1f}" for side in ("best", "numpy", "torch"))
            + f"{found['measured']:8}{found['seconds']:9.1f}{found['search_share']:8.0%}"
            f"  {found['finished']}{'' if found['verified'] else ', not verified'}",
            flush=True,
        )
    if given.json is not None:
        document = {"trials": given.trials, "rows": rows}
        store(document, given.json)


if __name__ == "__main__":
    main()
