"""What other programs use of the cores, by files that a test plays, and by the real ones."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import astuple
from pathlib import Path

import pytest

from schedlang.measurement.disturbance import CoreUse
from schedlang.targets.measure.contention import CoreWatch

OWN, WORKER, CHILD, STRANGER = 10, 11, 12, 99


class System:
    """A folder like ``/proc``, of a machine with three cores, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        self.cores({0: (100, 900, 0), 1: (50, 950, 0), 2: (0, 1000, 0)})
        self.process(OWN, 1, 30, 5)
        self.process(WORKER, OWN, 20, 0)
        self.process(CHILD, WORKER, 4, 0)
        self.process(STRANGER, 1, 500, 100)

    def cores(self, ticks: dict[int, tuple[int, int, int]]) -> None:
        """Say the ticks of each core: busy, idle and stolen."""
        lines = [f"cpu{n} {a} 0 0 {b} 0 0 0 {c} 0 0" for n, (a, b, c) in ticks.items()]
        text = "\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 5 6", "ctxt 7", ""])
        (self.root / "stat").write_text(text)

    def process(self, number: int, parent: int, own: int, ended: int) -> None:
        """Say the ticks of a process, and of its children that have ended."""
        folder = self.root / str(number)
        folder.mkdir(exist_ok=True)
        before = "0 " * 9
        text = f"{number} (a) b) c) S {parent} {before}{own} 0 {ended} 0 20 0 1 0 7"
        (folder / "stat").write_text(text)

    def end(self, number: int) -> None:
        """End a process."""
        shutil.rmtree(self.root / str(number))

    def watch(self, cpus: tuple[int, ...] = (0, 1)) -> CoreWatch:
        return CoreWatch(self.root, cpus=cpus, process=OWN, clock=lambda: self.now)


def numbers(use: CoreUse | None) -> tuple[float, ...] | None:
    """Return the numbers, without errors of rounding."""
    return use and tuple(round(number, 6) for number in astuple(use))


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_what_this_process_and_its_descendants_use_is_not_others(system: System) -> None:
    watch = system.watch()
    system.now = 1.0
    system.cores({0: (190, 900, 10), 1: (120, 980, 0), 2: (0, 1000, 0)})
    system.process(OWN, 1, 40, 5)
    system.process(CHILD, WORKER, 54, 0)
    # 160 of 200 ticks were busy, and 60 of them were ours.
    assert numbers(watch.use()) == (1.0, 2, 1.0, 0.1)
    assert str(watch.use()) == "others used 1.0 of 2 cores, and the host took 0.1"


def test_processes_that_begin_and_end_meanwhile_are_known(system: System) -> None:
    watch = system.watch()
    system.now = 1.0
    system.cores({0: (200, 900, 0), 1: (50, 1050, 0), 2: (0, 1000, 0)})
    system.end(CHILD)
    system.process(WORKER, OWN, 20, 54)
    system.process(13, WORKER, 30, 0)
    assert numbers(watch.use()) == (1.0, 2, 0.2, 0.0)


def test_what_is_ours_by_rounding_is_never_more_than_there_was(system: System) -> None:
    watch = system.watch()
    system.now = 1.0
    system.cores({0: (110, 990, 0), 1: (50, 1050, 0), 2: (0, 1000, 0)})
    system.process(OWN, 1, 45, 5)
    assert numbers(watch.use()) == (1.0, 2, 0.0, 0.0)


def test_where_the_files_tell_nothing_nothing_is_known(system: System) -> None:
    watch = system.watch()
    system.now = 1.0
    assert watch.use() is None  # they stand still
    system.cores({0: (50, 900, 0), 1: (50, 950, 0), 2: (0, 0, 0)})
    assert watch.use() is None  # they go back
    system.cores({0: (200, 900, 0)})
    assert watch.use() is None  # a core is gone
    (system.root / "stat").write_text("cpu0 x\n\x00")
    assert watch.use() is None
    (system.root / "stat").unlink()
    assert watch.use() is None
    assert system.watch().use() is None
    assert CoreWatch(system.root / "none").use() is None


def test_this_process_must_be_told_of(system: System) -> None:
    watch = system.watch()
    system.now = 1.0
    system.cores({0: (200, 900, 0), 1: (50, 1050, 0), 2: (0, 1000, 0)})
    (system.root / str(OWN) / "stat").write_text("damaged")
    assert watch.use() is None


def test_a_moment_says_nothing(system: System) -> None:
    watch = system.watch()
    system.now = 0.01
    system.cores({0: (101, 900, 0), 1: (50, 951, 0), 2: (0, 1000, 0)})
    assert watch.use() is None


def test_a_live_view_reads_seldom(system: System) -> None:
    watch = system.watch()
    for now, known in ((0.0, False), (0.05, False), (1.0, True), (1.05, True)):
        system.now = now
        system.cores({0: (100 + int(100 * now), 900, 0), 1: (50, 950, 0), 2: (0, 1000, 0)})
        assert (watch.recent_use() is not None) == known, now
    assert numbers(watch.recent_use()) == (1.0, 2, 2.0, 0.0)


@pytest.mark.skipif(not Path("/proc/stat").is_file(), reason="no such files here")
def test_the_real_files_do_not_count_this_process() -> None:
    watch = CoreWatch()
    before, end = os.times(), time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    use, after = watch.use(), os.times()
    assert use is None or use.others + use.stolen <= use.cores + 1e-9
    if use is not None:
        own = (after.user - before.user + after.system - before.system) / use.seconds
        assert use.others <= use.cores - own + 0.3


@pytest.mark.parametrize("wrong", [(0.0, 2, 1.0), (1.0, 0, 1.0), (1.0, 2, -0.1), (1.0, 2, 1.0, -1)])
def test_impossible_uses_are_refused(wrong: tuple[float, int, float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        CoreUse(*wrong)
