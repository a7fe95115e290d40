"""How values look as the last line of a notebook's cell."""

from __future__ import annotations

from typing import Any


class Printed:
    """A base of values that IPython and notebooks show as ``print`` does, not as their fields."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Write the value's text; ``printer`` is IPython's, ``cycle`` whether it holds itself."""
        for place, line in enumerate(str(self).splitlines()):
            if place:
                printer.break_()
            printer.text(line)
