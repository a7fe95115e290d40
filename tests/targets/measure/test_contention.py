"""What is timed again, by known work that takes the times that a test says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schedlang.measurement.disturbance import Disturbance, Sample
from schedlang.targets.cpu.worker import hashing, memory, reading
from schedlang.targets.measure.contention import Contention, KnownWork, Piece, Slowdown
from schedlang.targets.measure.timing import ProgramTiming


class Seconds:
    """The times of a piece of work, one for each look at it, and a clock."""

    def __init__(self, *looks: float) -> None:
        self.now = 0.0
        self._times: Iterator[float] = iter([one for one in looks for _ in range(3)])

    def take(self) -> float:
        seconds = next(self._times)
        self.now += seconds
        return seconds

    def clock(self) -> float:
        return self.now

    def work(self, slower: float = 1.5, **settings: object) -> KnownWork:
        piece = Piece("memory", self.take, slower)
        return KnownWork([piece], "this machine", clock=self.clock, **settings)  # type: ignore[arg-type]


def test_work_is_compared_with_its_best() -> None:
    work = Seconds(2.0, 2.9, 1.0, 2.0, 2.0, 1.4).work()
    assert work.begin() is None and work.end() is None and work.end() is None
    slow = work.end()
    assert slow is not None and slow.factor == 2.0
    assert slow.reason.startswith("this machine took 2000000 us for memory work that it does in 10")
    # After a slow look, one before the program says whether it has ended.
    assert work.begin() is not None
    assert work.end() is None


def test_one_slow_look_alone_is_none_where_it_has_to_be_confirmed() -> None:
    work = Seconds(1.0, 3.0, 1.1, 3.0, 2.0).work(confirmed=True)
    work.begin()
    assert work.end() is None
    slow = work.end()
    assert slow is not None and slow.factor == 2.0


def test_looks_take_a_part_of_the_time() -> None:
    seconds = Seconds(1.0, 2.0, 1.0)
    work = seconds.work(part=0.01)
    work.begin()
    for now, slow in ((10.0, False), (303.0, True), (800.0, True), (1000.0, False)):
        seconds.now = now
        assert (work.end() is not None) == slow, now


class Signs:
    """Signs that find something at the given programs."""

    def __init__(self, *slow: bool) -> None:
        self.slow = list(slow)

    def begin(self) -> None:
        return None

    def end(self) -> Slowdown | None:
        return Slowdown("slow", 2.0) if self.slow.pop(0) else None


def timings(*fastest: float) -> Iterator[ProgramTiming]:
    return iter([ProgramTiming((seconds, seconds + 0.5), verified=True) for seconds in fastest])


def test_a_program_is_timed_again_while_the_machine_is_slow() -> None:
    runs = timings(4.0, 3.0, 2.0)
    found = Contention([Signs(True, True, False)]).undisturbed(lambda: next(runs))
    assert found.samples == (2.0, 2.5) and found.verified
    assert found.disturbance == Disturbance(2, 4, 2.0, 2.5)


def test_what_stays_disturbed_has_bounds_and_is_not_settled() -> None:
    runs = timings(4.0, 3.0, 5.0)
    found = Contention([Signs(True, True, True)]).undisturbed(lambda: next(runs))
    assert found.samples == (3.0,)
    assert found.disturbance == Disturbance(0, 6, 1.5, 3.5) and not found.disturbance.settled


def test_a_disturbance_that_lasts_costs_no_further_tries_until_it_ends() -> None:
    watch = Contention([Signs(*[True] * 3, True, False, *[True] * 3)])
    tries = []
    for _ in range(4):
        runs = timings(2.0, 2.0, 2.0)
        watch.undisturbed(runs.__next__)
        tries.append(3 - len(list(runs)))
    assert tries == [3, 1, 1, 3]


def test_a_program_that_is_slow_in_any_case_is_not_timed_again() -> None:
    runs = timings(4.0, 3.0)
    watch = Contention([Signs(True, True)])
    found = watch.undisturbed(
        lambda: next(runs), lambda timing, slower: timing.fastest / slower < 1
    )
    assert found.samples == (4.0,) and found.disturbance == Disturbance(0, 2, 2.0, 4.5)


def test_of_tries_that_do_not_help_the_fastest_is_kept() -> None:
    runs = timings(4.0, 8.0)
    watch = Contention([Signs(True, True)])
    found = watch.undisturbed(lambda: next(runs), lambda timing, slower: timing.fastest < 5)
    assert found.samples == (4.0,) and found.disturbance == Disturbance(0, 4, 2.0, 4.5)


def test_patience_ends() -> None:
    now = iter([0.0, 1.0])
    watch = Contention([Signs(True)], clock=lambda: next(now))
    assert watch.undisturbed(lambda: Sample(2.0), patience_seconds=0.5) == Sample(2.0, 1.0)


def test_what_the_system_tells_is_not_overruled_by_a_quiet_look() -> None:
    known = ProgramTiming((1.0,), disturbance=Disturbance(1, 9, 0.5, 1.0))
    assert Contention([Signs(False)]).undisturbed(lambda: known) == known
    assert Contention([Signs(False)]).undisturbed(lambda: Sample(1.0, 0.5)) == Sample(1.0, 0.5)


def test_all_samples_of_a_discarded_try_count() -> None:
    runs = iter(
        [ProgramTiming((1.0,), disturbance=Disturbance(1, 9, 0.5, 1.0)), ProgramTiming((1.0, 1.1))]
    )
    found = Contention([Signs(True, False)]).undisturbed(lambda: next(runs))
    assert found.disturbance == Disturbance(2, 10, 1.0, 1.1)


def test_without_signs_nothing_is_judged() -> None:
    assert Contention(()).undisturbed(lambda: ProgramTiming((1.0,))).disturbance is None


def test_the_work_of_a_cpu_takes_time() -> None:
    assert hashing()() > 0
    seconds = reading(memory(None))
    assert all(seconds() > 0 for _ in range(9))


@pytest.mark.parametrize(
    ("cache", "size"),
    [(None, 16 << 20), (1 << 20, 16 << 20), (24 << 20, 48 << 20), (1 << 30, 64 << 20)],
)
def test_the_memory_that_is_read_is_larger_than_a_cache(cache: int | None, size: int) -> None:
    assert len(memory(cache)) == size
