"""The kinds of targets there are, by name.

A new kind of ours is a line here. A user's is made known by ``register``, or by a package that is
installed with an entry point in the group ``schedlang.targets``: ``dsp = "package.module:Class"``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError
from schedlang.printed import nearest, not_among

if TYPE_CHECKING:
    from schedlang.tvm.codegen import CodeGenerator


@dataclass(frozen=True)
class Kind:
    """A kind of machine.

    Attributes
    ----------
    target: where its class is, as ``"module:Class"``; it is imported when it is needed.
    other_names: what others call the kind, TVM for one, in lower case.
    number: the argument that numbers machines of the kind, where others write ``"cuda:1"``; empty
        if there is none.
    options: arguments of its class, as an error message shows them.
    """

    target: str
    other_names: tuple[str, ...] = ()
    number: str = ""
    options: str = "..."

    @property
    def module(self) -> str:
        """Name of the module that the class is in."""
        return self.target.partition(":")[0]


KINDS = {
    "cpu": Kind(
        "schedlang.targets.cpu.target:CPUTarget",
        ("llvm", "host", "native"),
        options="cores=4, mcpu=...",
    ),
    "cuda": Kind(
        "schedlang.targets.cuda.target:CUDATarget",
        ("gpu", "nvidia"),
        number="device",
        options='arch="sm_90"',
    ),
}
"""The kinds by name; ``known`` also has those of installed packages."""

_GROUP = "schedlang.targets"


def register(name: str, target: Any, *, other_names: Iterable[str] = ()) -> None:
    """Make a kind of target of your own known by name, for ``sl.Target(name)``, ``tune`` and all.

    Parameters
    ----------
    name: of the kind: an identifier in lower case, which is the ``kind`` of the class, and with
        which the keys of its targets begin.
    target: a subclass of ``schedlang.Target``, or where it is: ``"package.module:Class"``. Workers
        of other processes import it from there.
    other_names: what others call the kind, for the hint where a name is unknown.

    TargetError for a name that is none or is taken, and for a class that is no such subclass. To
    register the same class again changes nothing.
    """
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise TargetError(f"register({name!r}, ...): give an identifier in lower case as the name")
    place = f"{target.__module__}:{target.__qualname__}" if isinstance(target, type) else target
    if not isinstance(place, str) or not all(place.partition(":")):
        raise TargetError(
            f"register({name!r}, {target!r}): give a subclass of schedlang.Target, or "
            '"package.module:Class"'
        )
    taken = _kind_called(name)
    if taken and KINDS[taken].target != place:
        raise TargetError(
            f"register({name!r}, ...): {KINDS[taken].target} is called so already; give another "
            "name"
        )
    if isinstance(target, type):
        _check_class(name, target)
    KINDS[name] = Kind(place, tuple(other_names))


@cache
def _read_entry_points() -> None:
    for point in entry_points(group=_GROUP):
        register(point.name, point.value)


def known() -> Mapping[str, Kind]:
    """Return the kinds by name, with those of installed packages."""
    _read_entry_points()
    return KINDS


def _check_class(name: str, found: Any) -> None:
    # Compared by name: importing the class needs TVM.
    if f"{_GROUP}.target:Target" not in {
        f"{one.__module__}:{one.__qualname__}" for one in getattr(found, "__mro__", ())
    }:
        raise TargetError(f"target kind {name!r}: {found!r} is no subclass of schedlang.Target")
    if getattr(found, "kind", None) != name:
        raise TargetError(
            f"target kind {name!r}: {found.__name__}.kind is {getattr(found, 'kind', None)!r}; set "
            f'kind: str = field(default="{name}", init=False)'
        )


def load(kind: str) -> Any:
    """Return the class of a kind, a subclass of ``Target``; TargetError where it is none."""
    module, _, name = KINDS[kind].target.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise TargetError(
            f"target kind {kind!r}: {KINDS[kind].target} cannot be imported: {error}"
        ) from error
    if not module.startswith("schedlang."):
        _check_class(kind, found)
    return found


def package(kind: str) -> ModuleType:
    """Return the package that the class of a kind is in: ``schedlang.targets.<kind>``."""
    return import_module(KINDS[kind].module.rpartition(".")[0])


def classes() -> list[Any]:
    """Return the classes of all kinds."""
    return [load(kind) for kind in known()]


def all_names() -> tuple[str, ...]:
    """Return the names of all targets, by kind."""
    return tuple(name for kind in known() for name in dict.fromkeys((kind, *load(kind).names())))


def class_of(name: str) -> Any:
    """Return the class of the kind that has a target called ``name``.

    A kind's own name is in the table; for others, each kind is asked for its names.
    """
    if not isinstance(name, str):
        raise TargetError(f"{name!r} ({type(name).__name__}) is not the name of a target")
    if name in KINDS or name in known():
        return load(name)
    for cls in map(load, KINDS):
        if is_among(name, cls.names()):
            return cls
    raise unknown_target(name)


def check_options(made: Any, name: str, options: Iterable[str]) -> None:
    """Raise TargetError for an option that targets of the class ``made`` do not take."""
    if not options:
        return
    parameters = inspect.signature(made).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            said = f"target {name!r} has no option {option!r}"
            raise TargetError(not_among(said, option, list(parameters)[1:]))


def class_of_key(key: str) -> Any:
    """Return the class of the kind that stores records under ``key``.

    A key begins with a kind, as in ``"cuda/sm_80"``, or with the name of a target, as in
    ``"x86/avx2@skylake/cores=4"``.
    """
    kind = key.partition("/")[0]
    if kind in KINDS or kind in known():
        return load(kind)
    return class_of("/".join(key.partition("@")[0].split("/")[:2]))


def is_among(name: str, names: Iterable[str]) -> bool:
    """Tell whether one of ``names`` is called ``name``: in full, or by what follows its slash."""
    return any(name in (full, full.partition("/")[2] or full) for full in names)


def full_name(name: str, names: Iterable[str]) -> str:
    """Complete a name: ``"avx2" -> "x86/avx2"``; TargetError lists all names and the nearest."""
    for full in names:
        if is_among(name, (full,)):
            return full
    raise unknown_target(name)


def unknown_target(name: str, names: Iterable[str] = ()) -> TargetError:
    """Return the error for a name that no target has: it lists the names, and the nearest one.

    ``names`` are those of all targets; by default their classes are asked, which imports them.
    """
    names = tuple(names) or all_names()
    word, _, number = name.strip().partition(":")
    kind = _kind_called(word)
    if kind and KINDS[kind].number and number.isdecimal():
        hint = f"did you mean Target({kind!r}, {KINDS[kind].number}={int(number)})? Known"
        return TargetError(f"unknown target {name!r}; {hint}: {', '.join(names)}")
    word, _, options = name.strip().partition(" ")
    if kind := _kind_called(word):
        given = f", with options as arguments: Target({kind!r}, {KINDS[kind].options})"
        hint = f"did you mean {kind!r}{given if options else ''}? Known"
        return TargetError(f"unknown target {name!r}; {hint}: {', '.join(names)}")
    # Users write avx512-vnni, AVX512VNNI, arm/sve: compare without separators and case.
    known = {
        _plain(text): full
        for full in names
        if "/" in full
        for text in (full.partition("/")[2], full)
    }
    hint = nearest(_plain(name), known, lambda near: repr(known[near]))
    heading = f"{hint} Known" if hint else "; known"
    return TargetError(f"unknown target {name!r}{heading}: {', '.join(names)}")


def code_generator(spec: Mapping[str, Any]) -> CodeGenerator:
    """Make, in any process, the code generator that the ``spec()`` of a target describes."""
    if spec["kind"] not in KINDS and "class" in spec:
        register(spec["kind"], spec["class"])
    made: CodeGenerator = load(spec["kind"]).code_generator(spec)
    return made


def _kind_called(word: str) -> str:
    """Return the kind that others call ``word``; empty if there is none."""
    word = word.lower()
    return next((k for k, one in KINDS.items() if word in (k, *one.other_names)), "")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


# -- Checks of the numbers that users give a target -----------------------------------------------


def check_count(name: str, key: str, number: float) -> None:
    """Raise TargetError unless the number ``key`` of the target ``name`` is a count, from 1 on."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise TargetError(f"target {name!r}: {key}={number!r}; give a whole number, 1 or more")


def check_rate(name: str, key: str, number: float) -> None:
    """Raise TargetError unless the number ``key`` of the target ``name`` is a rate, above 0."""
    if not isinstance(number, int | float) or not number > 0:
        raise TargetError(f"target {name!r}: {key}={number!r}; give more than 0")
