"""MetaSchedule's own space for a workload, drawn at random, for any measurer."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from _contest import BATCH, Draw

import schedlang as sl
from schedlang.search.base import GIVE_UP_AFTER
from schedlang.tvm.program import structural_key

_MOST_TRIALS = 2**31 - 1


def draw_from_metaschedule(workload: sl.Workload, target: sl.Target, seed: int) -> Draw:
    """Draw different programs of MetaSchedule's space for the target, with its default rules.

    This is its replay-trace strategy: pick a sketch uniformly, replay its trace with new random
    decisions, and apply the target's post-processors.
    """
    from tvm.s_tir import meta_schedule as ms

    context = ms.TuneContext(
        mod=workload.mod,
        target=target.tvm_target(),
        space_generator=ms.space_generator.PostOrderApply(),
        search_strategy=ms.search_strategy.ReplayTrace(),
        task_name=workload.name,
        # Neighbouring states of its generator give similar first draws.
        rand_state=random.Random(seed).randrange(1, 2**31 - 1),
        # With more threads, which thread draws which candidate is not deterministic.
        num_threads=1,
    )
    programs = _distinct_programs(context)
    return lambda count: list(itertools.islice(programs, count))


def _distinct_programs(context: Any) -> Iterator[Any]:
    """Yield new programs until ``GIVE_UP_AFTER`` draws in a row give none, as ``Random`` does."""
    context.pre_tuning(max_trials=_MOST_TRIALS, num_trials_per_iter=BATCH)
    seen: set[str] = set()
    barren = 0
    while barren < GIVE_UP_AFTER:
        drawn = context.search_strategy.generate_measure_candidates()
        barren += BATCH - len(drawn)  # draws that its post-processors refused too often
        for candidate in drawn:
            key = structural_key(candidate.sch.mod)
            if key in seen:
                barren += 1
                continue
            barren = 0
            seen.add(key)
            yield candidate.sch.mod
