"""The kinds of targets there are, by name: a new kind is a line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError
from schedlang.printed import nearest

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
"""The kinds by name."""


def load(kind: str) -> Any:
    """Return the class of a kind, a subclass of ``Target``."""
    return getattr(import_module(KINDS[kind].module), KINDS[kind].target.partition(":")[2])


def package(kind: str) -> ModuleType:
    """Return the package that the class of a kind is in: ``schedlang.targets.<kind>``."""
    return import_module(KINDS[kind].module.rpartition(".")[0])


def classes() -> list[Any]:
    """Return the classes of all kinds."""
    return [load(kind) for kind in KINDS]


def all_names() -> tuple[str, ...]:
    """Return the names of all targets, by kind."""
    return tuple(name for kind in KINDS for name in dict.fromkeys((kind, *load(kind).names())))


def class_of(name: str) -> Any:
    """Return the class of the kind that has a target called ``name``.

    A kind's own name is in the table; for others, each kind is asked for its names.
    """
    if not isinstance(name, str):
        raise TargetError(f"{name!r} ({type(name).__name__}) is not the name of a target")
    if name in KINDS:
        return load(name)
    for cls in map(load, KINDS):
        if is_among(name, cls.names()):
            return cls
    raise unknown_target(name)


def class_of_key(key: str) -> Any:
    """Return the class of the kind that stores records under ``key``.

    A key begins with a kind, as in ``"cuda/sm_80"``, or with the name of a target, as in
    ``"x86/avx2@skylake/cores=4"``.
    """
    kind = key.partition("/")[0]
    if kind in KINDS:
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
    made: CodeGenerator = load(spec["kind"]).code_generator(spec)
    return made


def _kind_called(word: str) -> str:
    """Return the kind that others call ``word``; empty if there is none."""
    word = word.lower()
    return next((k for k, one in KINDS.items() if word in (k, *one.other_names)), "")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
