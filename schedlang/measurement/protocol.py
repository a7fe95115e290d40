"""Check what a user gives: methods of an object, as they will be called, and ``verify``.

A measurer that fails in the finals has measured everything in vain. NumPy is not imported: the
command line checks words with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from schedlang.errors import SchedlangError
from schedlang.measurement.measurement import Candidate, Measurement
from schedlang.printed import nearest

# The positional arguments by name, and the others with a value of their type.
_CALLS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "measure": (("candidates",), {}),
    "remeasure": (("candidates",), {"rounds": 1, "budget_seconds": 1.0}),
    "bind": (("workload",), {}),
    "close": ((), {}),
}
_SET = ("deadline", "best_so_far")
_VALUES = ("key", "reference_latency", "reference_complete", "seconds", *_SET)


def check_measurer(given: object) -> None:
    """TypeError for a member of a measurer that cannot be used as ``tune`` uses it.

    Only ``measure`` must be there; of the others, those that are. Nothing is measured.
    """
    if isinstance(given, type):
        raise TypeError(f"measurer={given.__name__} is a class; give an instance of it")
    if not hasattr(given, "measure"):
        raise TypeError(f"measurer={given!r} has no method measure(candidates)")
    what = f"measurer: {type(given).__name__}"
    for method, (arguments, options) in _CALLS.items():
        if hasattr(given, method):
            check_method(what, given, method, *arguments, **options)
    check_values(what, given, *_VALUES)
    for name in _SET:
        if hasattr(given, name):
            try:
                setattr(given, name, getattr(given, name))
            except AttributeError as error:
                raise TypeError(
                    f"{what}.{name} cannot be set ({error}), and tune sets it; make it an "
                    "attribute, or leave it out"
                ) from error


def check_method(what: str, given: object, name: str, *arguments: str, **options: Any) -> None:
    """TypeError unless ``given`` has a method that can be called with these arguments.

    ``what`` begins the message; ``arguments`` are the names of the positional ones.
    """
    method = getattr(given, name, None)
    call = f"{name}({', '.join([*arguments, *(f'{option}=' for option in options)])})"
    if not callable(method):
        raise TypeError(f"{what}.{name} is not a method but {method!r}; it is called as {call}")
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise TypeError(f"{what}.{name} is asynchronous; it is called as {call}, without await")
    try:
        signature = inspect.signature(method)
    except (ValueError, TypeError):
        return  # it is written in C
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        takes = f"{name}({', '.join(signature.parameters)})"
        raise TypeError(f"{what}.{takes} cannot be called as {call}: {error}") from None


def check_values(what: str, given: object, *names: str) -> None:
    """TypeError for a method where a value or a property belongs; no property is evaluated."""
    for name in names:
        if callable(inspect.getattr_static(given, name, None)):
            raise TypeError(f"{what}.{name} is a method; make it a property (@property) or a value")


def checked_measurements(
    what: str, found: Iterable[Measurement], candidates: Sequence[Candidate]
) -> Iterator[Measurement]:
    """Yield measurements as they come, each of one of the candidates, and each once.

    ``what`` names the method that returned them, in messages. TypeError for an item that is not a
    Measurement; SchedlangError for an id that no candidate has, or that comes twice.
    """
    if not isinstance(found, Iterable):
        raise TypeError(
            f"measurer: {what} returned {found!r}; yield one schedlang.Measurement for each "
            "candidate"
        )
    awaited = {candidate.id for candidate in candidates}
    for measurement in found:
        if not isinstance(measurement, Measurement):
            raise TypeError(
                f"measurer: {what} gave {measurement!r}, which is not a schedlang.Measurement"
            )
        if measurement.id not in awaited:
            twice = any(measurement.id == candidate.id for candidate in candidates)
            problem = "a second time" if twice else "which is none of the candidates"
            raise SchedlangError(
                f"measurer: {what} gave a measurement of id {measurement.id}, {problem}; give one "
                "for each candidate, schedlang.Measurement(candidate.id, ...)"
            )
        awaited.remove(measurement.id)
        yield measurement


def wrong_verify(verify: Any) -> str:
    """Return what to give instead of an invalid value of ``verify``; empty for a valid one."""
    if isinstance(verify, bool) or (isinstance(verify, str) and verify == "all"):
        return ""
    known = {"all": "'all'", "true": "True", "false": "False"}
    hint = nearest(verify.lower(), known, known.__getitem__) if isinstance(verify, str) else ""
    return f"choose True, False or 'all'{hint}"
