"""Whether weights are what they were when a network was compiled."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache
from operator import is_
from typing import Any
from weakref import ref

from schedlang.errors import require


class _Steps:
    """The number of steps that optimisers have taken: fused ones change weights uncounted."""

    taken = 0


@cache
def _count_steps() -> None:
    """Count the steps of all optimisers from now on."""

    def step(*_: Any) -> None:
        _Steps.taken += 1

    # torch.optim hides this module behind its class.
    optimisers = require("torch.optim.optimizer", "torch.compile")
    optimisers.register_optimizer_step_post_hook(step)


class Stamp:
    """What tells that weights have changed: which they are, their addresses, torch's counts, bytes.

    Another tensor may have the address and the count of one that is there no more.
    """

    def __init__(self, torch: Any, weights: Sequence[Any]) -> None:
        _count_steps()
        self._torch = torch
        self._living = [ref(one) for one in weights]
        self._places = [one.data_ptr() for one in weights]
        self._counts = [one._version for one in weights]
        self._sums = self._summed(weights)
        self._steps = _Steps.taken

    def holds(self, weights: Sequence[Any]) -> bool:
        """Tell whether the weights are the same; their bytes are read where a step was taken."""
        # Hundreds of weights, at each call: lists of one thing each are made fastest.
        if not all(map(is_, [living() for living in self._living], weights)):
            return False
        if self._places != [one.data_ptr() for one in weights]:
            return False
        if self._counts != [one._version for one in weights]:
            return False
        if self._steps != _Steps.taken:
            if self._sums != self._summed(weights):
                return False
            self._steps = _Steps.taken
        return True

    def _summed(self, weights: Sequence[Any]) -> list[int]:
        return [zlib.crc32(bytes_of(self._torch, one)) for one in weights]


def bytes_of(torch: Any, tensor: Any) -> Any:
    """Return the bytes of a tensor in main memory, as an array."""
    return tensor.detach().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy()
