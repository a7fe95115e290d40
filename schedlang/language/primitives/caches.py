"""Caches, and other layouts to read or write a buffer."""

from __future__ import annotations

from schedlang.instructions.arguments import (
    AnyBuffer,
    Block,
    Blocks,
    Loop,
    Map,
    ReadBuffer,
    WriteBuffer,
)
from schedlang.instructions.handles import BlockRV
from schedlang.language.primitives.declare import primitive
from schedlang.tvm.schedule import primitives as tvm_primitives


class CachePrimitives:
    """Blocks that copy."""

    @primitive("CacheRead")
    def cache_read(
        self,
        block: Block,
        read_buffer_index: ReadBuffer,
        storage_scope: str,
        consumer_blocks: Blocks = (),
    ) -> BlockRV:
        """Copy what a block reads: ``C reads A  ->  A_cache = A; C reads A_cache``.

        Without ``consumer_blocks`` all readers use the copy. Returns the copying block.
        """

    @primitive("CacheWrite")
    def cache_write(
        self,
        block: Block,
        write_buffer_index: WriteBuffer,
        storage_scope: str,
        consumer_blocks: Blocks = (),
    ) -> BlockRV:
        """Write to a copy first: ``block writes C  ->  block writes C_cache; C = C_cache``."""

    @primitive("ReindexCacheRead", tvm_primitives.reindex_cache_read)
    def reindex_cache_read(
        self, block: Block, read_buffer_index: ReadBuffer, storage_scope: str, index_map: Map
    ) -> BlockRV:
        """Make a read cache, indexed by a map of the block's variables.

        ``C reads A[i, k]  ->  A_cache[map(i, j, k)]``
        """

    @primitive("ReindexCacheWrite", tvm_primitives.reindex_cache_write)
    def reindex_cache_write(
        self, block: Block, write_buffer_index: WriteBuffer, storage_scope: str, index_map: Map
    ) -> BlockRV:
        """Make a write cache, indexed by a map of the block's variables.

        ``C[i, j] = ...  ->  C_cache[map(i, j)] = ...``
        """

    @primitive("CacheInplace", tvm_primitives.cache_inplace)
    def cache_inplace(
        self, block: Block, read_buffer_index: ReadBuffer, storage_scope: str
    ) -> list[BlockRV]:
        """Cache a buffer that is updated in place: ``A = f(A)  ->  t = A; t = f(t); A = t``."""

    @primitive("CacheIndex")
    def cache_index(self, block: Block, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute each index expression once: ``B = A[f(i)]  ->  t = f(i); B = A[t]``.

        ``cse_thresh`` is the number of times that a subexpression must occur to be cached; 0
        caches every index.
        """

    @primitive("ReIndex", tvm_primitives.reindex)
    def reindex(self, block: Block, buffer: AnyBuffer) -> BlockRV:
        """Make a cache indexed by the block's variables.

        ``C reads A[i + k]  ->  A_re[i, k] = A[i + k]``.

        ``buffer`` is a name or ``("read" | "write", index)``.
        """

    @primitive("ReadAt", tvm_primitives.read_at)
    def read_at(
        self, loop: Loop, block: Block, read_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        """Copy, at a loop, what is read below it.

        ``for i: C reads A  ->  for i: {A_s = A[i..]; C reads A_s}``
        """

    @primitive("WriteAt", tvm_primitives.write_at)
    def write_at(
        self, loop: Loop, block: Block, write_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        """Copy out, at a loop, what is written below it.

        ``for i: C = ..  ->  for i: {C_s = ..; C[i..] = C_s}``
        """
