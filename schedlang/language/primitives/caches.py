"""Caches, and reading or writing a buffer another way."""

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
from schedlang.instructions.kinds import primitive
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm.schedule import primitive as ffi
from schedlang.tvm.schedule import primitives as tvm_primitives


class CachePrimitives(InstructionGroup):
    """Blocks that copy."""

    @primitive(ffi("ScheduleCacheRead"), returns="block")
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
        result: BlockRV = self._run(
            "cache_read", block, read_buffer_index, storage_scope, consumer_blocks
        )
        return result

    @primitive(ffi("ScheduleCacheWrite"), returns="block")
    def cache_write(
        self,
        block: Block,
        write_buffer_index: WriteBuffer,
        storage_scope: str,
        consumer_blocks: Blocks = (),
    ) -> BlockRV:
        """Write to a copy first: ``block writes C  ->  block writes C_cache; C = C_cache``."""
        result: BlockRV = self._run(
            "cache_write", block, write_buffer_index, storage_scope, consumer_blocks
        )
        return result

    @primitive(tvm_primitives.reindex_cache_read, returns="block")
    def reindex_cache_read(
        self, block: Block, read_buffer_index: ReadBuffer, storage_scope: str, index_map: Map
    ) -> BlockRV:
        """A read cache in a layout of the block's variables.

        ``C reads A[i, k]  ->  A_cache[map(i, j, k)]``
        """
        result: BlockRV = self._run(
            "reindex_cache_read", block, read_buffer_index, storage_scope, index_map
        )
        return result

    @primitive(tvm_primitives.reindex_cache_write, returns="block")
    def reindex_cache_write(
        self, block: Block, write_buffer_index: WriteBuffer, storage_scope: str, index_map: Map
    ) -> BlockRV:
        """A write cache in a layout of the block's variables.

        ``C[i, j] = ...  ->  C_cache[map(i, j)] = ...``
        """
        result: BlockRV = self._run(
            "reindex_cache_write", block, write_buffer_index, storage_scope, index_map
        )
        return result

    @primitive(tvm_primitives.cache_inplace, returns="blocks")
    def cache_inplace(
        self, block: Block, read_buffer_index: ReadBuffer, storage_scope: str
    ) -> list[BlockRV]:
        """Cache a buffer that is updated in place: ``A = f(A)  ->  t = A; t = f(t); A = t``."""
        result: list[BlockRV] = self._run("cache_inplace", block, read_buffer_index, storage_scope)
        return result

    @primitive(ffi("ScheduleCacheIndex"), returns="blocks")
    def cache_index(self, block: Block, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute index expressions once: ``B = A[f(i)]  ->  t = f(i); B = A[t]``.

        ``cse_thresh`` is how often a subexpression must occur to be cached (0: every index).
        """
        result: list[BlockRV] = self._run("cache_index", block, storage_scope, cse_thresh)
        return result

    @primitive(tvm_primitives.reindex, returns="block")
    def reindex(self, block: Block, buffer: AnyBuffer) -> BlockRV:
        """A cache indexed by the block's variables.

        ``C reads A[i + k]  ->  A_re[i, k] = A[i + k]``.

        ``buffer`` is a name or ``("read" | "write", index)``.
        """
        result: BlockRV = self._run("reindex", block, buffer)
        return result

    @primitive(tvm_primitives.read_at, returns="block")
    def read_at(
        self, loop: Loop, block: Block, read_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        """Copy at a loop what is read below it.

        ``for i: C reads A  ->  for i: {A_s = A[i..]; C reads A_s}``
        """
        result: BlockRV = self._run("read_at", loop, block, read_buffer_index, storage_scope)
        return result

    @primitive(tvm_primitives.write_at, returns="block")
    def write_at(
        self, loop: Loop, block: Block, write_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        """Copy out at a loop what is written below it.

        ``for i: C = ..  ->  for i: {C_s = ..; C[i..] = C_s}``
        """
        result: BlockRV = self._run("write_at", loop, block, write_buffer_index, storage_scope)
        return result
