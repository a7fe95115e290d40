"""What a program changes in its process or in a thread of it is noticed, and called by its name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from schedlang.measurement import Status
from schedlang.targets.errors import Fault
from schedlang.targets.measure import floating_point
from schedlang.targets.worker.process_state import unchanged_process
from tests.targets.worker import state_changes
from tests.targets.worker.state_changes import CHANGES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells most of it")


@pytest.fixture(scope="module")
def reports() -> dict[str, str]:
    """What was noticed of each change, made in a process of its own."""
    command = [sys.executable, "-m", state_changes.__name__]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = (line.split("\t") for line in found.stdout.splitlines())
    return {name: noticed for name, noticed in lines}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed_and_named(name: str, reports: dict[str, str]) -> None:
    assert reports[name] != "nothing"
    assert name.partition(":")[0] in reports[name].split(", ")


def test_nothing_has_changed_when_nothing_was_changed(reports: dict[str, str]) -> None:
    assert reports["no change"] == "nothing"
    assert reports["threads of parallel loops that run"] == "nothing"


@pytest.fixture
def rounds_upwards() -> Iterator[Callable[[], None]]:
    def change() -> None:
        state_changes.library().fesetround(state_changes.UPWARDS)

    yield change
    floating_point.use_default()


def test_the_calling_thread_computes_by_default_after_a_check(
    rounds_upwards: Callable[[], None],
) -> None:
    floating_point.check()
    rounds_upwards()
    with pytest.raises(Fault, match="the program changed the rounding mode, and left it") as caught:
        floating_point.check()
    assert caught.value.status is Status.RUN_ERROR and caught.value.corrupt
    assert floating_point.changes() == ()
    floating_point.check()


@pytest.mark.parametrize("fails", [False, True])
def test_a_block_that_changes_the_process_is_a_fault(
    fails: bool, rounds_upwards: Callable[[], None]
) -> None:
    with pytest.raises(Fault, match="the program changed the rounding mode") as caught:
        with unchanged_process():
            rounds_upwards()
            if fails:
                raise Fault(Status.WRONG_RESULT, "it is off by 3")
    assert caught.value.corrupt
    assert caught.value.status is (Status.WRONG_RESULT if fails else Status.RUN_ERROR)
    assert ("off by 3; besides, " in str(caught.value)) == fails


def test_an_unknown_error_does_not_hide_a_change(rounds_upwards: Callable[[], None]) -> None:
    with pytest.raises(Fault, match="the program changed the rounding mode"):
        with unchanged_process():
            rounds_upwards()
            raise MemoryError


def test_a_block_that_fails_and_changes_nothing_fails_as_it_did() -> None:
    with pytest.raises(Fault, match="^it is off by 3$") as caught:
        with unchanged_process():
            raise Fault(Status.WRONG_RESULT, "it is off by 3")
    assert not caught.value.corrupt


def test_what_is_not_watched_may_change() -> None:
    watched, unwatched = open("/dev/null"), open("/dev/null")
    with unchanged_process(["its open files"]):
        unwatched.close()
    with pytest.raises(Fault, match="changed its open files"), unchanged_process():
        watched.close()
