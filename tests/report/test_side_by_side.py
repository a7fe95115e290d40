"""Two texts side by side: nothing is lost, what differs is marked, what is equal is folded."""

from __future__ import annotations

import random

from schedlang.report.view import side_by_side


def texts_of(left: list[str], right: list[str]) -> tuple[list[str], list[str]]:
    """The two texts as the rows have them."""
    rows = [row for part in side_by_side(left, right) for row in part.rows]
    one = ["".join(text for text, _ in row.left) for row in rows if row.left_number is not None]
    other = ["".join(text for text, _ in row.right) for row in rows if row.right_number is not None]
    return one, other


def test_nothing_is_lost() -> None:
    rng = random.Random(0)
    for _ in range(50):
        left = [f"line {rng.randrange(6)} of {rng.randrange(3)}" for _ in range(rng.randrange(40))]
        right = [line for line in left if rng.random() < 0.7]
        right.insert(rng.randrange(len(right) + 1), "a new one")
        assert texts_of(left, right) == (left, right)


def test_the_words_that_differ_are_marked() -> None:
    [part] = side_by_side(["for i in T.parallel(16):"], ["for i in T.parallel(64):"])
    [row] = part.rows
    assert [text for text, differs in row.left if differs] == ["16"]
    assert [text for text, differs in row.right if differs] == ["64"]
    [part] = side_by_side(["a = b"], ["something else entirely"])
    assert part.rows[0].left == (("a = b", True),)


def test_long_equal_parts_are_folded() -> None:
    equal = [str(number) for number in range(50)]
    parts = side_by_side([*equal, "a", *equal], [*equal, "b", *equal])
    assert [part.hidden for part in parts] == [True, False, True]
    assert [len(part.rows) for part in parts] == [47, 7, 47]
    assert side_by_side([], []) == []
