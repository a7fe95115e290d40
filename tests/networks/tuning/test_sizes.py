"""``tune_network`` of a model at several sizes: who is first, who follows, and what is resumed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.measurement import Candidate, Measurement
from tests.crash.tuner import Replayed
from tests.networks.sizes.models import inputs, network_set

BATCHES = (4, 9, 16, 33)


class Table(Replayed):
    """Measures any workload from a table, and notes its rows at each candidate."""

    def __init__(self, stop_after: float = math.inf) -> None:
        super().__init__()
        self.rows: list[int] = []
        self._stop_after = stop_after

    def bind(self, workload: sl.Workload) -> None:
        self._bound = int(workload.args[-1].shape[0])

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for found in super().measure(candidates):
            if len(self.rows) >= self._stop_after:
                raise KeyboardInterrupt
            self.rows.append(self._bound)
            yield found


def tune(networks: sl.NetworkSet, measurer: Any = None, **options: Any) -> sl.NetworkResult:
    defaults: dict[str, Any] = {"trials": 40, "progress": False}
    return sl.tune_network(networks, measurer=measurer or Table(), **(defaults | options))


def histories(result: sl.NetworkResult) -> list[tuple[tuple[int, ...], list[tuple[int, float]]]]:
    return [(task.weights, list(task.history)) for task in result.tasks]


@pytest.fixture(scope="module")
def networks() -> sl.NetworkSet:
    return network_set(*BATCHES)


def test_few_trials_reach_every_size(networks: sl.NetworkSet) -> None:
    """8 tasks: one representative has half of 40 trials, and each follower some."""
    measurer = Table()
    result = tune(networks, measurer)
    assert result.trials == 40 and result.complete
    assert all(task.trials > 0 for task in result.tasks)
    first = measurer.rows[0]
    place = BATCHES.index(first)
    assert first in (9, 16), "the middle of the sizes"
    mine = [task for task in result.tasks if task.weights[place]]
    assert sum(task.trials for task in mine) >= 20
    assert set(measurer.rows[:20]) == {first}
    followers = [task for task in result.tasks if not task.weights[place]]
    assert all(2 <= task.history[0][0] <= 4 for task in followers)


@pytest.mark.slow
def test_without_transfer_all_sizes_are_alike(networks: sl.NetworkSet) -> None:
    measurer = Table()
    tune(networks, measurer, transfer=False)
    assert len(set(measurer.rows[:20])) > 1
    measurer = Table()
    tune(networks, measurer, scheduler="round_robin")
    assert len(set(measurer.rows[:20])) == 1


@pytest.mark.slow
def test_sizes_that_are_called_often_count_more() -> None:
    often = network_set(*BATCHES, weights=[0.0, 0.0, 0.0, 1.0])
    measurer = Table()
    tune(often, measurer)
    assert set(measurer.rows[:20]) == {33}


@pytest.mark.slow
def test_the_same_call_continues(networks: sl.NetworkSet, tmp_path: Path) -> None:
    whole = tune(networks, database=tmp_path / "whole.db")
    path = tmp_path / "cut.db"
    with pytest.warns(sl.InterruptedWarning):
        cut = tune(networks, Table(stop_after=23), database=path)
    assert cut.interrupted
    measurer = Table()
    rest = tune(networks, measurer, database=path)
    assert rest.trials == 40
    assert [task.trials for task in rest.tasks] == [task.trials for task in whole.tasks]
    assert histories(rest) == histories(whole)
    measurer = Table()
    again = tune(networks, measurer, database=path)
    assert not measurer.rows and histories(again) == histories(whole)


@pytest.mark.slow
def test_the_result_is_one_executable(networks: sl.NetworkSet) -> None:
    result = tune(networks)
    assert isinstance(result.networks, sl.NetworkSet)
    exe = result.compile()
    assert isinstance(exe, sl.CompiledNetworkSet) and len(exe) == len(BATCHES)
    assert not any(math.isnan(summary.call) for summary in exe.summaries)
    np.testing.assert_allclose(exe(inputs(9)), networks[1].run(inputs(9)), rtol=1e-4, atol=1e-6)
    assert isinstance(result.compile(networks[0]), sl.CompiledNetwork)


@pytest.mark.slow
def test_what_is_printed(networks: sl.NetworkSet) -> None:
    text = str(tune(networks))
    assert text.startswith("dense at 4 sizes on cpu/")
    lines = text.splitlines()
    head = next(place for place, line in enumerate(lines) if "tasks measured" in line)
    assert [line.split()[0] for line in lines[head + 1 : head + 5]] == ["4", "9", "16", "33"]
    assert "fused_matmul_relu at 33" in text


@pytest.mark.slow
def test_a_limit_for_each_size(networks: sl.NetworkSet) -> None:
    result = tune(networks, objective="requirements", limits=[1.0] * 4, trials=400)
    assert result.trials < 400, "all limits are met"


def on_host(target: sl.Target) -> Table:
    return Table()


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_hosts_tune_all_sizes(networks: sl.NetworkSet, count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        found = sl.tune_network(networks, trials=40, progress=False, measurer=on_host, hosts=pool)
    assert all(task.trials > 0 for task in found.tasks)
    if count == 1:
        assert histories(found) == histories(tune(networks))


def test_what_takes_one_network_names_the_way_to_one(networks: sl.NetworkSet) -> None:
    with pytest.raises(sl.NetworkError, match="item 0 .* not a NetworkSet; it holds several"):
        sl.tune_network([networks, networks[0]])  # type: ignore[list-item]
    with pytest.raises(sl.NetworkError, match="takes a network, not an int"):
        sl.compile_network(3)  # type: ignore[call-overload]
    with pytest.raises(sl.WorkloadError, match="not a NetworkSet; sl.tune_network"):
        sl.tune(networks)
