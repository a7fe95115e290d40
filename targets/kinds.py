"""The kinds of targets there are: one line each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from schedlang.tvm.codegen import CodeGenerator

KINDS = {
    "cpu": "schedlang.targets.target:Target",
}
"""Where the class of each kind is, as ``"module:Class"``; it is imported when it is needed."""


def load(kind: str) -> Any:
    """Return the class of a kind."""
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name)


def code_generator(spec: Mapping[str, Any]) -> CodeGenerator:
    """Make, in any process, the code generator that the ``spec()`` of a target describes."""
    made: CodeGenerator = load(spec["kind"]).code_generator(spec)
    return made
