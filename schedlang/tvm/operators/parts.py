"""What operators are made of: operands, axes of sums, and the type of sums."""

from __future__ import annotations

from tvm import te

from schedlang.errors import WorkloadError


def operands(
    dtype: str, out_dtype: str | None, **shapes: tuple[int, ...]
) -> tuple[str, list[te.Tensor]]:
    """Return the type in which products are summed, and a placeholder for each named shape."""
    wide = accumulator(dtype, out_dtype)
    return wide, [te.placeholder(shape, dtype, name) for name, shape in shapes.items()]


def sum_axes(**extents: int) -> list[te.IterVar]:
    """Return an axis to sum over for each named extent."""
    return [te.reduce_axis((0, extent), name) for name, extent in extents.items()]


def accumulator(dtype: str, out_dtype: str | None) -> str:
    """Return the dtype of sums: ``out_dtype`` if given.

    Otherwise int32 for integers, float32 for bfloat16, and ``dtype`` for other types.
    """
    natural = "float32" if dtype == "bfloat16" else dtype
    chosen = out_dtype or ("int32" if dtype.startswith("int") else natural)
    if chosen.startswith("int") != dtype.startswith("int"):
        raise WorkloadError(
            f"dtype={dtype!r} with out_dtype={chosen!r}: sum integers in integers, floats in floats"
        )
    return chosen
