"""Printed programs import our instructions by names that last."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import schedlang.modules
from schedlang.instructions.instruction import KINDS, InstructionKind
from schedlang.interpreters.definitions import is_ours, public_module


def functions() -> list[InstructionKind]:
    """Our instructions that are written ``name(sch, ...)``, in whatever file they stand."""
    for found in pkgutil.walk_packages(schedlang.modules.__path__, "schedlang.modules."):
        importlib.import_module(found.name)
    kinds = [kind for kind in KINDS.values() if not kind.is_method]
    return [kind for kind in kinds if is_ours(kind.function.__module__)]


@pytest.mark.parametrize("kind", functions(), ids=lambda kind: kind.name)
def test_each_instruction_is_imported_by_its_public_name(kind: InstructionKind) -> None:
    assert public_module(kind.function) == "schedlang.modules"
