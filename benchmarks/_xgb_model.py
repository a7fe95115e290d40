"""TVM's own cost model on given features."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.search.cost_model import Example, Features, Scores


def available() -> bool:
    """Whether xgboost, and what MetaSchedule needs, are installed."""
    return all(find_spec(name) is not None for name in ("xgboost", "psutil", "cloudpickle"))


class TvmModel:
    """MetaSchedule's ``XGBModel`` with its defaults, except that it never predicts at random.

    It counts a failure as 10^10 seconds. Each workload is given in one update, because it skips
    training when less than a fifth of the data is new.
    """

    name = "XGBModel"

    def __init__(self, seed: int = 0) -> None:
        import tvm
        from tvm.ir.utils import derived_object
        from tvm.s_tir import meta_schedule as ms
        from tvm.s_tir.meta_schedule.cost_model.xgb_model import XGBConfig, XGBModel

        tables = self._tables = list[Features]()

        @derived_object
        class Given(ms.feature_extractor.PyFeatureExtractor):  # type: ignore[misc]
            def extract_from(self, context: Any, candidates: list[Any]) -> list[Any]:
                return [tvm.runtime.tensor(tables[_number(one)]) for one in candidates]

        self._ms = ms
        self._model = XGBModel(extractor=Given(), config=XGBConfig(seed=seed), num_warmup_samples=0)
        workload = sl.workloads.matmul(16, 16, 16)
        self._context = ms.TuneContext(workload.mod, target="llvm", num_threads=1)
        self._schedule = tvm.s_tir.Schedule(workload.mod)

    def update(self, examples: Sequence[Example]) -> None:
        """Train on these programs only."""
        results = [
            self._ms.runner.RunnerResult([1e10 if e.latency is None else e.latency], None)
            for e in examples
        ]
        candidates = self._candidates([example.features for example in examples])
        self._model.update(self._context, candidates, results)

    def predict(self, features: Sequence[Features]) -> Scores:
        """Return one score per program; higher is faster."""
        return np.asarray(self._model.predict(self._context, self._candidates(features)))

    def _candidates(self, features: Sequence[Features]) -> list[Any]:
        """Return placeholder candidates whose shape holds the index of their feature table."""
        self._tables[:] = features
        info = self._ms.arg_info.TensorInfo
        return [
            self._ms.MeasureCandidate(self._schedule, [info("float32", [number + 1])])
            for number in range(len(features))
        ]


def _number(candidate: Any) -> int:
    return int(candidate.args_info[0].shape[0]) - 1
