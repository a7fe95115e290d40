"""Operators of torch: what they compute, and what torch's compiler knows of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from tvm.ir import IRModule
from tvm.script import from_source

import schedlang as sl
from schedlang.targets import LibraryError, build_callable, export_c
from tests.targets.deployment import modules
from tests.targets.deployment.c.test_c_export import NUMBERS
from tests.targets.programs import matmul, scheduled_matmul

torch = pytest.importorskip("torch", reason="needs torch: pip install 'schedlang[torch]'")

A, B = (torch.rand(64, 64, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))


@pytest.fixture(scope="module")
def gemm() -> Any:
    """The scheduled product of two matrices."""
    return build_callable(scheduled_matmul(matmul())).main.as_torch_op("schedlang_tests::gemm")


def test_it_computes_what_the_kernel_does(gemm: Any) -> None:
    torch.testing.assert_close(gemm(A, B), A @ B)
    torch.testing.assert_close(torch.ops.schedlang_tests.gemm(A.t(), B), A.t() @ B)
    torch.testing.assert_close(gemm(torch._neg_view(A), B), -A @ B)
    with torch.inference_mode():
        torch.testing.assert_close(gemm(A, B), A @ B)


def test_torch_s_own_checks(gemm: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.library.opcheck(
            gemm,
            (A, B),
            test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_static"),
        )
    assert set(found.values()) == {"SUCCESS"}


def test_inside_compiled_and_exported_models(gemm: Any) -> None:
    def model(a: Any, b: Any) -> Any:
        return torch.relu(gemm(a, b) - 16)

    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(A, B), torch.relu(A @ B - 16))

    class Model(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return model(a, b)

    program = torch.export.export(Model(), (A, B))
    assert "schedlang_tests.gemm" in program.graph_module.code
    torch.testing.assert_close(program.module()(A, B), torch.relu(A @ B - 16))


def test_gradients_are_refused_by_name(gemm: Any) -> None:
    a = A.clone().requires_grad_()
    product = gemm(a, B)
    torch.testing.assert_close(product.detach(), (A @ B))
    with pytest.raises(RuntimeError, match=r"schedlang_tests.gemm.* no autograd formula"):
        product.sum().backward()


def test_what_does_not_fit_is_refused_before_and_while_compiling(gemm: Any) -> None:
    with pytest.raises(ValueError, match=r"B: got float32\[32, 64\], and the kernel takes B: flo"):
        gemm(A, B[:32])
    with pytest.raises(ValueError, match=r"A: got float64\[64, 64\], and the kernel takes"):
        gemm(A.double(), B)
    compiled = torch.compile(gemm, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match=r"B: got float32\[32, 64\], and the kernel takes"):
        compiled(A, B[:32])


def test_what_is_read_and_written_is_changed_in_place() -> None:
    add_to = build_callable(modules.several()).add_to.as_torch_op("schedlang_tests::add_to")
    x, y = torch.ones(8), torch.arange(8.0)
    assert add_to(x, y) is None
    torch.testing.assert_close(y, torch.arange(8.0) + 1)
    with pytest.raises(ValueError, match="B is written, and not contiguous"):
        add_to(x, torch.zeros(16)[::2])


def test_several_outputs_and_numbers() -> None:
    two = build_callable(modules.two_outputs()).main.as_torch_op("schedlang_tests::two")
    x = torch.arange(8.0)
    same, more = two(x)
    torch.testing.assert_close((same, more), (x, x + 1))
    numbers = build_callable(IRModule({"main": from_source(NUMBERS)}))
    scaled = numbers.main.as_torch_op("schedlang_tests::scaled")
    torch.testing.assert_close(scaled(x, 2.5, -3), x * 2.5 - 3)


def test_libraries_and_results_become_operators(tmp_path: Path) -> None:
    program = sl.load(export_c(modules.shuffle("bfloat16"), "cpu", tmp_path / "turn.so"))
    turn = program.main.as_torch_op("schedlang_tests::turn")
    values = torch.arange(64).to(torch.bfloat16)
    torch.testing.assert_close(turn(values), values.flip(0))
    best = sl.tune(matmul(), trials=2, finals=0, progress=False).best
    product = best.as_torch_op("schedlang_tests::gemm_best")
    torch.testing.assert_close(product(A, B), A @ B)


def test_names_and_programs_that_cannot_be() -> None:
    program = build_callable(modules.shuffle())
    for name in ("gemm", "a::b::c", "a.b", "::x", "a::1"):
        with pytest.raises(LibraryError, match="is no name of an operator"):
            program.main.as_torch_op(name)
    with pytest.raises(LibraryError, match=r"the extents of A: float32\[\?, 4\] are not fixed"):
        build_callable(modules.any_length()).main.as_torch_op("schedlang_tests::any")
