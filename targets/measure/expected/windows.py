"""Some elements of the outputs, from a part of the unscheduled program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.reference import Reference, run_checked
from schedlang.targets.measure.verify import Array, compare

_NAME = "a part of the unscheduled program"


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """What a part of the program wrote.

    Attributes
    ----------
    values: contents of the written tensors.
    written: masks of the elements that it wrote.
    """

    values: tuple[Array, ...]
    written: tuple[Array, ...]

    def mismatch(self, found: Reference, data: Dataset, binding: Binding) -> str | None:
        """Say in one line why results are not right in the windows; None if they are."""
        for position, mask in enumerate(self.written):
            if not mask.any():
                return f"output {position}: the part of the program wrote nothing to compare"
        expected = found.results[0].expected
        got = [value[mask] for value, mask in zip(expected, self.written, strict=True)]
        want = [value[mask] for value, mask in zip(self.values, self.written, strict=True)]
        tolerances = binding.tolerances
        return compare(got, want, data.output_types, binding.numerics, tolerances)


def learn_windows(call: Callable[[], None], data: Dataset) -> Windows:
    """Run a part of the program on the inputs of ``data``, and find what it writes.

    An element counts as written when two runs, with other initial contents, leave the same there;
    one that was there before counts when it has changed.
    """
    data.select(data.draw)
    before = data.outputs()
    first, _ = run_checked(call, data, _NAME)
    data.poison_otherwise()
    second, _ = run_checked(call, data, _NAME)
    written = tuple(
        _bits(one) != _bits(old) if role == "inout" else _bits(one) == _bits(two)
        for role, old, one, two in zip(data.written_roles, before, first, second, strict=True)
    )
    return Windows(tuple(first), written)


def _bits(values: Array) -> Array:
    """Return the elements as integers, so that NaN equals itself."""
    kind = np.dtype(f"u{values.dtype.itemsize}") if values.dtype.itemsize <= 8 else values.dtype
    return values.view(kind)
