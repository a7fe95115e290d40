"""What ``tune_shapes`` found: a callable for all shapes of a set."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.errors import WorkloadError
from schedlang.files import as_path
from schedlang.measurement import describe_latency
from schedlang.printed import count_text, show_text
from schedlang.shapes import dispatch as trees, shape_file as stored
from schedlang.shapes.dispatch import mean_of
from schedlang.shapes.ranges import PointKernel, RangeKernels
from schedlang.targets import Target, as_target
from schedlang.targets.errors import BuildError
from schedlang.tvm import program
from schedlang.tvm.served_extents import fitting, with_served
from schedlang.workloads.construct import Template, assigned, key_of

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

_POINTS_SHOWN = 20
_Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class ShapeSet:
    """Kernels for many shapes of one program, and which shape takes which.

    Call it with the tensors of the program, in order, as a kernel: it looks at their shapes. Where
    shapes do not tell the extents apart, give these by name.

    Attributes
    ----------
    template: the function of extents.
    target: the machine.
    names: of the extents.
    points: single shapes, each with a program of its own.
    ranges: with kernels for any extents.
    failed: shapes and ranges that have no kernels, and why.
    measured: number of measurements of all shapes, those in the database included.
    seconds: wall time of the call.
    interrupted: whether Ctrl-C ended it.
    """

    template: Template = field(repr=False)
    target: Target
    names: tuple[str, ...]
    points: tuple[PointKernel, ...]
    ranges: tuple[RangeKernels, ...]
    failed: Mapping[str, str]
    measured: int
    seconds: float
    interrupted: bool = False

    def find(self, extents: Mapping[str, Any]) -> Any:
        """Return the compiled function that serves a shape; None without one, as ``jit`` asks.

        Other parameters of the template than the extents must have their defaults.
        """
        own = {name: extents[name] for name in self.names if name in extents}
        others = {name: value for name, value in extents.items() if name not in own}
        parameters = inspect.signature(self.template.function).parameters
        usual = {name: parameters[name].default for name in others if name in parameters}
        if len(own) < len(self.names) or key_of(others) != key_of(usual):
            return None
        try:
            return self.kernel(**own)
        except (WorkloadError, BuildError):
            return None

    def serving(self, **extents: int) -> PointKernel | RangeKernels:
        """Return what serves a shape: its own program, or the kernels of its range.

        ``WorkloadError`` that names the ranges for another shape; TypeError for other names.
        """
        if set(extents) != set(self.names):
            raise TypeError(
                f"give the extents {', '.join(self.names)}, and not {assigned(extents)}"
            )
        key = tuple(extents[name] for name in self.names)
        if key in self._by_extents:
            return self._by_extents[key]
        for one in self.ranges:
            if extents in one.range:
                return one
        raise WorkloadError(
            f"{self.template.name}: no kernel was made for {assigned(extents)}",
            f"it serves {self.served}",
        )

    def kernel(self, **extents: int) -> Any:
        """Return the compiled function that serves a shape; it is compiled once."""
        return self._built(self._checked(self.serving(**extents), extents))

    def __call__(self, *tensors: Any, **extents: int) -> None:
        """Run the program on tensors: it writes its outputs in place, as kernels do."""
        shapes = tuple([tuple(one.shape) for one in tensors])
        if extents:
            self._named(shapes, extents)(*tensors)
            return
        entry = self._entries.get(shapes)
        if entry is None:
            entry = self._built(self._of_shapes(shapes))
            self._entries[shapes] = entry
        entry(*tensors)

    def _named(self, shapes: _Shapes, extents: Mapping[str, int]) -> Any:
        """Return the kernel for extents given by name, which the shapes have to fit."""
        found = self.serving(**extents)
        if isinstance(found, RangeKernels) and not found.served.fits(shapes, extents):
            raise WorkloadError(
                f"{self.template.name}: tensors of the shapes {', '.join(map(str, shapes))} are "
                f"not those of {assigned(extents)}"
            )
        return self.kernel(**extents)

    def _of_shapes(self, shapes: _Shapes) -> PointKernel | RangeKernels:
        every: list[PointKernel | RangeKernels] = [*self.points, *self.ranges]
        found = fitting([one.served for one in every], shapes)
        ways = [dict(zip(self.names, key, strict=True)) for key in found]
        if len(found) > 1:
            raise WorkloadError(
                f"{self.template.name}: tensors of these shapes fit several extents: "
                f"{'; '.join(map(assigned, ways))}",
                "give the extents by name",
            )
        if not found:
            raise WorkloadError(
                f"{self.template.name}: no kernel was made for tensors of the shapes "
                f"{', '.join(map(str, shapes))}",
                f"it serves {self.served}",
            )
        return self._checked(every[next(iter(found.values()))], ways[0])

    def _checked(
        self, found: PointKernel | RangeKernels, extents: Mapping[str, int]
    ) -> PointKernel | RangeKernels:
        """Refuse a shape for which the template makes another program than the range's."""
        key = tuple(extents[name] for name in self.names)
        if not isinstance(found, RangeKernels) or key in self._seen:
            return found
        if not found.program.is_program_of(extents, self.template.make(extents).mod):
            raise WorkloadError(
                f"{self.template.name}({assigned(extents)}) is not the program that those of other "
                f"extents in {found.range} lead to",
                "give this shape as a single one",
            )
        self._seen.add(key)
        return found

    @property
    def served(self) -> str:
        """The shapes and ranges that it serves, as text."""
        points = [assigned(one.extents) for one in self.points]
        if len(points) > _POINTS_SHOWN:
            points = [*points[:_POINTS_SHOWN], f"{len(points) - _POINTS_SHOWN} more"]
        return "; ".join([*(str(one.range) for one in self.ranges), *points])

    @cached_property
    def _by_extents(self) -> dict[tuple[int, ...], PointKernel]:
        return {tuple(one.extents.values()): one for one in self.points}

    @cached_property
    def _seen(self) -> set[tuple[int, ...]]:
        return set()

    @cached_property
    def _entries(self) -> dict[tuple[tuple[int, ...], ...], Any]:
        return {}

    @cached_property
    def _compiled(self) -> dict[int, Any]:
        return {}

    def _built(self, one: PointKernel | RangeKernels) -> Any:
        if id(one) not in self._compiled:
            self._compiled[id(one)] = self.target.build(one.mod).main
        return self._compiled[id(one)]

    # -- keeping and shipping ----------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write traces, trees and figures into a file in JSON, which ``ShapeSet.load`` reads.

        The file is complete at any moment.
        """
        written = stored.document(
            self.template, self.target.key, self.names, self.points, self.ranges
        )
        return stored.write(as_path(path), written)

    @classmethod
    def load(
        cls,
        path: str | Path,
        template: Callable[..., Any],
        target: Target | str = "cpu",
    ) -> ShapeSet:
        """Read what ``save`` wrote; nothing is measured, and no code of the file is run.

        ``TraceFormatError`` for a file that is damaged or was changed; ``WorkloadError`` where the
        template makes other programs than those that were tuned, ``TargetError`` for another kind
        of machine.
        """
        machine = as_target(target)
        made = Template(template)
        names, points, ranges = stored.read(as_path(path), made, machine.key)
        return cls(made, machine, names, points, ranges, {}, 0, 0.0)

    @property
    def mod(self) -> TensorProgram:
        """All programs as one module: a function for each single shape, and for each range."""
        name = self.template.name
        named: list[tuple[str, PointKernel | RangeKernels]] = [
            (_named(name, one.extents), one) for one in self.points
        ]
        named += [(f"{name}_range_{number}", one) for number, one in enumerate(self.ranges)]
        functions = {key: with_served(one.mod[program.MAIN], one.served) for key, one in named}
        if len(functions) < len(named):
            raise WorkloadError(
                f"{name}: the functions of a range and of a single shape have one name",
                "call no extent range",
            )
        return program.module_of(functions)

    def export_library(self, path: str | Path) -> Path:
        """Compile all programs into a shared library; ``sl.load`` reads it.

        What it returns takes the tensors of any shape that the set serves. A function for each
        single shape is called after its extents, such as ``dense_rows_64``, and one for each range
        ``dense_range_0``: it compares extents itself. Raises what ``Target.export_library`` raises.
        """
        return self.target.export_library(self.mod, path)

    def export_c(
        self, path: str | Path, *, name: str | None = None, compiler: str | None = None
    ) -> Path:
        """Compile all programs into a library for C that needs no TVM, with its header beside it.

        Its function ``name_tensors`` takes tensors of any shape that the set serves. The function
        of a range takes the extents that vary before the tensors. See ``Target.export_c``.
        """
        return self.target.export_c(self.mod, path, name=name, compiler=compiler)

    def as_python(self) -> str:
        """Return the choice of kernels as Python: a function for each range."""
        parts = []
        for number, one in enumerate(self.ranges):
            names = [name for name in self.names if name in one.range.varying]
            parts.append(
                f"def {self.template.name}_range_{number}({', '.join(names)}):\n"
                f'    """{one.range}"""\n{trees.as_python(one.tree)}'
            )
        return "\n\n".join(parts)

    # -- what people look at -----------------------------------------------------------------------

    _repr_pretty_ = show_text

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        tuned = sum(one.origin == "tuned" for one in self.points)
        what = [
            count_text(len(found), noun)
            for found, noun in ((self.points, "shape"), (self.ranges, "range"))
            if found
        ]
        yield (
            f"{self.template.name} on {self.target.key}: {', '.join(what)}; "
            f"{self.measured} measurements in {self.seconds:.0f} s"
            + ("; interrupted" if self.interrupted else "")
        )
        if self.points:
            yield f"  {tuned} tuned, the others carried over"
        for one in self.points[:_POINTS_SHOWN]:
            latency = "not measured" if math.isnan(one.latency) else describe_latency(one.latency)
            yield f"  {assigned(one.extents)}: {latency} ({one.origin}, {one.trials} trials)"
        if len(self.points) > _POINTS_SHOWN:
            yield f"  and {len(self.points) - _POINTS_SHOWN} more"
        for found in self.ranges:
            yield (
                f"  {found.range}: expected loss {found.loss - 1:.1%}, worst of "
                f"{len(found.samples)} measured shapes {found.losses.max() - 1:.1%}; left out of "
                f"measuring, a shape loses {mean_of(found.regret) - 1:.1%}, at worst "
                f"{found.regret.max() - 1:.1%}; verified at {len(found.verified)} shapes"
            )
            yield from _regions(found)
        for where, why in self.failed.items():
            yield f"  failed: {where}: {why}"


def _regions(found: RangeKernels) -> Iterator[str]:
    """Yield a line for each region, and one for all kernels of single shapes."""
    alone = [kernel.extents for _, kernel, _ in found.regions() if kernel.alone]
    if alone:
        [name] = found.range.varying
        values = sorted(one[name] for one in alone)
        yield f"    {name}={values[0]} to {values[-1]}: {len(values)} kernels, each for one value"
    for bounds, kernel, loss in found.regions():
        if kernel.alone:
            continue
        where = ", ".join(
            f"{name}={low}" if low == high else f"{name}={low} to {high}"
            for name, (low, high) in bounds.items()
            if name in found.range.varying
        )
        known = "no shape of it was measured" if math.isnan(loss) else f"loss {loss - 1:.1%}"
        yield f"    {where}: {kernel.origin} ({known})"


def _named(name: str, extents: Mapping[str, int]) -> str:
    return "_".join([name, *(f"{key}_{value}" for key, value in extents.items())])
