"""Choice points: options, labels, probabilities, forced options, and bounds."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import InstructionError, SpaceError
from schedlang.language.recorder import MAX_CHOICES
from tests.spaces.programs import fork, never, product, tile


def named() -> None:
    """A function as an option."""


def test_the_option_itself_is_returned_and_its_label_recorded() -> None:
    class Anonymous:
        def __str__(self) -> str:
            return "anonymous"

    options: list[Any] = [True, 7, 0.5, "text", None, named, tile, [1, 2], Anonymous()]
    labels = [True, 7, 0.5, "text", "None", "named", "tile", "[1, 2]", "anonymous"]
    sch = sl.Schedule(product())
    for number, option in enumerate(options):
        assert sch.choose("option", options, decision=number) is option
    assert list(sch.trace.choices.values()) == labels
    assert list(sch.trace.choices)[:3] == ["option", "option#1", "option#2"]
    assert [i.decision for i in sch.trace.instructions] == list(range(len(options)))
    assert sl.Trace.from_json(sch.trace.to_json()) == sch.trace


def test_options_are_drawn_with_their_probabilities() -> None:
    """A correct draw fails this with a probability of less than 1e-9 (6 standard deviations)."""
    n = 2000
    sch = sl.Schedule(product(), seed=0)
    met = Counter(
        sl.Schedule(product(), seed=seed).choose("option", ("a", "b", "c"), [1, 3, 0])
        for seed in range(n)
    )
    assert met["c"] == 0
    assert abs(met["b"] - 0.75 * n) < 6 * math.sqrt(n * 0.75 * 0.25)
    assert sch.choose("one", ["only"]) == "only"
    assert sch.trace.log_prob() == 0.0
    sch.choose("option", ("a", "b"), probs=[1, 3], decision=1)
    assert sch.trace.log_prob() == pytest.approx(math.log(0.75))


def test_a_forced_option_is_taken_if_it_can_be() -> None:
    sch = sl.Schedule(product())
    assert sch.choose("option", ("a", "b"), decision=1) == "b"
    assert sch.choose("option", ("a", "b"), decision=np.int64(1)) == "b"  # type: ignore[arg-type]
    for decision, why in ((2, r"is not in 0\.\.1"), (-1, r"is not in 0\.\.1"), ("b", "is not in")):
        with pytest.raises(InstructionError, match=f"option {decision} of 'option#2' {why}"):
            sch.choose("option", ("a", "b"), decision=decision)  # type: ignore[arg-type]
    with pytest.raises(InstructionError, match="option 0 of 'option#2' has probability 0"):
        sch.choose("option", ("a", "b"), probs=[0, 1], decision=0)
    assert len(sch.trace) == 2


@pytest.mark.parametrize(
    ("options", "probs", "why"),
    [
        ((), None, "at least one"),
        ("ab", None, "takes a list"),
        (("a", "b"), [1], "2 weights"),
        (("a", "b"), [1, 2, 3], "2 weights"),
        (("a", "b"), [0, 0], "above 0"),
        (("a", "b"), [-1, 2], "not negative"),
        (("a", "b"), [float("nan"), 2], "finite"),
    ],
)
def test_wrong_options_are_refused(options: Any, probs: Any, why: str) -> None:
    sch = sl.Schedule(product())
    with pytest.raises(InstructionError, match=why) as caught:
        sch.choose("option", options, probs)
    assert caught.value.instruction == "choose"
    assert caught.value.location.startswith(__file__)
    assert len(sch.trace) == 0


def test_options_of_probability_zero_are_in_no_sketch() -> None:
    @sl.module
    def biased(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.choose("option", ("never", "some", "more", "not"), probs=[0, 1, 2, 0])

    space = sl.Space([biased])
    assert [sketch.choices for sketch in space.sketches(product())] == [
        (("option", "some"),),
        (("option", "more"),),
    ]
    with pytest.raises(InstructionError, match="option 0 of 'option' has probability 0"):
        space.sample(product(), choices={"option": "never"})


def test_endless_choices_name_the_choice_and_the_module() -> None:
    @sl.module
    def endless(sch: sl.Schedule, block: sl.BlockRV) -> None:
        while True:
            sch.choose("again", (True, False))

    space = sl.Space([endless])
    for run in (space.sample, space.sketches):
        with pytest.raises(SpaceError) as caught:
            run(product())
        message = str(caught.value)
        assert f"more than {MAX_CHOICES} choices" in message
        assert "'again'" in message and "module endless" in message


def test_a_choice_is_replayed_as_it_was() -> None:
    sch = sl.Space([fork]).sample(product(), choices={"way": "middle", "inner": "thick"})
    again = sch.trace.replay()
    assert again.trace.choices == {"way": "middle", "inner": "thick"}
    assert again.trace == sch.trace


def test_choices_of_what_did_not_apply_are_forgotten() -> None:
    @sl.module
    def chooses_then_gives_up(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.choose("way", ("left", "middle", "right"))
        never(sch, block)

    space = sl.Space([chooses_then_gives_up, fork])
    sch = space.sample(product(), choices={"way": "middle", "inner": "thick"})
    assert (
        sch.trace
        == sl.Space([fork]).sample(product(), choices={"way": "middle", "inner": "thick"}).trace
    )
