"""Attacks: wrong programs that a measurer must refuse, and right ones that look odd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tvm.ir import IRModule

from schedlang.measurement import Status
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Workload
from tests.targets.programs import from_body

Change = Callable[[str], str]

WRONG = frozenset({Status.WRONG_RESULT})
# What a program ends with that reads or writes where it must not: where the memory beyond is not
# mapped it crashes, and elsewhere the bytes around the tensors have changed.
OUTSIDE = frozenset({Status.WRONG_RESULT, Status.CRASHED})


@dataclass(frozen=True)
class Attack:
    """One program.

    Attributes
    ----------
    name: what is odd about it.
    kind: the class of mistakes that it stands for; ``right`` for a right program.
    changes: make its body of the subject's, in this order.
    caught: the statuses that refuse it; none for a right program. ``ok`` is among them where it
        may pass, and only the programs behind it must not profit.
    finals: a single call may be right: it must be refused at the latest as a finalist, which is
        called many times.
    threads: number of threads without which it is right.
    """

    name: str
    kind: str
    changes: tuple[Change, ...]
    caught: frozenset[Status] = frozenset()
    finals: bool = False
    threads: int = 1

    @property
    def right(self) -> bool:
        """Whether it computes what it should."""
        return not self.caught


@dataclass(frozen=True)
class Subject:
    """A workload and the programs that claim to compute it.

    Attributes
    ----------
    name: of the workload.
    signature, body: its program, in TVMScript.
    attacks: the programs.
    followers: wrong programs that run behind each of them, in its process where that survives; none
        where the attacks harm nothing but their own results.
    behind: the workload of the followers, of which nothing is known before an attack; by default
        this one.
    """

    name: str
    signature: str
    body: str
    attacks: tuple[Attack, ...]
    followers: tuple[Attack, ...] = ()
    behind: Subject | None = None

    @cached_property
    def workload(self) -> Workload:
        """The program before scheduling."""
        return from_prim_func(from_body(self.body, self.signature)["main"], name=self.name)

    def program(self, attack: Attack) -> IRModule:
        """Return the program of one of its attacks."""
        body = self.body
        for change in attack.changes:
            body = change(body)
        return from_body(body, self.signature)


def tensors(**given: tuple[str, *tuple[int, ...]]) -> str:
    """Return a signature: ``tensors(x=("float32", 8, 8))``."""
    return ", ".join(
        f'{name}: T.Buffer({tuple(shape)!r}, "{dtype}")' for name, (dtype, *shape) in given.items()
    )


def edit(old: str, new: str) -> Change:
    """Replace a part of the body, wherever it occurs."""

    def change(body: str) -> str:
        if old not in body:
            raise ValueError(f"the program has no {old!r}")
        return body.replace(old, new)

    return change


def body(text: str) -> Change:
    """Write another body."""
    return lambda _: text


def append(text: str) -> Change:
    """Add lines at the end."""
    return lambda known: f"{known.rstrip()}\n{text.strip(chr(10))}\n"


def prepend(text: str) -> Change:
    """Add lines in front of the loops."""
    return lambda known: f"{text.strip(chr(10))}\n{known.lstrip(chr(10))}"


def wrong(
    name: str,
    kind: str,
    *changes: Change,
    caught: frozenset[Status] = WRONG,
    finals: bool = False,
    threads: int = 1,
) -> Attack:
    """A program that must be refused."""
    return Attack(name, kind, changes, caught, finals, threads)


def right(name: str, *changes: Change) -> Attack:
    """A program that must be accepted."""
    return Attack(name, "right", changes)
