"""What a library looks like in C: its header, and the source of its entries.

Entries that look at the shapes of tensors, and then call one of several functions or none, are in
the second part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from schedlang.targets.deployment.c_functions import (
    NUMBERS,
    Entry,
    c_string,
    declared_code,
    parameter_names,
)
from schedlang.tvm.codegen.compiler import element_type
from schedlang.tvm.served_extents import Served
from schedlang.tvm.symbolic_program import Formula

# -- Header and source ----------------------------------------------------------------------------

MADE = "/* Made by schedlang"
"""How headers begin."""


def header(
    name: str, made_for: str, found: Sequence[Entry], dispatch: Dispatch | None = None
) -> str:
    """Return the header of a library; programs may include those of several."""
    guard = f"SCHEDLANG_LIBRARY_{name.upper()}_H"
    shared = files(__package__).joinpath("schedlang.h").read_text(encoding="utf-8")
    return (
        f"{MADE} for {made_for}. {name} needs no TVM. */\n"
        f"#ifndef {guard}\n#define {guard}\n\n{shared}\n"
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        f"{'' if dispatch is None else dispatch.documented}"
        f"{''.join(map(_documented, found))}"
        f"#ifdef __cplusplus\n}}\n#endif\n#endif /* {guard} */\n"
    )


def source(
    found: Sequence[Entry],
    threads: int,
    features: Iterable[str],
    sve_bits: int = 0,
    dispatch: Dispatch | None = None,
) -> str:
    """Return the C source of the entries. The code was tuned for this number of threads.

    ``features`` of the CPU and the width of SVE registers are what the code needs.
    """
    text = f'#include "kernel.h"\n#include "glue.h"\n\nSCHEDLANG_GLUE({threads})\n\n'
    text += f'#define FEATURES "{"".join(f"{one} " for one in features)}"\n'
    text += "static int schedlang_checked;\n"
    text += "".join(_defined(*one, sve_bits) for one in enumerate(found))
    return text if dispatch is None else text + dispatch.defined


def _documented(entry: Entry) -> str:
    lines = [f"/* {_comment(entry.signature.name)}, contiguous tensors in this order:"]
    lines += [f" *   {_comment(str(one))} ({one.role})" for one in entry.signature.parameters]
    if entry.signature.served is not None:
        lines.append(f" * for {_comment(str(entry.signature.served))}.")
    lines += [" * Returns SCHEDLANG_OK, or another status, whose reason schedlang_error() has. */"]
    text = "\n".join(lines) + f"\n{entry.prototype};\n"
    if entry.tensors_prototype:
        text += f"/* The same for {len(entry.signature.parameters)} tensors, whose types and shapes"
        text += f" are checked. */\n{entry.tensors_prototype};\n"
    return text + "\n"


def _defined(number: int, entry: Entry, sve_bits: int) -> str:
    own, parameters = f"schedlang_{number}", entry.signature.parameters
    extents, names = parameter_names(entry.signature)
    shapes, rows, values = [], [], []
    for place, (one, local) in enumerate(zip(parameters, names, strict=True)):
        code, bits, _ = element_type(one.dtype)
        size = bits // 8
        sizes = ", ".join("-1" if size is None else str(size) for size in one.shape or ())
        axes = -1 if one.shape is None else len(one.shape)
        shapes.append(f"static const int64_t {own}_shape_{place}[] = {{{sizes or '1'}}};\n")
        rows.append(
            f"    {{{c_string(str(one))}, {axes}, {code}, {bits}, {int(one.written)}, {size}, "
            f"{own}_shape_{place}, {one.bytes or 0}}},\n"
        )
        if one.shape is None:
            kind, member = NUMBERS[code]
            values.append(f"{{{kind}, 0, {{.{member} = {local}}}}}")
        else:
            values.append(f"{{SCHEDLANG_DLTENSOR, 0, {{.v_ptr = (void *){local}}}}}")
    text = "\n" + declared_code(f"{own}_code", entry.code) + "".join(shapes)
    text += f"static const schedlang_parameter {own}_parameters[] = {{\n{''.join(rows)}}};\n"
    text += f"static const schedlang_function {own}_function = {{\n"
    text += f'    "{entry.name}", {own}_code, {len(parameters)}, {own}_parameters,'
    text += f" FEATURES, {sve_bits}, &schedlang_checked}};\n\n"
    call, called = "schedlang_call", f"&{own}_function"
    served = entry.signature.served
    if served is not None:
        text += range_defined(own, served)
    if extents:
        call, called = "schedlang_call_range", f"&{own}_range"
    text += f"SCHEDLANG_ENTRY {entry.prototype} {{\n"
    text += f"  schedlang_any schedlang_arguments[] = {{{', '.join(values)}}};\n"
    if extents:
        assert served is not None
        given = iter(extents)
        each = [next(given) if low < high else str(low) for low, high in served.bounds.values()]
        text += f"  int64_t schedlang_extents[] = {{{', '.join(each)}}};\n"
        called += ", schedlang_extents"
    text += f"  return {call}_1({called}, schedlang_arguments);\n}}\n"
    if entry.tensors_prototype:
        text += f"\nSCHEDLANG_ENTRY {entry.tensors_prototype} {{\n"
        text += f"  return {call}_tensors_1({called.partition(',')[0]}, tensors, count);\n}}\n"
    return text


def _comment(text: str) -> str:
    return " ".join(text.replace("*", "* ").replace("/*", "/ *").split())


# -- Functions that look at the shapes of tensors -------------------------------------------------


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
