"""Exceptions that callbacks of TVM's raise come back as what they are."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm_ffi import structural_map, structural_walk

from schedlang import errors
from schedlang.tvm.analysis.inverse_bounds import Unreadable
from schedlang.tvm.analysis.races.counting import Uncountable
from schedlang.tvm.graph.indices import Unencodable

KINDS = [
    Unencodable, Unreadable, Uncountable, errors.NotApplicable, errors.WorkloadError,
    errors.DatabaseError, errors.SpaceError, errors.TargetError, KeyboardInterrupt, SystemExit,
    RecursionError, OverflowError, TimeoutError, ZeroDivisionError, ValueError, MemoryError,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("visit", [structural_walk, structural_map])
def test_the_type_and_the_message_come_back(kind: type[BaseException], visit: object) -> None:
    def refuse(variable: object) -> None:
        raise kind("too much")

    with pytest.raises(kind, match="too much") as caught:
        visit(tirx.Var("i", "int32") + 1, (tirx.Var, refuse))  # type: ignore[operator]
    assert type(caught.value) is kind
