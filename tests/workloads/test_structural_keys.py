"""Exact keys: kept by what does not matter, changed by what does, and never wrong."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from schedlang.targets import build_callable
from schedlang.tvm.program import as_main, parse_script
from schedlang.workloads.structural_key import Structure, structure_of
from tests.workloads.interpreter import interpreted
from tests.workloads.random_kernels import (
    STYLES,
    Choose,
    Kernel,
    in_bounds,
    mutants,
    random_kernel,
    script,
)

Array = np.ndarray[Any, Any]


class Program:
    """A parsed program and its structure."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.func = parse_script(text)
        self.structure: Structure = structure_of(self.func)

    def outputs(self, data: list[Array], run: Callable[[list[Array]], object]) -> list[Array]:
        """All arguments in canonical order after a call, flat; ``data`` is in that order too."""
        order = self.structure.parameters
        arguments: list[Array] = [np.empty(0)] * len(order)
        for array, position in zip(data, order, strict=True):
            kind = self.func.params[position].ty
            shape = [int(extent) for extent in kind.shape]
            assert array.size == np.prod(shape)
            arguments[position] = array.astype(str(kind.dtype)).reshape(shape)
        run(arguments)
        return [arguments[position].ravel() for position in order]

    def random_data(self, seed: int) -> list[Array]:
        rng = np.random.default_rng(seed)
        kinds = [self.func.params[position].ty for position in self.structure.parameters]
        shapes = [[int(extent) for extent in kind.shape] for kind in kinds]
        return [rng.integers(-40, 40, size=np.prod(shape)) / 8 for shape in shapes]


def compiled(program: Program) -> Callable[[list[Array]], object]:
    kernel = build_callable(as_main(program.func))
    return lambda arrays: kernel(*arrays)


def assert_same_function(one: Program, other: Program) -> None:
    """Both compute the same bits from the same arguments in canonical order."""
    for seed in range(3):
        data = one.random_data(seed)
        first = one.outputs(data, interpreted(one.func))
        second = other.outputs(data, interpreted(other.func))
        for a, b in zip(first, second, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=f"{one.text}\n{other.text}")


@pytest.mark.slow
@pytest.mark.parametrize("styles", [*([style] for style in STYLES), STYLES], ids="+".join)
@settings(derandomize=True, deadline=None, max_examples=20)
@given(data=st.data())
def test_a_key_is_kept_by_what_does_not_matter(styles: list[str], data: st.DataObject) -> None:
    """Other names, arguments or free axes in another order, unit loops and dimensions, swapped
    operands: alone and together.
    """

    def choose(options: Any) -> Any:
        return data.draw(st.sampled_from(options))

    kernel = random_kernel(choose)
    plain, styled = Program(script(kernel)), Program(script(kernel, choose, styles))
    assert not plain.structure.exact.startswith("tvm:")
    assert styled.structure.exact == plain.structure.exact
    assert styled.structure.family == plain.structure.family
    assert len(styled.structure.blocks) == len(plain.structure.blocks) == len(kernel.stages)
    assert_same_function(plain, styled)


@pytest.mark.slow
def test_every_change_of_what_matters_changes_the_key() -> None:
    """Where a change left the key as it was, both programs compute the same.

    Each kind of change is seen to change keys; that nearly all changes do is measured, so that a
    key that forgets something cannot pass by luck.
    """
    rng = random.Random(5)
    changed, kept = collections.Counter[str](), collections.Counter[str]()
    for _ in range(30):
        kernel = random_kernel(rng.choice)
        original = Program(script(kernel))
        by_kind: dict[str, list[Kernel]] = {}
        for what, mutant in mutants(kernel):
            if in_bounds(mutant):
                by_kind.setdefault(what, []).append(mutant)
        for what, found in by_kind.items():
            mutated = Program(script(rng.choice(found)))
            if mutated.structure.exact == original.structure.exact:
                kept[what] += 1
                assert_same_function(original, mutated)
            else:
                changed[what] += 1
    assert set(changed) == {
        "constant", "dtype", "extent", "index operator", "offset", "operator", "reduction", "shape",
    }  # fmt: skip
    assert kept.total() < changed.total() / 20, (kept, changed)


def tiny_programs(choose: Choose, count: int) -> dict[str, list[Program]]:
    """Programs of few parts by their exact keys; in each list the kernels differ."""
    found: dict[str, dict[Kernel, Program]] = {}
    for _ in range(count):
        kernel = random_kernel(choose, tiny=True)
        program = Program(script(kernel, choose, STYLES))
        found.setdefault(program.structure.exact, {}).setdefault(kernel, program)
    return {key: list(programs.values()) for key, programs in found.items()}


@pytest.mark.slow
def test_equal_keys_compute_the_same() -> None:
    """Two programs that were drawn apart from each other; some are also compiled.

    Among them are programs whose axes are not free: they read or write an element of the result
    in several iterations.
    """
    groups = tiny_programs(random.Random(7).choice, 300)
    pairs = [
        (programs[0], other)
        for programs in groups.values()
        for other in programs[1:]
        if not programs[0].structure.exact.startswith("tvm:")
    ]
    assert len(pairs) >= 20
    for one, other in pairs:
        assert one.structure.family == other.structure.family
        assert_same_function(one, other)
    for one, other in pairs[:4]:
        data = one.random_data(0)
        first, second = (program.outputs(data, compiled(program)) for program in (one, other))
        known = one.outputs(data, interpreted(one.func))
        for a, b, c in zip(first, second, known, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
            np.testing.assert_allclose(a, c, rtol=1e-5)
