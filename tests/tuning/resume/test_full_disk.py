"""A disk that is full for a while: afterwards the same call goes on in the same process."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.measurement import Candidate, Measurement
from tests.crash.tuner import Replayed
from tests.processes import limited
from tests.tuning.hosts.replaying import tune


class Filling(Replayed):
    """Has the disk full before its sixth measurement; a limit on files stands in for that."""

    full = True

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for number, measurement in enumerate(super().measure(candidates)):
            if number == 5 and self.full:
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            yield measurement


def test_the_same_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with limited(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY):
        with pytest.raises(sl.DatabaseError, match="full|failed") as raised:
            tune(None, database="tune.db", measurer=Filling())
        assert len(raised.value.result.records) >= 5  # type: ignore[attr-defined]
        # It still is, and that is what the error says.
        with pytest.raises(sl.DatabaseError, match="full|failed"):
            tune(None, database="tune.db", measurer=Filling())
    monkeypatch.setattr(Filling, "full", False)
    found = tune(None, database=tmp_path / "tune.db", measurer=Filling())
    assert len(found.records) == 24 and found.finished == "24 trials"
