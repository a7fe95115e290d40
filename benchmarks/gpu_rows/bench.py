"""What all rows share: the target, the time, tuning, and finals between programs."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schedlang as sl
from gpu_rows import metaschedule
from gpu_rows.dry import DryMeasurer
from gpu_rows.torch_peer import TorchPeer
from schedlang.errors import SchedlangError
from schedlang.measurement import Measurer
from schedlang.targets.cuda.local import LocalCUDA

FINALISTS = 2
FINALS_SECONDS = 20.0
# Part of a row's time that each of two searches may take.
_PART = 0.42


@dataclass
class Tuned:
    """What tuning found.

    Attributes
    ----------
    latency: of its best program, in seconds; None where none works.
    program: the module.
    trials, failures: numbers of candidates, and of those that failed by status.
    seconds: wall time.
    reference: latency of the unscheduled program with TVM's default threads.
    """

    latency: float | None
    program: Any
    trials: int
    failures: Counter[str]
    seconds: float
    reference: float | None = None

    def figures(self) -> dict[str, Any]:
        """Return what a result file keeps."""
        return {
            "latency": self.latency,
            "trials": self.trials,
            "failures": dict(self.failures),
            "seconds": round(self.seconds, 1),
        }


@dataclass
class Bench:
    """A run of the benchmark on one GPU, or without one.

    Attributes
    ----------
    target: what programs are made for.
    trials, seed: of each search.
    dry: there is no GPU: candidates are built only.
    end: of ``time.monotonic``, for the row that runs.
    keep: folder for each search's records, as a database, and its best program, as a library;
        None keeps neither.
    """

    target: sl.Target
    trials: int
    seed: int
    dry: bool
    end: float = math.inf
    keep: Path | None = None
    _torch: TorchPeer | None = field(default=None, init=False)

    @property
    def left(self) -> float:
        """Seconds that the row still has."""
        return max(self.end - time.monotonic(), 0.0)

    @property
    def torch(self) -> TorchPeer | None:
        """torch on the GPU; None without one."""
        if self._torch is None and not self.dry:
            self._torch = TorchPeer(self.target.device or 0, self.target.l2_bytes)
        return self._torch

    def torch_seconds(self, make: Callable[[TorchPeer], Callable[[], Any]]) -> float | None:
        """Return the seconds of the call that ``make`` makes; None without a GPU."""
        return None if self.torch is None else self.torch.seconds(make(self.torch))

    @contextmanager
    def measuring(self, workload: sl.Workload) -> Iterator[Measurer]:
        """Give a measurer for a workload."""
        if self.dry:
            measurer: Measurer = DryMeasurer(self.target)
            measurer.bind(workload)
        else:
            measurer = LocalCUDA(workload, self.target, seed=self.seed)
        with measurer:
            yield measurer

    def tune(
        self,
        workload: sl.Workload,
        measurer: Measurer,
        space: sl.Space | None = None,
        part: float = _PART,
    ) -> Tuned:
        """Tune with a measurer, in a part of the time that the row has left."""
        space = space or sl.default_space(self.target)
        kept = self._kept(workload)
        start = time.perf_counter()
        result = sl.tune(
            workload,
            self.target,
            space=space,
            trials=self.trials,
            seconds=None if math.isinf(self.left) else part * self.left,
            seed=self.seed,
            measurer=measurer,
            database=None if kept is None else kept.with_suffix(".db"),
            progress=False,
        )
        failures = Counter(str(record.status) for record in result.records if not record.ok)
        reference = result.reference_latency
        try:
            best = result.best
            latency, program = best.latency, best.schedule.mod
        except SchedlangError:
            latency = program = None
        if kept is not None and program is not None and not self.dry:
            sl.targets.export_library(program, self.target, kept.with_suffix(".so"))
        return Tuned(
            latency,
            program,
            len(result.records),
            failures,
            time.perf_counter() - start,
            None if math.isnan(reference) else reference,
        )

    def _kept(self, workload: sl.Workload) -> Path | None:
        """Return the stem of the files of the next search; None where none are kept."""
        if self.keep is None:
            return None
        stems = (self.keep / f"{workload.name}-{n}" for n in itertools.count())
        return next(stem for stem in stems if not stem.with_suffix(".db").exists())

    def tune_metaschedule(
        self, workload: sl.Workload, measurer: Measurer, part: float = 2 * _PART
    ) -> metaschedule.Found:
        """Search MetaSchedule's space with as many trials."""
        # Its search evaluates hundreds of programs first, which says nothing in a dry run.
        strategy = "replay-trace" if self.dry else "evolutionary"
        measurer.best_so_far = None
        return metaschedule.tune(
            workload, self.target, measurer, self.trials, self.seed, part * self.left, strategy
        )

    def finals(
        self, measurer: Measurer, entries: Mapping[str, Sequence[Any]]
    ) -> dict[str, float | None]:
        """Time programs in turn; return the latency of each entry's fastest one that is right."""
        numbers = itertools.count()
        owners, candidates = {}, []
        for name, modules in entries.items():
            for module in modules:
                candidates.append(sl.Candidate(next(numbers), module))
                owners[candidates[-1].id] = name
        found: dict[str, float | None] = dict.fromkeys(entries)
        for one in measurer.remeasure(candidates, budget_seconds=FINALS_SECONDS):
            name = owners[one.id]
            if one.ok:
                before = found[name]
                found[name] = one.latency if before is None else min(before, one.latency)
        return found

    def against_metaschedule(
        self, workload: sl.Workload, space: sl.Space | None = None
    ) -> dict[str, Any]:
        """Tune with both sides, at as many trials each, and time their best programs in turn."""
        with self.measuring(workload) as measurer:
            own = self.tune(workload, measurer, space)
            peer = self.tune_metaschedule(workload, measurer)
            best = {
                "schedlang": [] if own.program is None else [own.program],
                "metaschedule": peer.fastest(FINALISTS),
            }
            times = self.finals(measurer, best)
        return {
            "latency": times,
            "metaschedule over schedlang": ratio(times["metaschedule"], times["schedlang"]),
            "schedlang": own.figures(),
            "metaschedule": {
                "trials": peer.trials,
                "failures": dict(peer.failures),
                "seconds": round(peer.seconds, 1),
                "error": peer.error,
                "pass context": metaschedule.PASS_CONTEXT,
            },
            "unscheduled": own.reference,
        }


def ratio(one: float | None, other: float | None) -> float | None:
    """Divide; None where a number is missing."""
    return one / other if one and other else None
