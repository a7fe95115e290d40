"""Finding where a row of programs begins to fail, with verdicts that the test writes down."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from schedlang.tuning.failing_prefix import Located, locate

GOOD, BAD, UNKNOWN = "g", "b", "?"
VERDICTS = {GOOD: False, BAD: True, UNKNOWN: None}


def located(row: str, **how: bool) -> tuple[Located, list[int]]:
    """What is found in a row that begins with a good program, and which ones were judged."""
    judged: list[int] = []

    def judge(place: int) -> bool | None:
        judged.append(place)
        return VERDICTS[row[place]]

    return locate(judge, len(row) - 1, **how), judged


def test_bisection_needs_the_logarithm_where_nothing_is_mended_later() -> None:
    for first in range(1, 64):
        row = GOOD * first + BAD * (64 - first)
        found, judged = located(row, thorough=False)
        assert (found.good, found.bad) == (first - 1, first)
        assert len(judged) <= 6


def test_programs_that_tell_nothing_are_stepped_over() -> None:
    found, _ = located("ggg???bbb")
    assert found == Located(2, 6, complete=True)
    assert located("g?????b")[0] == Located(0, 6, complete=True)
    assert located("g??g?b?b")[0] == Located(3, 5, complete=True)


def test_the_first_failure_is_found_where_a_later_instruction_mends_it() -> None:
    row = "ggbggggbbb"
    assert located(row, thorough=False)[0].bad == 7
    assert located(row)[0] == Located(1, 2, complete=True)


@given(st.lists(st.sampled_from([GOOD, BAD, UNKNOWN]), max_size=24))
def test_any_row_has_its_first_failure_found(middle: Sequence[str]) -> None:
    row = GOOD + "".join(middle) + BAD
    found, judged = located(row)
    first = row.index(BAD)
    assert found == Located(row.rindex(GOOD, 0, first), first, complete=True)
    assert len(judged) == len(set(judged)) and not {0, len(row) - 1} & set(judged)


@given(st.lists(st.sampled_from([GOOD, BAD, UNKNOWN]), max_size=24))
def test_bisection_alone_finds_a_failure_behind_a_good_program(middle: Sequence[str]) -> None:
    row = GOOD + "".join(middle) + BAD
    good, bad, _ = located(row, thorough=False)[0]
    assert row[good] == GOOD and row[bad] == BAD and set(row[good + 1 : bad]) <= {UNKNOWN}


def test_late_ends_it_with_what_is_known() -> None:
    left = [2]

    def late() -> bool:
        left[0] -= 1
        return left[0] < 0

    found = locate(lambda place: place >= 20, 32, late)
    assert found == Located(16, 24, complete=False)
