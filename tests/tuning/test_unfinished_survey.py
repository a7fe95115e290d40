"""A survey whose time is over says what is missing, and goes on where it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

import schedlang as sl
from schedlang.testing.spaces import TINY, TINY_PROGRAMS, small_workload
from schedlang.tuning.surveys import UnfinishedSurvey

NO_TIME = 1e-6


def test_a_survey_without_time_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    database = tmp_path / "tiny.db"
    with pytest.raises(sl.RecordingError, match="with a database, the same call with more seconds"):
        sl.survey(small_workload(), space=TINY, seconds=NO_TIME)
    for _ in range(2):  # the same call has no more time than the first one
        with pytest.raises(
            UnfinishedSurvey, match="; the same call with more seconds goes"
        ) as told:
            sl.survey(small_workload(), space=TINY, seconds=NO_TIME, database=database)
        error = told.value
        assert str(error).startswith("4 of 4 programs of matmul are not measured (1e-06 s are over")
        assert (error.missing, error.programs, error.interrupted) == (4, TINY_PROGRAMS, False)
    recorded = sl.survey(small_workload(), space=TINY, database=database)
    assert len(recorded.programs) == TINY_PROGRAMS
