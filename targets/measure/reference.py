"""The results of the unscheduled program, and comparing another program's with them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schedlang.measurement import Status
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.draws import Draw, choose_draws
from schedlang.targets.measure.expected.narrow import WideResults
from schedlang.targets.measure.expected.tolerance import Tolerances
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.specification import TensorSpec
from schedlang.targets.measure.verify import Array, Numerics, compare


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The right results on one draw of inputs.

    Attributes
    ----------
    draw: the inputs that they belong to.
    expected: contents of the written tensors.
    untouched: masks of the elements that the program leaves as they were; None where it writes
        all.
    checksum: of these and the dataset's inputs, as they were; None before ``Reference.kept_with``.
    wide: for each written tensor what it is without rounding, where that is known.
    """

    draw: Draw
    expected: tuple[Array, ...]
    untouched: tuple[Array | None, ...]
    checksum: int | None = None
    wide: tuple[WideResults | None, ...] = ()

    @property
    def finite(self) -> bool:
        """Whether all that the program writes are finite numbers."""
        return all(
            value.dtype.kind in "biu"
            or bool((np.isfinite(value) | (False if mask is None else mask)).all())
            for value, mask in zip(self.expected, self.untouched, strict=True)
        )

    def mismatch(
        self,
        outputs: Sequence[Array],
        dtypes: Sequence[str],
        numerics: Numerics,
        tolerances: Tolerances = (),
    ) -> str | None:
        """Say in one line why the outputs of a program are not right; None if they are."""
        got, want = [], []
        for value, expected, untouched in zip(outputs, self.expected, self.untouched, strict=True):
            if untouched is not None:
                if not _is_nan(value)[untouched].all():
                    return "it writes elements that the unscheduled program leaves as they were"
                value = np.where(untouched, np.zeros((), value.dtype), value)
                expected = np.where(untouched, np.zeros((), value.dtype), expected)
            got.append(value)
            want.append(expected)
        reason = compare(got, want, dtypes, numerics, tolerances)
        return reason or self._excess(got, dtypes, tolerances)

    def _excess(
        self, outputs: Sequence[Array], dtypes: Sequence[str], tolerances: Tolerances
    ) -> str | None:
        """Say in one line where an output is farther from the right one than rounding explains."""
        for place, (value, wide) in enumerate(zip(outputs, self.wide, strict=False)):
            if wide is None or (tolerances and tolerances[place] is not None):
                continue
            if (reason := wide.mismatch(value)) is not None:
                return f"output {place} ({dtypes[place]}): {reason}"
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The right results, on one draw of inputs or several.

    Attributes
    ----------
    results: for each draw; programs are timed on the first.
    seconds: wall time of a call of the program that gave them; 0 for a user's function.
    """

    results: tuple[Results, ...]
    seconds: float = 0.0

    def kept_with(self, data: Dataset) -> Reference:
        """Keep the inputs of the results in ``data``; return it with checksums of both."""
        data.keep(one.draw for one in self.results)
        data.select(self.results[0].draw)
        results = tuple(replace(one, checksum=_digest(data, one)) for one in self.results)
        return replace(self, results=results)

    def pack(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return it as JSON values and bytes, for ``unpack``."""
        blobs: list[bytes] = []
        for one in self.results:
            masks = [mask for mask in one.untouched if mask is not None]
            blobs += [value.tobytes() for value in (*one.expected, *masks)]
        header = {
            "draws": [one.draw.to_json() for one in self.results],
            "masked": [[mask is not None for mask in one.untouched] for one in self.results],
            "seconds": self.seconds,
        }
        return header, blobs

    @classmethod
    def unpack(
        cls, header: dict[str, Any], blobs: Iterable[bytes], args: Sequence[TensorSpec]
    ) -> Reference:
        """Read the result of ``pack``; ``args`` are the tensors of a call."""
        written, left = [arg for arg in args if arg.role != "input"], iter(blobs)
        results = []
        for draw, masked in zip(header["draws"], header["masked"], strict=True):
            expected = tuple(from_bytes(next(left), arg.shape, arg.dtype) for arg in written)
            untouched = tuple(
                from_bytes(next(left), arg.shape, "bool") if present else None
                for arg, present in zip(written, masked, strict=True)
            )
            results.append(Results(Draw.from_json(draw), expected, untouched))
        return cls(tuple(results), header["seconds"])

    def damaged(self, data: Dataset) -> bool:
        """Whether a program changed private data of this object or the dataset."""
        return any(
            one.checksum != _digest(data, one)
            for one in self.results
            if data.digest(one.draw) is not None
        )


def learn_reference(call: Callable[[], None], data: Dataset, draws: int = 1) -> Reference:
    """Run the unscheduled program, and keep its results.

    Chooses the draws of ``data``, at most ``draws``, as ``choose_draws`` does; those of given
    inputs are as they are. ``call`` runs the program on them. Raises ``Fault`` when it fails,
    writes where it must not, or gives NaN on all that may be the first.
    """
    seconds = 0.0

    def attempt(draw: Draw) -> Results | None:
        nonlocal seconds
        data.select(draw)
        found, took = _results(call, data)
        if draw.number == 0:
            seconds = took
        return found

    found = choose_draws(data.args, draws, attempt, lambda results: results.finite, vary=data.drawn)
    if not found:
        where = "random inputs, in [-1, 1) and in [0.1, 1)" if data.drawn else "the given inputs"
        raise Fault(Status.WRONG_RESULT, f"the unscheduled program gives NaN on {where}")
    return Reference(tuple(found), seconds).kept_with(data)


def _results(call: Callable[[], None], data: Dataset) -> tuple[Results | None, float]:
    """Run a program on the inputs in place; None where it gives NaN."""
    expected, seconds = _run(call, data)
    untouched: list[Array | None] = [None] * len(expected)
    if any(_is_nan(value).any() for value in expected):
        others = data.poison_otherwise()
        again, seconds = _run(call, data)
        masks = [
            _is_nan(value) & (second == other)
            for value, second, other in zip(expected, again, others, strict=True)
        ]
        if any((_is_nan(v) & ~mask).any() for v, mask in zip(expected, masks, strict=True)):
            return None, seconds
        untouched = [mask if mask.any() else None for mask in masks]
    return Results(data.draw, tuple(expected), tuple(untouched)), seconds


def from_bytes(data: bytes, shape: Sequence[int], dtype: str) -> Array:
    """Return the array with these bytes; it cannot be written."""
    return np.frombuffer(data, np.uint8).view(np.dtype(dtype)).reshape(tuple(shape))


def _run(call: Callable[[], None], data: Dataset) -> tuple[list[Array], float]:
    with faults(Status.RUN_ERROR):
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
    if (reason := data.overrun()) is not None:
        raise Fault(Status.WRONG_RESULT, f"the unscheduled program: {reason}")
    return data.outputs(), seconds


def _digest(data: Dataset, results: Results) -> int:
    digest = data.digest(results.draw) or 0
    for value in results.expected:
        digest = zlib.crc32(value.tobytes(), digest)
    return digest


def _is_nan(value: Array) -> Array:
    if value.dtype.kind in "biu":
        return np.zeros(value.shape, np.bool_)
    return np.asarray(np.isnan(value))
