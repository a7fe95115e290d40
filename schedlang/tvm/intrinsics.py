"""TVM's tensor intrinsics, registered when one is first asked for.

``import tvm.s_tir.tensor_intrin`` registers them all but takes 17 s, nearly all of it in
``inspect.stack()``: TVM's parser calls it for each of 250 programs, and every frame costs, those of
Python's import system most. So their files are executed here on the short stack of a thread, one
by one until the name is known: 0.2 s for x86, 3 s for all of them.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tvm.s_tir
from tvm.s_tir import TensorIntrin

_PACKAGE = "tvm.s_tir.tensor_intrin"
# What a file imports stands before it; the large ones stand last.
_FILES = ("dot_product_common", "x86", "arm_cpu", "riscv_cpu", "hexagon", "rocm", "cuda")
_lock = threading.Lock()


def require_intrinsic(name: str) -> None:
    """Make sure that a tensor intrinsic is registered; ValueError if TVM has none of that name."""
    if not _is_known(name):
        with _lock:
            for file in _FILES:
                if _is_known(name):
                    return
                _load(file)
        if not _is_known(name):
            raise ValueError(
                f"no tensor intrinsic {name!r} is registered; "
                "register your own with tvm.s_tir.TensorIntrin.register"
            )


def register_all() -> None:
    """Register all of them; ``import tvm.s_tir.tensor_intrin`` takes no time after that."""
    with _lock:
        for file in _FILES:
            _load(file)


def _is_known(name: str) -> bool:
    return TensorIntrin.get(name, allow_missing=True) is not None


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
