"""Functions that look at the shapes of tensors: those of ranges, and those that call others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.targets.deployment.c.entry import Entry, c_string
from schedlang.tvm.symbolic import Served
from schedlang.tvm.symbolic.fitting import Formula


@dataclass(frozen=True)
class Dispatch:
    """A function that calls one of several entries by the shapes of its tensors.

    Attributes
    ----------
    library: its name, of which the function's name is made.
    entries: that it calls: a network's sizes, which it takes by the shapes of the inputs, or the
        functions of a set of shapes.
    """

    library: str
    entries: Sequence[Entry]

    @property
    def name(self) -> str:
        """The name of the function in C."""
        return f"{self.library}_tensors"

    @property
    def prototype(self) -> str:
        """Its declaration, without the semicolon."""
        return f"int {self.name}(const schedlang_tensor *const *tensors, int count)"

    @property
    def documented(self) -> str:
        """Its declaration, with a comment."""
        names = ", ".join(one.name for one in self.entries)
        which = "tensors" if self._of_ranges else "inputs"
        several = ", or several have" if self._of_ranges else " has"
        return (
            f"/* Calls the one of these functions that has the shapes of the {which}:\n"
            f" * {names}.\n * SCHEDLANG_SHAPE where none{several}. */\n{self.prototype};\n\n"
        )

    @property
    def defined(self) -> str:
        """Its definition, behind those of the entries."""
        kind, call = ("range", "ranges") if self._of_ranges else ("function", "sizes")
        listed = ", ".join(f"&schedlang_{number}_{kind}" for number in range(len(self.entries)))
        known = ", ".join(one.name for one in self.entries)
        return (
            f"\nstatic const schedlang_{kind} *const schedlang_choices[] = {{{listed}}};\n\n"
            f"SCHEDLANG_ENTRY {self.prototype} {{\n"
            f"  return schedlang_call_{call}_1({c_string(self.library)}, schedlang_choices, "
            f"{len(self.entries)},\n    {c_string(known)}, tensors, count);\n}}\n"
        )

    @property
    def _of_ranges(self) -> bool:
        return all(one.signature.served is not None for one in self.entries)


def range_defined(own: str, served: Served) -> str:
    """Return the definition of a function's range; ``own`` precedes the names of its parts."""
    rows = []
    for name, (low, high) in served.bounds.items():
        reading = served.readings.get(name)
        place = "-1, 0, 0"
        if reading is not None:
            place = f"{reading.argument}, {reading.axis}, {reading.more}"
        rows.append(f"    {{{c_string(name)}, {low}, {high}, {place}}},\n")
    text = f"static const schedlang_extent {own}_extents[] = {{\n{''.join(rows)}}};\n"
    shapes = "NULL"
    axes = [formula for shape in served.shapes for formula in shape]
    if any(not formula.is_constant for formula in axes):
        shapes = f"{own}_shapes"
        places = {name: f"extents[{at}]" for at, name in enumerate(served.bounds)}
        lines = [f"  sizes[{at}] = {_in_c(one, places)};\n" for at, one in enumerate(axes)]
        text += f"static void {shapes}(const int64_t *extents, int64_t *sizes) {{\n"
        text += f"{''.join(lines)}}}\n"
    counts = f"{len(served.bounds)}, {len(axes)}"
    text += f"static const schedlang_range {own}_range = {{\n    &{own}_function, "
    return text + f"{c_string(str(served))}, {counts}, {own}_extents, {shapes}}};\n\n"


def _in_c(formula: Formula, places: dict[str, str]) -> str:
    """Write a formula in C, whose dividend is never negative."""
    terms = [
        " * ".join([f"INT64_C({coefficient})", *(places[name] for name in names)])
        for names, coefficient in formula.terms
    ]
    return f"({' + '.join(terms) or '0'}) / {formula.divisor}"
