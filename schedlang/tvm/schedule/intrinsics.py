"""TVM's tensor intrinsics, registered when one is first asked for.

``import tvm.s_tir.tensor_intrin`` registers them all but takes 17 s, nearly all of it in
``inspect.stack()``: TVM's parser calls it for each of 250 programs, and every frame costs, those of
Python's import system most. So their files are executed here on the short stack of a thread, one
by one until the name is known: 0.2 s for x86, 3 s for all of them.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tvm.s_tir
from tvm.s_tir import TensorIntrin

from schedlang.tvm.analysis.accesses import axes
from schedlang.tvm.codegen import cpu_features, host_cpu
from schedlang.tvm.program import block_realizes, parse_script

_PACKAGE = "tvm.s_tir.tensor_intrin"
# What a file imports stands before it; the large ones stand last.
_FILES = ("dot_product_common", "x86", "arm_cpu", "riscv_cpu", "hexagon", "rocm", "cuda")
_lock = threading.Lock()
# Description and implementation of each intrinsic that ``define_intrinsic`` was told of.
_defined: dict[str, tuple[str, str]] = {}


def define_intrinsic(name: str, description: str, implementation: str) -> None:
    """Make a tensor intrinsic of one's own known under ``name``.

    Both texts are TVMScript of one ``@T.prim_func(s_tir=True)`` each: what it computes, and what is
    run instead. They are parsed when the intrinsic is first used, and are **executed as Python**
    then. ValueError for a name that was given another meaning before.
    """
    if _defined.get(name, (description, implementation)) != (description, implementation):
        raise ValueError(f"tensor intrinsic {name!r} is defined already; give another name")
    _defined[name] = (description, implementation)


def definition(name: str) -> tuple[str, str] | None:
    """The texts that ``define_intrinsic`` was given; None for an intrinsic that is TVM's own."""
    return _defined.get(name)


def intrinsic_axes(name: str) -> tuple[tuple[str, int], ...]:
    """The loops of an intrinsic, outermost first: ``("S" or "R", extent)``; ValueError if unknown.

    ``dot_16x4_vnni`` has ``(("S", 16), ("R", 4))``.
    """
    require_intrinsic(name)
    *_, innermost = block_realizes(TensorIntrin.get(name).desc)
    return axes(innermost.block.iter_vars)


@functools.cache
def host_features() -> frozenset[str]:
    """LLVM's names of what this machine's CPU can do, such as ``"avx512vnni"``."""
    return cpu_features(host_cpu())


def require_intrinsic(name: str) -> None:
    """Make sure that a tensor intrinsic is registered; ValueError if TVM has none of that name."""
    if not _is_known(name):
        with _lock:
            if name in _defined and not _is_known(name):
                _register(name)
            for file in _FILES:
                if _is_known(name):
                    return
                _load(file)
        if not _is_known(name):
            raise ValueError(
                f"no tensor intrinsic {name!r} is registered; "
                "add your own with schedlang.analysis.intrinsics.define_intrinsic"
            )


def register_all() -> None:
    """Register all of them; ``import tvm.s_tir.tensor_intrin`` takes no time after that."""
    with _lock:
        for file in _FILES:
            _load(file)


def _is_known(name: str) -> bool:
    return TensorIntrin.get(name, allow_missing=True) is not None


def _register(name: str) -> None:
    with ThreadPoolExecutor(1) as thread:
        texts = [thread.submit(parse_script, text) for text in _defined[name]]
    TensorIntrin.register(name, *(text.result() for text in texts))


def _load(file: str) -> None:
    full_name = f"{_PACKAGE}.{file}"
    if full_name in sys.modules:
        return
    parent = sys.modules.get(_PACKAGE)
    if parent is None:  # a stand-in, as importing the real one loads every file
        stand_in = types.ModuleType(_PACKAGE)
        stand_in.__path__ = [str(Path(str(tvm.s_tir.__file__)).parent / "tensor_intrin")]
        sys.modules[_PACKAGE] = stand_in
    try:
        spec = importlib.util.find_spec(full_name)
        assert spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader)
        code = spec.loader.get_code(full_name)
        assert code is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module
        try:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(exec, code, module.__dict__).result()
        except BaseException:
            del sys.modules[full_name]
            raise
    finally:
        if parent is None:
            del sys.modules[_PACKAGE]
