"""How values look as the last line of a notebook's cell."""

from __future__ import annotations

from typing import Any


def show_text(value: object, printer: Any, cycle: bool) -> None:
    """Write what ``print`` shows; a class takes it as its ``_repr_pretty_``, for IPython.

    IPython looks for the method in the class that has a ``__repr__``, so inheriting it from a base
    is not enough for a dataclass. ``printer`` is IPython's, ``cycle`` whether a value holds itself.
    """
    for place, line in enumerate(str(value).splitlines()):
        if place:
            printer.break_()
        printer.text(line)
