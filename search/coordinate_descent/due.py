"""When the models of a descent learn again."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.search.proposals import Told

# Outcomes before a model first learns; it learns again whenever there are a 32nd more.
_ENOUGH = 12
_MORE = 32


class Due:
    """Says which outcomes a model learns, and when: by their number, whatever the batches were."""

    def __init__(self) -> None:
        self._learned = 0
        self._next = _ENOUGH

    def new(self, told: Sequence[Told]) -> Sequence[Told]:
        """Return the outcomes to learn now, none if it is not due; they count as learned then."""
        learned = self._learned
        while len(told) >= self._next:
            learned = self._next
            self._next += max(1, self._next // _MORE)
        new = told[self._learned : learned]
        self._learned = learned
        return new
