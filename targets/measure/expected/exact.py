"""Results that no right program rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from schedlang.measurement import Status
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.draws import WHOLE
from schedlang.targets.measure.expected.results import Results
from schedlang.targets.measure.fault import faults
from schedlang.targets.measure.verify import Numerics, epsilon
from schedlang.tvm.values import is_floating


def is_exact(
    call: Callable[[], None], data: Dataset, results: Results, numerics: Sequence[Numerics]
) -> bool:
    """Whether all right programs give the same bits on a draw of whole numbers.

    They do where every partial sum, in any order, is an integer that the narrowest type on the way
    holds. None is larger than what the program, of which ``is_whole`` holds, gives for the
    magnitudes of the inputs: ``call`` runs it on ``data`` once more.
    """
    floating = [
        spread
        for spread, arg in zip(results.draw.spreads, data.args, strict=True)
        if is_floating(arg.dtype) and arg.role != "output"
    ]
    if set(floating) != {WHOLE} or results.draw.change is not None:
        return False
    data.select(results.draw)
    data.use_magnitudes()
    with faults(Status.RUN_ERROR):
        call()
    for value, dtype, one, mask in zip(
        data.outputs(), data.output_types, numerics, results.untouched, strict=True
    ):
        if not is_floating(dtype) or mask is not None:
            return False
        # A sum that has come to this number may not grow any more.
        most = min(2 / epsilon(kind) for kind in (dtype, *one.stored))
        numbers = value.astype(np.float64)
        if not ((numbers < most) & (numbers == np.rint(numbers))).all():
            return False
    return True
