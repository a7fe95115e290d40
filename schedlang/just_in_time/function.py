"""``JitFunction``: what ``sl.jit`` makes of a template."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedlang.announcing import LOGGER
from schedlang.just_in_time.cache_folder import CacheFolder
from schedlang.just_in_time.choices import Chooser, Origin
from schedlang.just_in_time.forms import Forms
from schedlang.just_in_time.probing import probe
from schedlang.just_in_time.signature import SignedTemplate
from schedlang.just_in_time.tensors import Call, check, shape_of, with_outputs, with_shapes
from schedlang.measurement import describe_latency
from schedlang.once import OncePerKey
from schedlang.printed import first_line, show_text
from schedlang.targets.errors import BuildError
from schedlang.workloads.template import assigned, key_of


@dataclass(frozen=True)
class _Kernel:
    """A compiled function for some values of the template's parameters."""

    values: Mapping[str, Any]
    function: Call
    origin: Origin


@dataclass(frozen=True)
class _Known:
    """What a function has found out in this process.

    Attributes
    ----------
    calls: what to run for tensors of some shapes and types, and values given by keyword.
    forms: of the template's shapes, by the values that are fixed.
    kernels: by the values of all parameters.
    """

    calls: dict[Hashable, Call] = field(default_factory=dict)
    forms: OncePerKey[Forms] = field(default_factory=OncePerKey)
    kernels: OncePerKey[_Kernel] = field(default_factory=OncePerKey)


class JitFunction:
    """A template as a function of tensors: ``sl.jit`` makes it.

    ``f(a, b, out)`` runs the kernel for the extents that the shapes tell; ``f(a, b)`` makes the
    outputs and returns them. Extents that no shape tells, and settings, are given by keyword. Takes
    what kernels take: numpy arrays, tensors of torch and TVM, and others with ``__dlpack__``.

    Raises TypeError and ValueError for tensors and keywords that do not fit, ``TemplateError``
    where the template fails, ``DatabaseError`` where the database cannot be read, and
    ``BuildError`` where TVM can compile no form of the program.
    """

    def __init__(self, template: SignedTemplate, chooser: Chooser, folder: CacheFolder) -> None:
        self._template = template
        self._chooser = chooser
        self._folder = folder
        self._known = _Known()
        functools.update_wrapper(self, template.function)

    def __call__(self, /, *tensors: Any, **given: Any) -> Any:
        """Run the kernel for these tensors; return the outputs where they are not passed."""
        try:
            key: Hashable = tuple([(one.shape, one.dtype) for one in tensors])
            if given:
                key = (key, key_of(given))
            run = self._known.calls.get(key)
        except (AttributeError, TypeError):  # a tensor without a shape, or what is no tensor
            run = None
        return self._first_call(tensors, given) if run is None else run(*tensors)

    def kernel(self, /, **extents: Any) -> Call:
        """Return the compiled function for these extents and settings: it takes all tensors."""
        return self._kernel(self._known, self._complete(extents)).function

    def __getitem__(self, extents: object) -> Call:
        """Return the compiled function, as ``kernel`` does: ``f[{"rows": 64}]``."""
        if not isinstance(extents, Mapping):
            example = ", ".join(f"{name!r}: 64" for name in self._template.extents)
            raise TypeError(
                f"{self._template.name}[...] takes a dict of extents, such as {{{example}}}; got "
                f"{extents!r}"
            )
        return self.kernel(**extents)

    def explain(self, /, **extents: Any) -> str:
        """Say where the kernel for these extents comes from, or would; nothing is tuned for it."""
        values = self._complete(extents)
        kernel = self._known.kernels.find(key_of(values))
        if kernel is not None:
            return str(kernel.origin)
        return str(self._chooser.foreseen(self._template(values), values))

    def refresh(self) -> None:
        """Forget all kernels of this process: the next calls look into the database again."""
        self._known = _Known()

    def clear_cache(self) -> int:
        """Remove this function's files from the cache folder; return their number.

        Kernels that processes have loaded stay with them.
        """
        return self._folder.clear()

    def _complete(self, extents: Mapping[str, Any]) -> dict[str, Any]:
        values = self._template.bind(extents)
        missing = [name for name in self._template.extents if name not in values]
        if missing:
            raise TypeError(
                f"{self._template.name} needs a value for {', '.join(missing)}: there are no "
                "tensors here whose shapes would tell"
            )
        return values

    # -- the first call with some shapes -------------------------------------------------------

    def _first_call(self, tensors: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
        known, template = self._known, self._template
        shaped = with_shapes(tensors)
        fixed = template.bind(given)
        key: Hashable = tuple([(one.shape, one.dtype) for one in shaped])
        if given:
            key = (key, key_of(given))
        run = known.calls.get(key)
        if run is None:
            forms = known.forms.get(key_of(fixed), lambda: probe(template, fixed))
            places = forms.places(len(shaped))
            values = template.ordered(
                {**fixed, **forms.solve(places, [shape_of(one) for one in shaped])}
            )
            workload = template(values)
            arguments = [workload.args[place] for place in places]
            check(shaped, arguments, template.call(values))
            kernel = self._kernel(known, values)
            run = with_outputs(kernel.function, workload.args, places, shaped)
            known.calls[key] = run
        return run(*shaped)

    def _kernel(self, known: _Known, values: Mapping[str, Any]) -> _Kernel:
        return known.kernels.get(key_of(values), lambda: self._built(values))

    def _built(self, values: Mapping[str, Any]) -> _Kernel:
        failed: BuildError | None = None
        for choice in self._chooser.choices(self._template(values), values):
            try:
                function = choice.build()
            except BuildError as error:
                failed = error
                reason = first_line(error)
                call = self._template.call(values)
                LOGGER.warning("%s", f"{call}: {choice.origin.text}: cannot be compiled: {reason}")
                continue
            LOGGER.info("%s", f"{self._template.call(values)}: {choice.origin}")
            return _Kernel(values, function, choice.origin)
        assert failed is not None
        raise failed

    # -- how it looks --------------------------------------------------------------------------

    def __reduce__(self) -> str:
        # By its name, as a function is pickled: kernels and locks stay in their process.
        return str(getattr(self, "__qualname__", self._template.name))

    def __repr__(self) -> str:
        """Write its kernels with their extents, origins and latencies, one a line."""
        kernels = list(self._known.kernels)
        head = f"<jit {self._template.name} on {self._chooser.target.key}, {len(kernels)} "
        head += "kernel>" if len(kernels) == 1 else "kernels>"
        rows = [("extents", "origin", "latency")]
        for one in kernels:
            latency = one.origin.latency
            shown = "" if latency is None else describe_latency(latency)
            rows.append((assigned(one.values), one.origin.text, shown))
        if not kernels:
            return head
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([head, *(f"  {line}" for line in lines)])

    _repr_pretty_ = show_text
