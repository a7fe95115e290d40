"""torch's compiler, ``torch.compile``, with frozen weights: any module, and single operators.

Weights are constants, as they are in a model that is served: Inductor packs and folds them when it
compiles (its ``freezing``), and only the data is an argument. Matrix products have two arguments.
"""

from __future__ import annotations

import contextlib
import io
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlang.cli.bench.torch_operators import Define, Eager, TorchOperator

if TYPE_CHECKING:
    from schedlang.workloads.workload import Workload

# The operators' names for the tensors that a model holds.
_WEIGHTS = ("weight", "w", "kernel", "bias", "scale", "offset")
_LIBRARY_CALL = re.compile(r"(?:extern_kernels|torch\.ops\.(?:aten|mkldnn|mkl))\.\w+(?=[.(])")
_GENERATED = re.compile(r"\bcpp_\w*(?=\()")


@dataclass(frozen=True)
class CompiledModule:
    """A module that torch compiled.

    Attributes
    ----------
    call: the compiled module.
    library_calls: what its code calls of a library, such as ``"bmm"`` for ``extern_kernels.bmm``;
        once for each call.
    generated_calls: the generated kernels that its code calls, once for each call.
    """

    call: Callable[..., Any]
    library_calls: tuple[str, ...]
    generated_calls: tuple[str, ...]


def compile_module(
    module: Callable[..., Any], *data: Any, mode: str = "max-autotune", **keywords: Any
) -> CompiledModule:
    """Compile a module of torch for these arguments. Raises the compiler's own exceptions.

    Weights are frozen. Caches of earlier runs are ignored: noise may have disturbed what they
    measured.
    """
    import torch
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    compiled = torch.compile(module, mode=mode)
    settings = config.patch(freezing=True, force_disable_caches=True)
    # It prints every attempt.
    with settings, torch.inference_mode(), contextlib.redirect_stderr(io.StringIO()):
        _, sources = run_and_get_code(compiled, *data, **keywords)
    code = "\n".join(sources)
    return CompiledModule(
        compiled,
        tuple(name.split(".")[-1] for name in _LIBRARY_CALL.findall(code)),
        tuple(_GENERATED.findall(code)),
    )


class CompiledOperator(TorchOperator):
    """A compiled ``TorchOperator``. Raises the compiler's own exceptions, too.

    Attributes
    ----------
    library_calls: the functions of a library that the compiled code calls, such as
        ``extern_kernels.bmm``. max-autotune calls them where it cannot generate code, or none
        that is faster.
    kernels: number of generated kernels.
    """

    def __init__(self, workload: Workload, threads: int, define: Define | None = None) -> None:
        super().__init__(workload, threads, define)
        module, data = _as_model(self._eager.call)
        made = compile_module(module, *data)
        self.library_calls = sorted(set(made.library_calls))
        self.kernels = len(set(made.generated_calls))
        self._eager = Eager(lambda: made.call(*data), self._eager.layout)


def _as_model(call: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """Return a module that holds the weights which ``call`` captures, and its other inputs."""
    import torch

    names = call.__code__.co_freevars
    values = [cell.cell_contents for cell in call.__closure__ or ()]
    bound = dict(zip(names, values, strict=True))
    tensors = {name: value for name, value in bound.items() if isinstance(value, torch.Tensor)}
    weights = {name: value for name, value in tensors.items() if name in _WEIGHTS}

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, value in weights.items():
                self.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))

        def forward(self, *data: Any) -> Any:
            given = dict(zip(arguments, data, strict=True))
            cells = [
                types.CellType(getattr(self, name) if name in weights else given.get(name, value))
                for name, value in bound.items()
            ]
            return types.FunctionType(call.__code__, call.__globals__, closure=tuple(cells))()

    arguments = [name for name in tensors if name not in weights]
    return Model().eval(), [tensors[name] for name in arguments]
