"""Properties of buffers."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.instructions.arguments import Block, BufferRole, DType, Ranges, WriteBuffer
from schedlang.language.primitives.declare import primitive
from schedlang.tvm.schedule import primitives as tvm_primitives


class BufferPrimitives:
    """Alignment, scope, type and access of buffers."""

    @primitive("StorageAlign")
    def storage_align(
        self, block: Block, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Pad strides of a written buffer: ``stride[axis] == k * factor + offset`` afterwards."""

    @primitive("SetScope")
    def set_scope(self, block: Block, buffer_index: WriteBuffer, storage_scope: str) -> None:
        """Move an intermediate buffer: ``B in global  ->  B in shared``."""

    @primitive("UnsafeSetDType", method="unsafe_set_dtype")
    def set_dtype(self, block: Block, buffer_index: int, dtype: DType) -> None:
        """Change an intermediate buffer's type: ``B: float32  ->  B: float16``, casting around it.

        TVM calls it unsafe: results change with the precision.
        """

    @primitive("RollingBuffer")
    def rolling_buffer(self, block: Block, write_buffer_index: int) -> None:
        """Keep only a sliding window of a buffer.

        ``for i: B[i..i+3]  ->  for i: B[i % 4]``, where the overlap is reused.
        """

    @primitive(
        "UnsafeHideBufferAccess",
        method="unsafe_hide_buffer_access",
        inputs=("block", "buf_type", "buf_index_array"),
    )
    def hide_buffer_access(
        self, block: Block, buf_type: BufferRole, buf_index_array: Sequence[int]
    ) -> None:
        """Remove accesses from a block's signature.

        ``reads(A, B)  ->  reads(A)``. TVM calls it unsafe.
        """

    @primitive("AnnotateBufferAccess", tvm_primitives.annotate_buffer_access)
    def annotate_buffer_access(
        self, block: Block, buffer_index: int, buffer_type: BufferRole, ranges: Ranges
    ) -> None:
        """Declare the region that a block accesses: ``reads(A[f(i)])  ->  reads(A[i : i + 2])``.

        ``ranges`` is a function of the block's variables that returns an index or a (begin, end)
        pair for each dimension.
        """
