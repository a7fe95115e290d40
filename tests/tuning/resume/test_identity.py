"""What makes two calls of ``tune`` the same."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import schedlang as sl
from schedlang.search import Evolutionary, Random
from schedlang.targets import TimingPolicy
from schedlang.tuning.identity import _Describer, identity

TILES = (8, 16)


def helper() -> tuple[int, ...]:
    return TILES


@sl.module
def tiled(sch: sl.Schedule, block: sl.BlockRV, *, bound: int = 4) -> None:
    helper()


def adder(number: int) -> Callable[[int], int]:
    return lambda other: number + other


class Maker:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def make(self, *args: Any) -> None: ...


class Listening(Random):
    """A strategy of a user's."""

    def ask(self, n: int) -> list[Any]:
        return super().ask(min(n, 4))


def test_equal_parts_have_equal_identities() -> None:
    parts: list[Callable[[], Any]] = [
        lambda: sl.default_space("cpu"),
        lambda: sl.Space([tiled(bound=8)]),
        lambda: adder(1),
        lambda: functools.partial(Evolutionary, sweeps=2),
        lambda: Maker(1).make,
        lambda: {"b": 1, "a": {3, 1, 2}},
    ]
    for make in parts:
        assert identity(make()) == identity(make())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        ("a", b"a"),
        ([1, 2], [2, 1]),
        (adder(1), adder(2)),
        (lambda x: x + 1, lambda x: x + 2),
        (functools.partial(Evolutionary, sweeps=2), functools.partial(Evolutionary, sweeps=3)),
        (Evolutionary, Random),
        (Maker(1).make, Maker(2).make),
        (Maker(1), Maker(2)),
        (sl.Space([tiled]), sl.Space([tiled(bound=8)])),
        (sl.default_space("cpu"), sl.default_space("cpu").without("auto_inline")),
    ],
)
def test_different_parts_have_different_identities(one: Any, other: Any) -> None:
    assert identity(one) != identity(other)


def test_what_a_module_names_in_its_file_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(sl.Space([tiled]))
    monkeypatch.setitem(globals(), "TILES", (8, 32))
    assert identity(sl.Space([tiled])) != before
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "helper", lambda: None)
    assert identity(sl.Space([tiled])) != before


def test_the_code_of_a_users_class_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(Listening), identity(Maker(1))
    monkeypatch.setattr(Listening, "ask", lambda self, n: [])
    monkeypatch.setattr(Maker, "make", lambda self, *args: self.seed)
    assert identity(Listening) != before[0]
    assert identity(Maker(1)) != before[1]


def of_the_library() -> list[Any]:
    """What a call of ``tune`` may hold of the library: modules, classes, objects, functions."""
    return [sl.default_space("cpu"), Random, TimingPolicy(min_repeats=3), sl.workloads.matmul]


def functions_of(space: sl.Space) -> list[Any]:
    return [module.function for module in space.modules]


def test_a_docstring_of_the_library_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(*of_the_library())
    for function in functions_of(sl.default_space("cpu")):
        code = function.__code__
        if function.__doc__ is not None:
            assert code.co_consts[0].strip()[:9] == function.__doc__.strip()[:9]
            edited = code.replace(co_consts=("Another text.", *code.co_consts[1:]))
            monkeypatch.setattr(function, "__code__", edited)
    assert identity(*of_the_library()) == before


def test_a_file_of_the_library_may_move(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(*of_the_library())
    for thing in (
        *functions_of(sl.default_space("cpu")),
        *(Random, TimingPolicy, sl.workloads.matmul),
    ):
        monkeypatch.setattr(thing, "__module__", f"{thing.__module__.rpartition('.')[0]}.elsewhere")
    assert identity(*of_the_library()) == before


def test_another_version_of_the_library_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(*of_the_library())
    monkeypatch.setattr("schedlang.targets.target.schedlang_version", lambda: "another")
    assert identity(*of_the_library()) != before


def test_functions_that_name_each_other_are_described_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described: list[Any] = []
    describe_new = _Describer._describe_new

    def counted(self: _Describer, value: Any) -> Any:
        described.append(value)
        return describe_new(self, value)

    monkeypatch.setattr(_Describer, "_describe_new", counted)
    table: list[Any] = []
    for _ in range(8):
        table.append(lambda: table)
    assert identity(table[0]) == identity(table[0])
    assert [sum(value is function for value in described) for function in table] == [2] * 8


@pytest.mark.slow
def test_another_process_finds_the_same() -> None:
    code = (
        "import schedlang as sl; from schedlang.tuning.identity import identity; "
        "print(identity(sl.default_space('cpu'), {'a', 'b', 'c'}, 3))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {identity(sl.default_space("cpu"), {"a", "b", "c"}, 3)}
