"""The examples of hardware modules: they compose in one line, tune, and say how much it gains."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import ModuleType

import pytest

from schedlang.analysis.intrinsics import host_features

EXAMPLES = {
    "use_vnni": ("avx512vnni", "UseVNNI", "vpdpbusd"),
    "use_bf16_dot": ("avx512bf16", "UseBF16Dot", "schedlang_dot_16x2_bf16"),
}
each_example = pytest.mark.parametrize("name", sorted(EXAMPLES))


@each_example
def test_it_tunes_and_prints_what_it_gains(name: str, run_example: Callable[..., str]) -> None:
    feature = EXAMPLES[name][0]
    if feature not in host_features():
        pytest.skip(f"this CPU has no {feature}")
    printed = run_example(name, "--size", "64", "--trials", "6")
    assert re.search(r"[\d.]+x faster than float32", printed)
    assert printed.count(", verified") == 2
    assert f"# {name}" in printed  # the trace names the module


@each_example
def test_it_composes_in_one_line(name: str, load_example: Callable[[str], ModuleType]) -> None:
    source = inspect.getsource(load_example(name).main)
    module = EXAMPLES[name][1]
    [line] = [line.strip() for line in source.splitlines() if f"{module}()" in line]
    assert line == f'space = sl.default_space("cpu") + {module}()'


@each_example
def test_a_machine_without_the_feature_is_told(
    name: str, load_example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = load_example(name)
    monkeypatch.setattr(example, "host_features", frozenset)
    monkeypatch.setattr("sys.argv", [name])
    with pytest.raises(SystemExit, match="This CPU has no AVX-512"):
        example.main()


@each_example
def test_its_workload_fits_the_module(name: str, load_example: Callable[[str], ModuleType]) -> None:
    """Checked on every machine: the module is told that the CPU has the feature."""
    import schedlang as sl

    feature, module, call = EXAMPLES[name]
    example = load_example(name)
    make = {"use_vnni": "quantized_matmul", "use_bf16_dot": "bfloat16_matmul"}[name]
    workload = getattr(example, make)(32, 64, 32)
    space = sl.Space([getattr(example, module)(features={feature})])
    assert call in space.sample(workload, seed=0).mod.script()
