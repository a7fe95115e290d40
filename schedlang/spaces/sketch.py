"""Sketches: the trace families of a space, one for each path of choices."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from schedlang.errors import ConstraintError, FailedPathWarning, SpaceError
from schedlang.instructions.choices import MAX_REDRAWS, Path
from schedlang.language.schedule import Schedule, Trace, resample
from schedlang.printed import html_method
from schedlang.spaces.visit import describe_failure

_GIVE_UP_AFTER = 64
"""Number of paths without a sketch after which the enumeration ends."""

Choices = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sketch:
    """A trace family: one path of choices, and a trace that took it.

    Attributes
    ----------
    choices: option taken at each choice point, by site.
    trace: a member; ``schedlang.resample`` gives others.
    """

    choices: Choices
    trace: Trace

    def sample(self, seed: int | None = None) -> Schedule:
        """Draw a member of the family. InvalidTrace if the drawn decisions do not apply."""
        return resample(self.trace, seed=seed)


@dataclass(frozen=True)
class FailedPath:
    """A path of choices on which a module raised an exception.

    Attributes
    ----------
    choices: option taken at each choice point up to there, by site.
    error: the exception; its notes name the module, the block and the line.
    """

    choices: Choices
    error: Exception

    def __str__(self) -> str:
        taken = ", ".join(f"{site}={option}" for site, option in self.choices)
        return f"{taken or 'without choices'}: {describe_failure(self.error)}"


class Sketches(list[Sketch]):
    """The sketches of a space.

    Attributes
    ----------
    failed: the paths of choices that have no sketch, because a module failed on them.
    """

    _repr_html_ = html_method("sketches")

    def __init__(self, paths: Iterable[Sketch | FailedPath] = ()) -> None:
        self.failed: list[FailedPath] = []
        for path in paths:
            if isinstance(path, Sketch):
                self.append(path)
            else:
                self.failed.append(path)


def warn_of(failed: Sequence[FailedPath]) -> None:
    """Warn of paths that failed, if there are any."""
    if failed:
        warnings.warn(
            f"{len(failed)} path{'s' * (len(failed) > 1)} of choices gave no sketch; the first "
            f"was {failed[0]}",
            FailedPathWarning,
            stacklevel=3,
        )


def enumerate_paths(
    run: Callable[[Path], Trace], seed: int, limit: int
) -> Iterator[Sketch | FailedPath]:
    """Yield every path of choices of a program that has a positive probability.

    ``run`` runs the program with a decider. It is run again with a forced prefix of choices until
    no option is left. Paths that differ only in choices that were rolled back are one sketch. A
    path on which ``run`` raises is yielded as a ``FailedPath``; its exception is raised if there is
    no sketch at all, or none after 64 such paths. SpaceError when there are more than ``limit``
    paths, and where ``run`` raises one.
    """
    pending: list[tuple[int, ...]] = [()]
    seen: set[tuple[int, ...]] = set()
    complete: set[tuple[int, ...]] = set()
    failed: list[FailedPath] = []
    while pending:
        prefix = pending.pop()
        path, trace = _attempt(run, prefix, random.Random(seed))
        for depth in range(len(path.taken) - 1, len(prefix) - 1, -1):
            if path.state(depth) in seen:
                continue
            seen.add(path.state(depth))
            taken = tuple(number for _, _, number in path.taken[:depth])
            for number in reversed(path.alternatives[depth]):
                pending.append((*taken, number))
        whole = path.state(len(path.taken))
        if whole in complete:  # it differs in choices only that were rolled back
            continue
        complete.add(whole)
        if len(complete) > limit:
            raise SpaceError(
                f"more than {limit} sketches; choices of the last one: {list(path.choices())}"
            )
        if isinstance(trace, Trace):
            yield Sketch(path.choices(), trace)
            continue
        failed.append(FailedPath(path.choices(), trace))
        yield failed[-1]
        if len(failed) == len(complete) == _GIVE_UP_AFTER:
            break
    if failed and len(failed) == len(complete):
        raise failed[0].error


def _attempt(
    run: Callable[[Path], Trace], prefix: Sequence[int], rng: random.Random
) -> tuple[Path, Trace | Exception]:
    """Run a path of choices; where a constraint is violated, with other decisions."""
    for _ in range(MAX_REDRAWS):
        path = Path(prefix, rng)
        try:
            return path, run(path)
        except SpaceError:  # the space is wrong, on every path
            raise
        except ConstraintError as error:
            violated = error
        except Exception as error:
            return path, error
    return path, violated
