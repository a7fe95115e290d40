"""The order in which a look-up prefers records: finals decide where they were held."""

from __future__ import annotations

from schedlang.database import Database, FinalsEntry, best_first, prune
from schedlang.database.ranking import LookupStanding, preferred
from schedlang.measurement import Status
from tests.database.plausible import make_entry, make_record


def order(latencies: dict[int, float], *finals: dict[int, float | None]) -> list[int]:
    """Records of different programs by preference; each finals: median by id, best first."""
    return list(
        preferred(
            [
                LookupStanding(number, latency, f"p{number}")
                for number, latency in latencies.items()
            ],
            [entry for held, one in enumerate(finals) for entry in entries(float(held), one)],
        )
    )


def entries(held: float, medians: dict[int, float | None]) -> list[FinalsEntry]:
    return [
        FinalsEntry(number, held, place, Status.OK, (median,))
        if median is not None
        else FinalsEntry(number, held, place, Status.CRASHED, ())
        for place, (number, median) in enumerate(medians.items())
    ]


def test_without_finals_the_fastest_is_first_then_the_oldest() -> None:
    assert order({3: 2.0, 1: 1.0, 2: 1.0}) == [1, 2, 3]
    assert order({}) == []


def test_the_winner_of_the_finals_is_first_then_the_second() -> None:
    assert order({1: 1.0, 2: 1.05, 3: 1.02}, {2: 1.0, 1: 1.1, 3: 1.2})[0] == 2
    assert order({1: 1.0, 2: 1.05, 3: 1.02}, {2: 1.0, 1: 1.1, 3: 1.2})[1:] == [1, 3]


def test_the_newest_finals_count() -> None:
    assert order({1: 1.0, 2: 1.05}, {1: 1.0}, {2: 1.05})[0] == 2
    assert order({1: 1.0, 2: 1.05}, {2: 1.05}, {1: 1.0})[0] == 1
    # The winner of the older ones lost the newer.
    assert order({1: 1.0, 2: 1.05, 3: 1.01}, {1: 1.0, 3: 1.2}, {2: 1.05, 1: 1.1})[0] == 2


def test_another_replaces_the_winner_only_if_it_is_clearly_faster() -> None:
    assert order({1: 1.0, 2: 0.95}, {1: 1.0})[0] == 1
    assert order({1: 1.0, 2: 0.85}, {1: 1.0})[0] == 2
    # By the slower of its medians, and the faster of the winner's.
    assert order({1: 1.0, 2: 0.95}, {1: 1.5})[0] == 1
    assert order({1: 1.0, 2: 0.85}, {2: 0.95}, {1: 1.0})[0] == 1
    assert order({1: 1.0, 2: 0.85}, {2: 0.80}, {1: 1.0})[0] == 2


def test_who_lost_does_not_come_back_by_a_lucky_median() -> None:
    assert order({1: 1.0, 2: 0.5}, {1: 1.0, 2: 1.1})[0] == 1
    # Nor does another record of the same program.
    standings = [
        LookupStanding(1, 1.0, "winner"),
        LookupStanding(2, 0.5, "loser"),
        LookupStanding(3, 0.4, "loser"),
    ]
    assert next(preferred(standings, entries(0.0, {1: 1.0, 2: 1.1}))) == 1


def test_who_failed_in_finals_is_left_out() -> None:
    assert order({1: 1.0, 2: 0.5}, {1: 1.0, 2: None}) == [1]
    assert order({1: 1.0}, {1: None}) == []
    assert order({1: 1.0}, {1: None}, {1: 1.0}) == [1]


def test_where_the_winner_is_gone_the_second_is_first() -> None:
    assert order({2: 1.0, 3: 0.99}, {1: 1.0, 2: 1.1, 3: 1.2})[0] == 2


def test_a_look_up_knows_finalists_that_are_not_among_the_fastest() -> None:
    database = Database()
    stored = database.append(make_record(samples=(1 + n / 100,)) for n in range(9))
    unverified = make_record(samples=(1e-3,), verified=False)
    stored += database.append([unverified])
    assert best_first(database, "w", "t", n=2) == stored[:2]
    database.add_finals([make_entry(stored[7], samples=(1.0,))])
    assert best_first(database, "w", "t", n=2) == [stored[7], *stored[:2]]
    assert best_first(database, "w", "t", n=1, verified=False)[0] == stored[9]
    assert best_first(database, "w", "t", "other toolchain", n=2) == []
    prune(database, keep_best=1)
    assert best_first(database, "w", "t") == [stored[7]]
