"""TVM's tensor intrinsics, registered on first use.

``import tvm.s_tir.tensor_intrin`` registers all of them but takes 17 s, mostly in
``inspect.stack()``: TVM's parser calls it for each of 250 programs, and its cost grows with the
stack, above all with the frames of Python's import system. This module executes the files on the
short stack of a thread, one by one until the name is known: 0.2 s for x86, 3 s for all.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import threading
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tvm.s_tir
from tvm.s_tir import TensorIntrin

from schedlang.tvm.program import block_realizes, parse_script
from schedlang.tvm.statements import axes_of

_PACKAGE = "tvm.s_tir.tensor_intrin"
# Each file follows the files it imports; the large ones come last.
_FILES = ("dot_product_common", "x86", "arm_cpu", "riscv_cpu", "hexagon", "rocm", "cuda")
# The file that defines what has a prefix, to try first.
_PREFIXES = {"wmma_": "cuda", "mma_": "cuda"}
_lock = threading.Lock()
# Description and implementation of each intrinsic defined by ``define_intrinsic``.
_defined: dict[str, tuple[str, str]] = {}
# What makes both texts of a name, by the prefix of its names.
_families: dict[str, Callable[[str], tuple[str, str]]] = {}


def define_intrinsic(name: str, description: str, implementation: str) -> None:
    """Define a custom tensor intrinsic called ``name``.

    Both texts are TVMScript of one ``@T.prim_func(s_tir=True)`` each: ``description`` is the
    computation that is matched, ``implementation`` the code that replaces it. They are parsed at
    first use, which **executes them as Python**. ValueError if ``name`` is already defined with
    other texts.
    """
    if _defined.get(name, (description, implementation)) != (description, implementation):
        raise ValueError(f"tensor intrinsic {name!r} is defined already; give another name")
    _defined[name] = (description, implementation)


def define_family(prefix: str, make: Callable[[str], tuple[str, str]]) -> None:
    """Define tensor intrinsics of many shapes: those whose names start with ``prefix``.

    ``make`` returns both texts of ``define_intrinsic`` for a name; ValueError if it is none.
    """
    _families[prefix] = make


def definition(name: str) -> tuple[str, str] | None:
    """Return the texts passed to ``define_intrinsic``; None for one of TVM's own intrinsics."""
    if name not in _defined:
        for prefix, make in _families.items():
            if name.startswith(prefix):
                define_intrinsic(name, *make(name))
    return _defined.get(name)


def intrinsic_axes(name: str) -> tuple[tuple[str, int], ...]:
    """Return an intrinsic's loops, outermost first, as ``("S" or "R", extent)``.

    ``dot_16x4_vnni`` has ``(("S", 16), ("R", 4))``. ValueError if the name is unknown.
    """
    require_intrinsic(name)
    *_, innermost = block_realizes(TensorIntrin.get(name).desc)
    return axes_of(innermost.block)


def require_intrinsic(name: str) -> None:
    """Register a tensor intrinsic if needed; ValueError if TVM has none of that name."""
    if not _is_known(name):
        with _lock:
            texts = definition(name)
            if texts is not None and not _is_known(name):
                _register(name, texts)
            likely = [file for prefix, file in _PREFIXES.items() if name.startswith(prefix)]
            for file in (*likely, *_FILES):
                if _is_known(name):
                    return
                _load(file)
        if not _is_known(name):
            raise ValueError(
                f"no tensor intrinsic {name!r} is registered; "
                "add your own with schedlang.analysis.intrinsics.define_intrinsic"
            )


def register_all() -> None:
    """Register all intrinsics; afterwards ``import tvm.s_tir.tensor_intrin`` is immediate."""
    with _lock:
        for file in _FILES:
            _load(file)


def _is_known(name: str) -> bool:
    return TensorIntrin.get(name, allow_missing=True) is not None


def _register(name: str, texts: tuple[str, str]) -> None:
    TensorIntrin.register(name, *map(parse_script, texts))


def _load(file: str) -> None:
    full_name = f"{_PACKAGE}.{file}"
    if full_name in sys.modules:
        return
    parent = sys.modules.get(_PACKAGE)
    if parent is None:  # a placeholder: importing the real package loads every file
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
