"""Blocks that copy."""

from __future__ import annotations

from schedlang.language.schedule import Schedule
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import (
    chain,
    elementwise,
    in_place,
    matmul,
    resize,
    siblings,
)


def _cache_read_for_one_reader(sch: Schedule) -> None:
    sch.cache_read("C", "A", "global", consumer_blocks=["C"])


def _read_at(sch: Schedule) -> None:
    i, _ = sch.get_loops("B")
    sch.read_at(i, "B", 0, "global")


def _write_at(sch: Schedule) -> None:
    i, _ = sch.get_loops("B")
    sch.write_at(i, "B", 0, "global")


def _reindex_cache_read(sch: Schedule) -> None:
    sch.reindex_cache_read("C", "B", "global", lambda i, j, k: (j // 4, k, j % 4))


def _reindex_cache_write(sch: Schedule) -> None:
    sch.reindex_cache_write("C", "C", "global", lambda i, j, k: (j, i))


CASES = [
    Case("cache_read", matmul, lambda sch: sch.cache_read("C", "A", "global")),
    Case("cache_read_for_one_reader", siblings, _cache_read_for_one_reader),
    Case("cache_write", matmul, lambda sch: sch.cache_write("C", 0, "local")),
    Case("reindex_cache_read", matmul, _reindex_cache_read),
    Case("reindex_cache_write", matmul, _reindex_cache_write),
    Case("cache_inplace", in_place, lambda sch: sch.cache_inplace("A", "A", "global")),
    Case("cache_index", resize, lambda sch: sch.cache_index("B", "global")),
    Case("reindex", resize, lambda sch: sch.reindex("B", ("read", 0))),
    Case("reindex_by_name", elementwise, lambda sch: sch.reindex("B", "B")),
    Case("read_at", elementwise, _read_at),
    Case("write_at", elementwise, _write_at),
]

MISUSES = [
    Misuse(
        "cache_read",
        matmul,
        lambda sch: sch.cache_read("C", 2, "local"),
        "read_buffer_index=2",
        r"block C has 2 read regions.* is 2, which is out of the expected range",
        "T.reads(A[vi, vk], B[vk, vj])",
    ),
    Misuse(
        "cache_read",
        matmul,
        lambda sch: sch.cache_read("C", "D", "local"),
        "read_buffer_index='D'",
        "block C reads no buffer 'D'; it reads A, B",
    ),
    Misuse(
        "cache_write",
        elementwise,
        lambda sch: sch.cache_write("B", 0, "fast"),
        "storage_scope='fast'",
        'storage scope "fast" is invalid',
    ),
    Misuse(
        "cache_write",
        elementwise,
        lambda sch: sch.cache_write("B", "A", "local"),
        "write_buffer_index='A'",
        "block B writes no buffer 'A'; it writes B",
    ),
    Misuse(
        "reindex_cache_read",
        matmul,
        lambda sch: sch.reindex_cache_read("C", "A", "local", lambda i, j: (i, j)),
        "index_map=lambda i, j: (i, j)",
        "takes 2 indices, but block C has 3 variables: vi, vj, vk",
    ),
    Misuse(
        "reindex_cache_write",
        matmul,
        lambda sch: sch.reindex_cache_write("C", "C", "local", "ji"),
        "index_map='ji'",
        "takes a function of indices or an IndexMap, not str 'ji'",
    ),
    Misuse(
        "reindex_cache_write",
        matmul,
        lambda sch: sch.reindex_cache_write("C", "C", "local", lambda i, j, k: (i,)),
        "index_map=lambda i, j, k: (i,)",
        "block itervar vj appears in .*, but not in",
        "T.writes(C[vi, vj])",
    ),
    Misuse(
        "cache_inplace",
        elementwise,
        lambda sch: sch.cache_inplace("B", 0, "local"),
        "read_buffer_index=0",
        "block B does not both read & write target buffer",
        "T.writes(B[vi, vj])",
    ),
    Misuse(
        "cache_inplace",
        in_place,
        lambda sch: sch.cache_inplace("B", "B", "local"),
        "read_buffer_index=0",
        "block B reads a region of B that depends on vi",
    ),
    Misuse(
        "cache_index",
        resize,
        lambda sch: sch.cache_index("B", "global", "often"),
        "cse_thresh='often'",
        "takes an integer .*, not str 'often'",
    ),
    Misuse(
        "reindex",
        resize,
        lambda sch: sch.reindex("B", 0),
        "buffer=0",
        r'takes a buffer name or \("read" or "write", index\), not int 0',
    ),
    Misuse(
        "reindex",
        resize,
        lambda sch: sch.reindex("B", ("read", 1)),
        "buffer=['read', 1]",
        "argument 'buffer': block B has 1 read buffers, there is no number 1",
    ),
    Misuse(
        "reindex",
        resize,
        lambda sch: sch.reindex("B", "X"),
        "buffer='X'",
        "writes no buffer 'X'; it writes B.*reads no buffer 'X'; it reads A",
    ),
    Misuse(
        "read_at",
        chain,
        lambda sch: sch.read_at(sch.get_loops("B")[0], "C", 0, "local"),
        "block=b3 (C)",
        "block C is not below loop i",
    ),
    Misuse(
        "read_at",
        chain,
        lambda sch: sch.read_at(sch.get_loops("B")[0], "B", 4, "local"),
        "read_buffer_index=4",
        "block B has 1 read regions",
        "T.reads(A[vi, vj])",
    ),
    Misuse(
        "write_at",
        elementwise,
        lambda sch: sch.write_at(sch.get_loops("B")[0], "B", 1, "local"),
        "write_buffer_index=1",
        "block B has 1 write regions",
        "T.writes(B[vi, vj])",
    ),
]
