"""Ways to schedule a program with odd indices; each is a function of its schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import schedlang as sl


def _unscheduled(sch: sl.Schedule) -> None:
    pass


def _fused(sch: sl.Schedule) -> sl.LoopRV:
    """Fuse the loops of ``y`` that are not reduced."""
    loops = sch.get_loops("y")
    kept = loops[:1] if sch.workload.name == "summed" else loops
    return sch.fuse(*kept)


def _fuse(sch: sl.Schedule) -> None:
    _fused(sch)


def _split(sch: sl.Schedule) -> None:
    for loop in sch.get_loops("y"):
        sch.split(loop, [None, 3])


def _fuse_split(sch: sl.Schedule) -> None:
    sch.split(_fused(sch), [None, 5])


def _reorder(sch: sl.Schedule) -> None:
    outer, inner = sch.split(_fused(sch), [None, 4])
    sch.reorder(inner, outer)


def _vectorize(sch: sl.Schedule) -> None:
    _, inner = sch.split(_fused(sch), [None, 4])
    sch.vectorize(inner)


def _vectorize_whole(sch: sl.Schedule) -> None:
    sch.vectorize(_fused(sch))


def _parallel(sch: sl.Schedule) -> None:
    outer, inner = sch.split(_fused(sch), [3, None])
    sch.parallel(outer)
    sch.unroll(inner)


def _unroll(sch: sl.Schedule) -> None:
    sch.unroll(sch.get_loops("y")[-1])


def _inline(sch: sl.Schedule) -> None:
    sch.compute_inline("x")
    _vectorize(sch)


def _reverse_inline(sch: sl.Schedule) -> None:
    sch.reverse_compute_inline("y")


def _compute_at(sch: sl.Schedule) -> None:
    outer, _ = sch.split(_fused(sch), [None, 4])
    sch.compute_at("x", outer)


def _compute_at_innermost(sch: sl.Schedule) -> None:
    sch.compute_at("x", sch.get_loops("y")[-1])


def _compute_at_fuse(sch: sl.Schedule) -> None:
    _compute_at_innermost(sch)
    _fuse(sch)


def _compute_at_split(sch: sl.Schedule) -> None:
    _compute_at_innermost(sch)
    _fuse_split(sch)


def _reverse_compute_at(sch: sl.Schedule) -> None:
    outer, _ = sch.split(sch.get_loops("x")[0], [None, 3])
    sch.reverse_compute_at("y", outer)


def _cache_read(sch: sl.Schedule) -> None:
    cache = sch.cache_read("y", 0, "local")
    sch.compute_at(cache, sch.get_loops("y")[0])


def _cache_write(sch: sl.Schedule) -> None:
    cache = sch.cache_write("y", 0, "local")
    loops = sch.get_loops("y")
    sch.reverse_compute_at(cache, loops[0])


def _reindex(sch: sl.Schedule) -> None:
    new = sch.reindex("y", ("read", 0))
    outer, _ = sch.split(_fused(sch), [None, 4])
    sch.compute_at(new, outer)


def _reindex_inline(sch: sl.Schedule) -> None:
    sch.compute_inline(sch.reindex("y", ("read", 0)))
    _fuse(sch)


def _layout(sch: sl.Schedule) -> None:
    cache = sch.cache_read("y", 0, "global")
    if len(sch.get_loops(cache)) == 1:
        sch.transform_layout(cache, ("write", 0), lambda i: [i % 3, i // 3], pad_value=0.0)
    else:
        sch.transform_layout(cache, ("write", 0), lambda i, j: [j, i])
    _fuse(sch)


def _rolled_layout(sch: sl.Schedule) -> None:
    cache = sch.cache_read("y", 0, "global")
    loops = sch.get_loops(cache)
    last = sch.extent(loops[-1])
    rolled = (lambda i: [(i + 1) % last]) if len(loops) == 1 else (lambda i, j: [i, (j + 1) % last])
    sch.transform_layout(cache, ("write", 0), rolled)


def _rolled_block(sch: sl.Schedule) -> None:
    loops = sch.get_loops("y")
    first = sch.extent(loops[0])
    rolled = (
        (lambda i: [(i + 1) % first]) if len(loops) == 1 else (lambda i, j: [(i + 1) % first, j])
    )
    sch.transform_block_layout("y", rolled)


def _block_layout(sch: sl.Schedule) -> None:
    if len(sch.get_loops("y")) == 2:
        sch.transform_block_layout("y", lambda i, j: [j, i])
    _fuse(sch)


def _blockize(sch: sl.Schedule) -> None:
    outer, inner = sch.split(sch.get_loops("y")[-1], [None, 3])
    sch.blockize(inner)
    loops = sch.get_loops("y_o")
    sch.fuse(*loops)


def _rfactor(sch: sl.Schedule) -> None:
    _, inner = sch.split(sch.get_loops("y")[1], [None, 3])
    sch.rfactor(inner, 0)


def _decompose(sch: sl.Schedule) -> None:
    loops = sch.get_loops("y")
    sch.split(loops[1], [None, 4])
    sch.decompose_reduction("y", sch.get_loops("y")[1])


def scheduled(workload: sl.Workload, name: str, seed: int) -> sl.Schedule:
    """Return the schedule of that name; ``"default"`` draws one from the default space.

    Raises InstructionError where the schedule cannot be applied.
    """
    if name == DEFAULT:
        return sl.default_space("cpu").sample(workload, seed=seed)
    sch = sl.Schedule(workload)
    SCHEDULES[name](sch)
    return sch


UNSCHEDULED = "unscheduled"
DEFAULT = "default"
SCHEDULES: Mapping[str, Callable[[sl.Schedule], None]] = {
    UNSCHEDULED: _unscheduled,
    "fuse": _fuse,
    "split": _split,
    "fuse, split": _fuse_split,
    "reorder": _reorder,
    "vectorize": _vectorize,
    "vectorize all": _vectorize_whole,
    "parallel, unroll": _parallel,
    "unroll": _unroll,
    "compute_inline": _inline,
    "reverse_compute_inline": _reverse_inline,
    "compute_at": _compute_at,
    "compute_at, innermost": _compute_at_innermost,
    "compute_at, fuse": _compute_at_fuse,
    "compute_at, split": _compute_at_split,
    "reverse_compute_at": _reverse_compute_at,
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "reindex": _reindex,
    "reindex, inline": _reindex_inline,
    "transform_layout": _layout,
    "transform_block_layout": _block_layout,
    "transform_layout, rolled": _rolled_layout,
    "transform_block_layout, rolled": _rolled_block,
    "blockize": _blockize,
    "rfactor": _rfactor,
    "decompose_reduction": _decompose,
}
