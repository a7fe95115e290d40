"""Sketches: the trace families of a space, one for each path of choices."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from schedlang.errors import SpaceError
from schedlang.instructions.choices import Path
from schedlang.language.replay import resample
from schedlang.language.schedule import Schedule, Trace


@dataclass(frozen=True)
class Sketch:
    """A trace family: one path of choices, and a trace that took it.

    Attributes
    ----------
    choices: option taken at each choice point, by site.
    trace: a member; ``schedlang.resample`` gives others.
    """

    choices: tuple[tuple[str, str], ...]
    trace: Trace

    def sample(self, seed: int | None = None) -> Schedule:
        """Draw a member of the family. InvalidTrace if the drawn decisions do not apply."""
        return resample(self.trace, seed=seed)


def enumerate_sketches(run: Callable[[Path], Trace], seed: int, limit: int) -> Iterator[Sketch]:
    """Yield every path of choices of a program that has a positive probability.

    ``run`` runs the program with a decider. It is run again with a forced prefix of choices until
    no option is left. Paths that differ only in choices that were rolled back are one sketch.
    SpaceError when there are more than ``limit``.
    """
    pending: list[tuple[int, ...]] = [()]
    seen: set[tuple[int, ...]] = set()
    complete: set[tuple[int, ...]] = set()
    while pending:
        prefix = pending.pop()
        path = Path(prefix, random.Random(seed))
        trace = run(path)
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
        yield Sketch(path.choices(), trace)
