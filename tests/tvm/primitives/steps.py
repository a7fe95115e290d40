"""Each primitive at a random place of a program, with random arguments."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import schedlang as sl
from schedlang.tvm.program import allocated_buffers
from schedlang.tvm.values import holds

Step = Callable[[sl.Schedule, random.Random], Any]


def _blocks(sch: sl.Schedule) -> list[sl.BlockRV]:
    return [block for block in _below(sch, sch.get_block("root"))]


def _below(sch: sl.Schedule, block: sl.BlockRV) -> list[sl.BlockRV]:
    found = []
    for child in sch.get_child_blocks(block):
        found += [child, *_below(sch, child)]
    return found


def _block(sch: sl.Schedule, rng: random.Random) -> sl.BlockRV:
    return rng.choice(_blocks(sch))


def _loops(sch: sl.Schedule, rng: random.Random) -> list[sl.LoopRV]:
    found = [loops for block in _blocks(sch) if (loops := sch.get_loops(block))]
    return rng.choice(found)


def _loop(sch: sl.Schedule, rng: random.Random) -> sl.LoopRV:
    return rng.choice(_loops(sch, rng))


def _split(sch: sl.Schedule, rng: random.Random) -> None:
    factor = rng.choice((2, 3, 4, 5, 8))
    factors: list[int | None] = rng.choice(([None, factor], [factor, None], [None, 2, factor]))
    sch.split(_loop(sch, rng), factors)


def _fuse(sch: sl.Schedule, rng: random.Random) -> None:
    loops = _loops(sch, rng)
    first = rng.randrange(len(loops))
    sch.fuse(*loops[first : first + rng.choice((2, 2, 3))])


def _reorder(sch: sl.Schedule, rng: random.Random) -> None:
    loops = _loops(sch, rng)
    sch.reorder(*rng.sample(loops, rng.randint(1, len(loops))))


def _merge(sch: sl.Schedule, rng: random.Random) -> None:
    one, other = (sch.get_loops(block) for block in rng.sample(_blocks(sch), 2))
    depth = rng.randrange(min(len(one), len(other)))
    sch.merge(one[depth], other[depth])


def _loop_partition(sch: sl.Schedule, rng: random.Random) -> None:
    factors = rng.choice(([2, None], [3, None], [None, 2], [1, 2, None], [2]))
    sch.loop_partition(_loop(sch, rng), factors)


def _reorder_block_iter_var(sch: sl.Schedule, rng: random.Random) -> None:
    count = rng.choice((2, 2, 3))
    sch.reorder_block_iter_var(_block(sch, rng), rng.sample(range(count), count))


def _add_unit_loop(sch: sl.Schedule, rng: random.Random) -> None:
    sch.add_unit_loop(rng.choice((_block, _loop))(sch, rng))


def _vectorize(sch: sl.Schedule, rng: random.Random) -> None:
    sch.vectorize(_loops(sch, rng)[-1] if rng.random() < 0.6 else _loop(sch, rng))


def _compute_at(sch: sl.Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    consumers = sch.get_consumers(block)
    loops = sch.get_loops(rng.choice(consumers)) if consumers else _loops(sch, rng)
    sch.compute_at(block, rng.choice(loops), rng.random() < 0.2, rng.choice((-1, -1, -2)))


def _reverse_compute_at(sch: sl.Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    producers = sch.get_producers(block)
    loops = sch.get_loops(rng.choice(producers)) if producers else _loops(sch, rng)
    sch.reverse_compute_at(block, rng.choice(loops), rng.random() < 0.2, rng.choice((-1, -2)))


def _decompose_reduction(sch: sl.Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    sch.decompose_reduction(block, rng.choice(sch.get_loops(block)))


def _decompose_padding(sch: sl.Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    sch.decompose_padding(block, rng.choice(sch.get_loops(block)))


def _fuse_reduction_epilogue(sch: sl.Schedule, rng: random.Random) -> None:
    sch.fuse_reduction_epilogue(*rng.sample(_blocks(sch), 2))


def _pair(sch: sl.Schedule, rng: random.Random) -> tuple[sl.BlockRV, int]:
    return _block(sch, rng), rng.choice((0, 0, 1))


def _map(sch: sl.Schedule, rng: random.Random, count: int) -> Callable[..., list[Any]]:
    factor = rng.choice((2, 3, 4))
    order = rng.sample(range(count), count)
    maps: list[Callable[..., list[Any]]] = [
        lambda *axes: [axes[place] for place in order],
        lambda *axes: [axes[place] for place in order],
        lambda *axes: [*axes[:-1], axes[-1] // factor, axes[-1] % factor],
        lambda *axes: [axes[0] // factor, *axes[1:], axes[0] % factor],
    ]
    return rng.choice(maps)


def _reindex_cache(role: str) -> Step:
    def step(sch: sl.Schedule, rng: random.Random) -> None:
        block, index = _pair(sch, rng)
        count = len(sch.get(block).iter_vars)
        kept = rng.sample(range(count), rng.randint(1, count))
        method = getattr(sch, f"reindex_cache_{role}")
        method(block, index, "global", _taking(count, kept))

    return step


def _taking(count: int, kept: list[int]) -> Callable[..., list[Any]]:
    names = ", ".join(f"v{place}" for place in range(count))
    chosen = ", ".join(f"v{place}" for place in kept)
    function: Callable[..., list[Any]] = eval(f"lambda {names}: [{chosen}]")
    return function


def _fixed(count: int, function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    names = ", ".join(f"v{place}" for place in range(count))
    made: Callable[..., list[Any]] = eval(f"lambda {names}: f({names})", {"f": function})
    return made


def _transform_layout(sch: sl.Schedule, rng: random.Random) -> None:
    block, role = _block(sch, rng), rng.choice(("read", "write"))
    stmt = sch.get(block)
    regions = stmt.reads if role == "read" else stmt.writes
    index = rng.randrange(len(regions))
    if not holds(allocated_buffers(sch.mod["main"]), regions[index].source):
        raise IndexError("callers would have to pass another tensor")
    count = len(regions[index].region)
    padding = {"pad_value": 0} if rng.random() < 0.5 else {}
    if padding and str(regions[index].source.ty.dtype).startswith("float"):
        padding = {"pad_value": 0.0}
    sch.transform_layout(block, (role, index), _fixed(count, _map(sch, rng, count)), **padding)


def _transform_block_layout(sch: sl.Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    count = len(sch.get(block).iter_vars)
    sch.transform_block_layout(block, _fixed(count, _map(sch, rng, count)))


def _pad_einsum(sch: sl.Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    count = len(sch.get(block).iter_vars)
    sch.pad_einsum(block, [rng.choice((1, 2, 4)) for _ in range(count)])


def _annotate(sch: sl.Schedule, rng: random.Random) -> None:
    key, value = rng.choice(
        (("pragma_loop_partition_hint", 1), ("pragma_auto_unroll_max_step", 16))
    )
    sch.annotate(_loop(sch, rng), key, value)


def _set_dtype(sch: sl.Schedule, rng: random.Random) -> None:
    wider = rng.choice(("float64", "int64"))  # exact, unlike a narrower one
    block = _block(sch, rng)
    given = str(sch.get(block).writes[0].source.ty.dtype)
    sch.set_dtype(block, 0, wider if given[:3] == wider[:3] else given)


def _at(role: str) -> Step:
    def step(sch: sl.Schedule, rng: random.Random) -> None:
        block, index = _pair(sch, rng)
        getattr(sch, f"{role}_at")(rng.choice(sch.get_loops(block)), block, index, "local")

    return step


SCOPES = ("global", "local")
STEPS: Mapping[str, Step] = {
    "split": _split,
    "fuse": _fuse,
    "merge": _merge,
    "loop_partition": _loop_partition,
    "reorder": _reorder,
    "reorder_block_iter_var": _reorder_block_iter_var,
    "add_unit_loop": _add_unit_loop,
    "parallel": lambda sch, rng: sch.parallel(_loop(sch, rng)),
    "vectorize": _vectorize,
    "unroll": lambda sch, rng: sch.unroll(_loop(sch, rng)),
    "compute_at": _compute_at,
    "reverse_compute_at": _reverse_compute_at,
    "compute_inline": lambda sch, rng: sch.compute_inline(_block(sch, rng)),
    "reverse_compute_inline": lambda sch, rng: sch.reverse_compute_inline(_block(sch, rng)),
    "decompose_reduction": _decompose_reduction,
    "rfactor": lambda sch, rng: sch.rfactor(_loop(sch, rng), rng.choice((0, 1))),
    "fuse_reduction_epilogue": _fuse_reduction_epilogue,
    "storage_align": lambda sch, rng: sch.storage_align(_block(sch, rng), 0, 0, 8, 1),
    "set_scope": lambda sch, rng: sch.set_scope(_block(sch, rng), 0, rng.choice(SCOPES)),
    "set_dtype": _set_dtype,
    "rolling_buffer": lambda sch, rng: sch.rolling_buffer(_block(sch, rng), 0),
    "cache_read": lambda sch, rng: sch.cache_read(*_pair(sch, rng), rng.choice(SCOPES)),
    "cache_write": lambda sch, rng: sch.cache_write(_block(sch, rng), 0, rng.choice(SCOPES)),
    "reindex_cache_read": _reindex_cache("read"),
    "reindex_cache_write": _reindex_cache("write"),
    "cache_inplace": lambda sch, rng: sch.cache_inplace(*_pair(sch, rng), "local"),
    "cache_index": lambda sch, rng: sch.cache_index(_block(sch, rng), "global"),
    "reindex": lambda sch, rng: sch.reindex(
        _block(sch, rng), (rng.choice(("read", "write")), rng.choice((0, 0, 1)))
    ),
    "read_at": _at("read"),
    "write_at": _at("write"),
    "transform_layout": _transform_layout,
    "transform_block_layout": _transform_block_layout,
    "pad_einsum": _pad_einsum,
    "decompose_padding": _decompose_padding,
    "blockize": lambda sch, rng: sch.blockize(_loop(sch, rng)),
    "annotate": _annotate,
}
"""The primitives that change a program for a CPU, but those that TVM calls unsafe."""
