"""The results of the unscheduled program, and comparing another program's with them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from schedlang.codec import decode, encode
from schedlang.measurement import Status
from schedlang.targets.errors import Fault, faults
from schedlang.targets.measure.backend import Dataset
from schedlang.targets.measure.draws import InputDraw, choose_draws
from schedlang.targets.measure.numerics import Array
from schedlang.targets.measure.right_results import Results, results_of
from schedlang.targets.measure.steady import Steadiness
from schedlang.workloads.workload import Argument


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The right results, on one draw of inputs or several.

    Attributes
    ----------
    results: for each draw; programs are timed on the first.
    seconds: wall time of a call of the program that gave them; 0 for a user's function.
    unscheduled: whether that was the unscheduled program.
    """

    results: tuple[Results, ...]
    seconds: float = 0.0
    unscheduled: bool = False

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return sum(one.nbytes for one in self.results)

    def kept_with(self, data: Dataset) -> Reference:
        """Keep the inputs of the results in ``data``; return it with checksums of both."""
        data.keep(one.draw for one in self.results)
        data.select(self.results[0].draw)
        results = tuple(replace(one, checksum=_digest(data, one)) for one in self.results)
        return replace(self, results=results)

    def pack(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return it as JSON values and bytes, for ``unpack``; without ``Results.wide``."""
        blobs: list[bytes] = []
        for one in self.results:
            masks = [mask for mask in one.untouched if mask is not None]
            blobs += [value.tobytes() for value in (*one.expected, *masks)]
        header = {
            "draws": [encode(one.draw) for one in self.results],
            "masked": [[mask is not None for mask in one.untouched] for one in self.results],
            "exact": [one.exact for one in self.results],
            "seconds": self.seconds,
            "unscheduled": self.unscheduled,
        }
        return header, blobs

    @classmethod
    def unpack(
        cls, header: dict[str, Any], blobs: Iterable[bytes], args: Sequence[Argument]
    ) -> Reference:
        """Read the result of ``pack``; ``args`` are the tensors of a call."""
        written, left = [arg for arg in args if arg.role != "input"], iter(blobs)
        results = []
        for draw, masked, exact in zip(
            header["draws"], header["masked"], header["exact"], strict=True
        ):
            expected = tuple(from_bytes(next(left), arg.shape, arg.dtype) for arg in written)
            untouched = tuple(
                from_bytes(next(left), arg.shape, "bool") if present else None
                for arg, present in zip(written, masked, strict=True)
            )
            results.append(Results(decode(InputDraw, draw), expected, untouched, exact=exact))
        return cls(tuple(results), header["seconds"], header["unscheduled"])

    def is_like(self, other: Reference) -> bool:
        """Whether both have the same results, of the same inputs, as their checksums say."""
        return [one.checksum for one in self.results] == [one.checksum for one in other.results]

    def damaged(self, data: Dataset) -> bool:
        """Whether a program changed private data of this object or the dataset."""
        return any(
            one.checksum != _digest(data, one)
            for one in self.results
            if data.digest(one.draw) is not None
        )


def learn_reference(
    call: Callable[[], None],
    data: Dataset,
    draws: int = 1,
    steady: Steadiness | None = None,
    others: Callable[[], None] | None = None,
) -> Reference:
    """Run the unscheduled program, and keep its results.

    Chooses the draws of ``data``, at most ``draws``, as ``choose_draws`` does; those of given
    inputs are as they are. ``call`` runs the program on them, and ``others``, where it is given,
    on all draws but the first. ``steady`` says of results whether right programs agree on them;
    else another draw is taken, in the place of the first a tamer one. Raises ``Fault`` when the
    program fails, writes where it must not, or gives NaN on all that may be the first draw.
    """
    seconds = 0.0

    def attempt(draw: InputDraw, *, also_unsteady: bool = False) -> Results | None:
        nonlocal seconds
        data.select(draw)
        found, took = _results(others or call if draw.number else call, data)
        if draw.number == 0:
            seconds = took
        if found is None or steady is None or steady(found):
            return found
        if draw.number:
            return None
        if also_unsteady:
            return found
        for tamer in steady.tamer(found):
            data.select(tamer)
            tame, _ = _results(call, data)
            if tame is not None and steady(tame) and steady.says_something(tame):
                return tame
        return None

    def choose(attempted: Callable[[InputDraw], Results | None]) -> list[Results]:
        return choose_draws(
            data.args,
            draws,
            attempted,
            lambda results: results.finite,
            spreads=data.spreads,
            vary=data.drawn,
            drawn=lambda results: results.draw,
        )

    found = choose(attempt)
    if not found:
        # Where no first draw is steady, programs are timed on one that is not.
        if steady is not None:
            steady.take_any()
        found = choose(partial(attempt, also_unsteady=True))
    if not found:
        where = "random inputs, in [-1, 1) and in [0.1, 1)" if data.drawn else "the given inputs"
        raise Fault(Status.WRONG_RESULT, f"the unscheduled program gives NaN on {where}")
    return Reference(tuple(found), seconds).kept_with(data)


def learn_draw(
    call: Callable[[], None], data: Dataset, draw: InputDraw, steady: Callable[[Results], bool]
) -> Results | None:
    """Run the unscheduled program on one draw.

    None where it gives NaN or an infinity, or results that are not ``steady``.
    """
    data.select(draw)
    results, _ = _results(call, data)
    useful = results is not None and results.finite and steady(results)
    return results if useful else None


def _results(call: Callable[[], None], data: Dataset) -> tuple[Results | None, float]:
    """Run a program on the inputs in place; None where it gives NaN."""
    expected, seconds = run_checked(call, data)

    def run_again() -> tuple[list[Array], list[Array]]:
        nonlocal seconds
        others = data.poison_otherwise()
        again, seconds = run_checked(call, data)
        return again, others

    found = results_of(data.draw, expected, run_again)
    return found, seconds


def from_bytes(data: bytes, shape: Sequence[int], dtype: str) -> Array:
    """Return the array with these bytes; it cannot be written."""
    return np.frombuffer(data, np.uint8).view(np.dtype(dtype)).reshape(tuple(shape))


def run_checked(
    call: Callable[[], None], data: Dataset, name: str = "the unscheduled program"
) -> tuple[list[Array], float]:
    """Run a program; return what it wrote, and the seconds.

    Raises ``Fault`` with its ``name`` where it fails or writes outside a tensor.
    """
    with faults(Status.RUN_ERROR):
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
    if (reason := data.overrun()) is not None:
        raise Fault(Status.WRONG_RESULT, f"{name}: {reason}")
    return data.outputs(), seconds


def _digest(data: Dataset, results: Results) -> int:
    digest = data.digest(results.draw) or 0
    for value in results.expected:
        digest = zlib.crc32(value.tobytes(), digest)
    return digest
