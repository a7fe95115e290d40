"""Programs that are nobody's benchmark: tuned, found again, applied, deployed, and written out.

All programs share four processes, see ``row.py``. ``benchmarks/bring_your_own.py`` does the same
with more programs and trials, and holds the speed-ups to a bound; here nothing depends on a
latency.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bring_your_own.catalogue import BENCHMARK_ONLY, PROGRAMS, TESTED
from tests.bring_your_own.row import Row, run_rows

TRIALS = 2


@pytest.fixture(scope="module")
def rows(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Row]:
    """The rows of all programs that this session has tests of."""
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.nodeid.startswith(request.node.nodeid) and hasattr(item, "callspec")
    }
    names = [name for name in TESTED if name in wanted]
    folder: Path = tmp_path_factory.mktemp("bring_your_own")
    return run_rows(names, folder, trials=TRIALS, finals=0, rough=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TESTED)
def test_a_program_of_a_user(name: str, rows: dict[str, Row]) -> None:
    if problems := rows[name].problems:
        pytest.fail("\n".join(f"{column}: {why}" for column, why in problems.items()), False)


def test_there_are_many_and_of_every_type() -> None:
    assert len(TESTED) >= 64 and len(TESTED) + len(BENCHMARK_ONLY) == len(PROGRAMS)
    types = {"bool", "bfloat16", "float16", "float32", "float64"}
    types |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    assert {PROGRAMS[name].dtype for name in TESTED} == types
    assert {PROGRAMS[name].topic for name in TESTED} == {it.topic for it in PROGRAMS.values()}
