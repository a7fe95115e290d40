"""Properties of buffers."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.instructions.arguments import Block, Ranges, WriteBuffer
from schedlang.instructions.kinds import primitive
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm.schedule import primitive as ffi
from schedlang.tvm.schedule import primitives as tvm_primitives


class BufferPrimitives(InstructionGroup):
    """Alignment, scope, type and access of buffers."""

    @primitive(ffi("ScheduleStorageAlign"))
    def storage_align(
        self, block: Block, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Pad strides of a written buffer: ``stride[axis] == k * factor + offset`` afterwards."""
        self._run("storage_align", block, buffer_index, axis, factor, offset)

    @primitive(ffi("ScheduleSetScope"))
    def set_scope(self, block: Block, buffer_index: WriteBuffer, storage_scope: str) -> None:
        """Move an intermediate buffer: ``B in global  ->  B in shared``."""
        self._run("set_scope", block, buffer_index, storage_scope)

    @primitive(ffi("ScheduleUnsafeSetDType"), tvm_name="unsafe_set_dtype")
    def set_dtype(self, block: Block, buffer_index: int, dtype: str) -> None:
        """Change an intermediate buffer's type: ``B: float32  ->  B: float16``, casting around it.

        TVM calls it unsafe: results change with the precision.
        """
        self._run("set_dtype", block, buffer_index, dtype)

    @primitive(ffi("ScheduleRollingBuffer"))
    def rolling_buffer(self, block: Block, write_buffer_index: int) -> None:
        """Keep a sliding window only.

        ``for i: B[i..i+3]  ->  for i: B[i % 4]`` reusing what overlaps.
        """
        self._run("rolling_buffer", block, write_buffer_index)

    @primitive(ffi("ScheduleUnsafeHideBufferAccess"), tvm_name="unsafe_hide_buffer_access")
    def hide_buffer_access(
        self, block: Block, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        """Leave accesses out of a block's signature.

        ``reads(A, B)  ->  reads(A)``. Unsafe, says TVM.
        """
        self._run("hide_buffer_access", block, buf_type, buf_index_array)

    @primitive(tvm_primitives.annotate_buffer_access)
    def annotate_buffer_access(
        self, block: Block, buffer_index: int, buffer_type: str, ranges: Ranges
    ) -> None:
        """State the region a block touches: ``reads(A[f(i)])  ->  reads(A[i : i + 2])``.

        ``ranges`` is a function of the block's variables that gives for each dimension an index or
        a (begin, end) pair.
        """
        self._run("annotate_buffer_access", block, buffer_index, buffer_type, ranges)
