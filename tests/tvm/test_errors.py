"""Exceptions that callbacks of TVM's raise come back as what they are."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm_ffi import structural_map, structural_walk

from schedlang import errors
from schedlang.database import MemoryDatabase
from schedlang.metaschedule import as_tvm_database
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.tvm.analysis.inverse_bounds import Unreadable
from schedlang.tvm.analysis.races.intervals import Unbounded
from schedlang.tvm.graph.indices import Unencodable
from tests.language.primitives.programs import elementwise
from tests.metaschedule.records import TARGET

KINDS = [
    Unencodable, Unreadable, Unbounded, errors.NotApplicable, errors.WorkloadError,
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


def test_what_a_database_refuses_in_tvm_is_a_database_error() -> None:
    """TVM's own code calls the view, as MetaSchedule does when it tunes."""
    view = as_tvm_database(MemoryDatabase(), TARGET)
    mod = elementwise().mod
    trace = tvm_metaschedule.idle_trace(mod)
    record = tvm_metaschedule.tuning_record(trace, mod, [1.0], TARGET.tvm_target())
    with pytest.raises(errors.DatabaseError, match="this view of a schedlang database is for"):
        view.commit_tuning_record(record)
