"""Kernel Tuner's strategies on recorded spaces: searches from outside, by a simulator from outside.

A space is written as Kernel Tuner's cache file (``to_kernel_tuner``), and Kernel Tuner simulates a
strategy with default settings on it. A strategy sees the space as parameters with values, and the
conditions between them (``to_t1``): ``tune_cache``, without these, goes through all combinations of
values, which are too many. It knows neither schedlang's prior nor which configurations lead to the
same program: each configuration is a trial when it is first asked for, as it would be measured.
Needs the package ``kernel-tuner``.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.lab import to_kernel_tuner, to_t1
from schedlang.measurement import RecordedSpace


def run_strategy(
    found: RecordedSpace, strategy: str, seeds: Sequence[int], trials: int
) -> list[list[float]]:
    """Return the latencies that a strategy measures with each seed, in seconds and in order."""
    space = to_kernel_tuner(found)
    names = space["tune_params_keys"]
    conditions = [one["Expression"] for one in to_t1(found)["ConfigurationSpace"]["Conditions"]]
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "space.json"
        cache.write_text(json.dumps(space))
        for seed in seeds:
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 - the generators that Kernel Tuner uses
            results = _results(cache, conditions, strategy, trials)
            runs.append(_latencies(results, names)[:trials])
    return runs


def _results(
    cache: Path, conditions: Sequence[str], strategy: str, trials: int
) -> list[Mapping[str, Any]]:
    from kernel_tuner import tune_kernel
    from kernel_tuner.util import infer_args_from_cache, read_cache

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no parameter is the size of a thread block
        results, _ = tune_kernel(
            **infer_args_from_cache(read_cache(str(cache), open_cache=False)),
            cache=str(cache),
            restrictions=conditions,
            simulation_mode=True,
            strategy=strategy,
            strategy_options={"max_fevals": trials},
        )
    return list(results)


def _latencies(results: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[float]:
    found: dict[tuple[Any, ...], float] = {}
    for result in results:
        value = result["time"]  # in milliseconds; a word for a configuration that failed
        latency = value / 1e3 if isinstance(value, float) else math.inf
        found.setdefault(tuple(result[name] for name in names), latency)
    return list(found.values())
