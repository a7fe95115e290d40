"""Reading stored traces, whole ones and broken ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedlang.errors import InvalidTrace, TraceFormatError
from schedlang.language.schedule import Schedule, Trace, replay, resample
from schedlang.workloads.workload import Workload


def stored(sch: Schedule) -> Any:
    """A trace's JSON as plain Python values, to be changed."""
    return json.loads(sch.trace.to_json())


def refused(text: str | bytes) -> TraceFormatError:
    """The error that loading the text gives, which must name a place and a problem."""
    with pytest.raises(TraceFormatError) as caught:
        Trace.from_json(text)
    error = caught.value
    assert error.where and error.problem
    assert str(error) == f"{error.where}: {error.problem}"
    return error


def loads_soundly_or_is_refused(text: str | bytes, workload: Workload) -> bool:
    """Whether it loads; then it can be stored, printed and replayed, or is an invalid trace."""
    try:
        trace = Trace.from_json(text, workload)
    except TraceFormatError as error:
        assert error.where and error.problem
        return False
    assert Trace.from_json(trace.to_json()) == trace
    assert trace.log_prob() <= 1e-9
    compile(trace.as_python(), "trace.py", "exec")
    for interpret in (replay, resample, Trace.flattened):
        try:
            interpret(trace)
        except InvalidTrace as error:
            assert error.reason in ("decision", "instruction")
            assert error.site
    return True
