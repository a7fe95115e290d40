"""``jit``, the decorator, and ``JitFunction``: what it makes of a template."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from schedlang.database import Database
from schedlang.database.place import IN_MEMORY
from schedlang.just_in_time.kernel_cache import CacheFolder, KernelCache, default_root
from schedlang.just_in_time.kernel_choices import Chooser, FindsKernels, Origin
from schedlang.just_in_time.templates import Forms, SignedTemplate, probe
from schedlang.measurement import describe_latency
from schedlang.once import OncePerKey
from schedlang.printed import first_line, show_text
from schedlang.targets import Target, as_target
from schedlang.targets.deployment.signature import identifier
from schedlang.targets.deployment.tensor_arguments import (
    Call,
    check,
    parameter_of,
    shape_of,
    with_outputs,
    with_shapes,
)
from schedlang.targets.errors import BuildError
from schedlang.terminal import LOGGER
from schedlang.tuning.options import whole, wrong_seconds
from schedlang.workloads.construct import assigned, key_of

# -- The decorator --------------------------------------------------------------------------------

_NAME_LENGTH = 40


@overload
def jit(
    template: Callable[..., Any],
    /,
    *,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    shapes: FindsKernels | None = None,
    trials: int = 0,
    seconds: float | None = None,
    cache: str | os.PathLike[str] | bool | None = True,
) -> JitFunction: ...


@overload
def jit(
    *,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    shapes: FindsKernels | None = None,
    trials: int = 0,
    seconds: float | None = None,
    cache: str | os.PathLike[str] | bool | None = True,
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    template: Callable[..., Any] | None = None,
    /,
    *,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    shapes: FindsKernels | None = None,
    trials: int = 0,
    seconds: float | None = None,
    cache: str | os.PathLike[str] | bool | None = True,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Make a function of tensors of a template: a function of extents that returns a program.

    A call finds the extents from the tensors' shapes. The first call with new extents takes the
    best verified record of the database, else a kernel of ``shapes``, else it tunes if a budget is
    given, else it takes ``default_schedule``, which measures nothing. docs/jit.md has the rest.

    Parameters
    ----------
    template: returns what ``tune`` takes. Its parameters without a default are extents, the others
        are settings with a value of their own; both can be given by keyword.
    database: a path or a ``Database``: where records are, and where tuning puts them. A path
        without a file has no records.
    target: a ``Target`` or its name.
    shapes: an object with ``find(extents) -> callable or None``.
    trials: candidates to measure for new extents without a record; 0, the default, never tunes.
    seconds: wall time of tuning for new extents; None, the default, sets none.
    cache: the folder for compiled kernels; by default ``~/.cache/schedlang/jit``, or below
        ``$XDG_CACHE_HOME``. False or None keeps them in this process only.

    Raises TypeError for a template with ``*args``, ValueError for a budget without a database.
    """
    if reason := whole(0)(trials):
        raise ValueError(f"sl.jit: trials={trials!r}; {reason}")
    if seconds is not None and (reason := wrong_seconds(seconds)):
        raise ValueError(f"sl.jit: seconds={seconds!r}; {reason}")
    if (trials or seconds is not None) and database is None:
        raise ValueError(
            "sl.jit: trials= and seconds= need a database=, or each process would tune again"
        )
    if shapes is not None and not callable(getattr(shapes, "find", None)):
        raise TypeError(f"sl.jit: shapes={shapes!r} has no method find(extents)")
    place, name = _database(database)
    root = default_root() if cache is True else Path(os.path.abspath(cache)) if cache else None
    machine = as_target(target)

    def made(function: Callable[..., Any]) -> JitFunction:
        read = SignedTemplate(function)
        folder = CacheFolder(root, _folder_name(function, read.name))
        kept = KernelCache(folder, machine)
        chooser = Chooser(machine, place, name, shapes, trials, seconds, kept)
        return JitFunction(read, chooser, folder)

    return made if template is None else made(template)


def _database(
    given: Database | str | os.PathLike[str] | None,
) -> tuple[Database | Path | None, str]:
    """Return the database, its path made absolute, and its name for messages."""
    if given is None:
        return None, ""
    if isinstance(given, Database):
        return given, "the database" if given.path is None else str(given.path)
    if os.fspath(given) == IN_MEMORY:
        raise ValueError(
            f"sl.jit: database={IN_MEMORY!r} would keep nothing between calls; give a path, or a "
            "Database()"
        )
    return Path(os.path.abspath(given)), os.fspath(given)


def _folder_name(function: Callable[..., Any], name: str) -> str:
    place = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', name)}"
    digest = hashlib.sha256(place.encode()).hexdigest()[:8]
    return f"{identifier(name)[:_NAME_LENGTH]}-{digest}"


# -- The function that ``sl.jit`` makes -----------------------------------------------------------


@dataclass(frozen=True)
class _CompiledKernel:
    """A compiled function for some values of the template's parameters."""

    values: Mapping[str, Any]
    function: Call
    origin: Origin


@dataclass(frozen=True)
class _FoundOut:
    """What a function has found out in this process.

    Attributes
    ----------
    calls: what to run for tensors of some shapes and types, and values given by keyword.
    forms: of the template's shapes, by the values that are fixed.
    kernels: by the values of all parameters.
    """

    calls: dict[Hashable, Call] = field(default_factory=dict)
    forms: OncePerKey[Forms] = field(default_factory=OncePerKey)
    kernels: OncePerKey[_CompiledKernel] = field(default_factory=OncePerKey)


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
        self._known = _FoundOut()
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
        self._known = _FoundOut()

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
            check(shaped, [*map(parameter_of, arguments)], taker=template.call(values))
            kernel = self._kernel(known, values)
            run = with_outputs(kernel.function, workload.args, places, shaped)
            known.calls[key] = run
        return run(*shaped)

    def _kernel(self, known: _FoundOut, values: Mapping[str, Any]) -> _CompiledKernel:
        return known.kernels.get(key_of(values), lambda: self._built(values))

    def _built(self, values: Mapping[str, Any]) -> _CompiledKernel:
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
            return _CompiledKernel(values, function, choice.origin)
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
