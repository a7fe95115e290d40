"""Networks of many cases at once, compared with torch."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import schedlang as sl
from schedlang.targets.deployment.tensor_arguments import as_numpy
from tests.networks.operators.case import Case

EQUAL, REFUSED, WRONG, UNTYPED = "equal", "refused", "wrong", "untyped"
GROUP = 40
"""Cases of one network: the export and the compilation of many cost little more than of one."""


@dataclass(frozen=True)
class Verdict:
    """What became of a case.

    Attributes
    ----------
    case: the case.
    outcome: ``EQUAL``; ``REFUSED``, with an error of schedlang's that names the operator or what
        the model does; ``WRONG``; or ``UNTYPED``, with any other error.
    message: what differs, or the error.
    """

    case: Case
    outcome: str
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether a user would be misled, or left without an explanation."""
        return self.outcome in (WRONG, UNTYPED)


class _Part(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return _flat(self.case.function(*inputs))


class _Group(nn.Module):
    """A model that computes several cases, each in a module named by its number."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        for number, case in enumerate(cases):
            self.add_module(f"case_{number}", _Part(case))

    def forward(self, inputs: Sequence[Sequence[torch.Tensor]]) -> list[tuple[torch.Tensor, ...]]:
        return [part(*given) for part, given in zip(self.children(), inputs, strict=True)]


def judge(cases: Sequence[Case], size: int = GROUP) -> Iterator[Verdict]:
    """Import and run the cases; those that torch itself refuses are left out."""
    expected: dict[str, tuple[torch.Tensor, ...]] = {}
    for case in cases:
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                expected[case.name] = _flat(case.function(*_copies(case)))
        except (RuntimeError, IndexError, ValueError, NotImplementedError):
            continue
    left = [case for case in cases if case.name in expected]
    for start in range(0, len(left), size):
        yield from _judged(left[start : start + size], expected)


def _judged(
    cases: Sequence[Case], expected: dict[str, tuple[torch.Tensor, ...]]
) -> Iterator[Verdict]:
    if not cases:
        return
    inputs = [_copies(case) for case in cases]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network = sl.import_network(_Group(cases), ([*inputs],))
            returned = network.run([*inputs])
    except sl.UnsupportedOperatorError as error:
        refused = _refused(error)
        for number in refused:
            yield Verdict(cases[number], REFUSED, str(error))
        if refused:
            kept = [case for number, case in enumerate(cases) if number not in refused]
            yield from _judged(kept, expected)
        else:
            yield from _halves(cases, expected, REFUSED, error)
    except sl.NetworkError as error:
        # An error of TVM behind the import does not say where the model is at fault.
        outcome = UNTYPED if "TVM cannot" in str(error) else REFUSED
        yield from _halves(cases, expected, outcome, error)
    except Exception as error:  # what must not happen
        yield from _halves(cases, expected, UNTYPED, error)
    else:
        for case, found in zip(cases, returned, strict=True):
            problem = difference(case, found, [as_numpy(one) for one in expected[case.name]])
            yield Verdict(case, WRONG if problem else EQUAL, problem)


def _halves(
    cases: Sequence[Case],
    expected: dict[str, tuple[torch.Tensor, ...]],
    outcome: str,
    error: Exception,
) -> Iterator[Verdict]:
    """The verdicts of both halves of a group that failed as a whole; of one case, its error."""
    if len(cases) == 1:
        yield Verdict(cases[0], outcome, f"{type(error).__name__}: {error}")
        return
    middle = len(cases) // 2
    yield from _judged(cases[:middle], expected)
    yield from _judged(cases[middle:], expected)


def _refused(error: sl.UnsupportedOperatorError) -> set[int]:
    """The numbers of the modules that an error names."""
    places = [place for listed in error.operators.values() for place in listed]
    return {int(number) for place in places for number in re.findall(r"'case_(\d+)'", place)}


def _copies(case: Case) -> tuple[torch.Tensor, ...]:
    return tuple(value.detach() for value in case.inputs)


def _flat(value: Any) -> tuple[torch.Tensor, ...]:
    if isinstance(value, torch.Tensor):
        return (value,)
    return tuple(value)


def difference(case: Case, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """Return where results differ from torch's; ``""`` where they do not."""
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"result {place}: {one.dtype} {one.shape}, torch {other.dtype} {other.shape}"
        wrong = _differing(case, one, other)
        if wrong.any():
            at = tuple(int(index) for index in np.argwhere(wrong)[0])
            count = int(wrong.sum())
            return f"result {place}{list(at)}: {one[at]!r}, torch {other[at]!r}; {count} wrong"
    return ""


def _differing(case: Case, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    kind = str(other.dtype)
    if "float" not in kind:
        return np.asarray(one != other)
    epsilon = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10}.get(kind, 2.0**-7)
    allowed = (min(case.error, 4) if kind in ("float16", "bfloat16") else case.error) * epsilon
    wide, right = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(wide - right) <= allowed * np.maximum(np.abs(right), 1)
    same = (wide == right) | (np.isnan(wide) & np.isnan(right))
    equal = same | (near & np.isfinite(right))
    if case.signed_zeros:
        equal &= ~((wide == 0) & (right == 0) & (np.signbit(wide) != np.signbit(right)))
    return ~np.asarray(equal)
