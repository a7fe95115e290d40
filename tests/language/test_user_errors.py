"""Users' instructions: what is refused, and what the message says."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import schedlang as sl
from schedlang import analysis
from schedlang.errors import InstructionError, InvalidTrace, SpaceError
from schedlang.instructions.instruction import KINDS
from schedlang.language.schedule import Schedule, Trace
from tests.language import user_defined
from tests.language.primitives.programs import chain, integer_chain
from tests.language.programs import product
from tests.language.user_defined import PowerOfTwo, sample_divisor, scheduled, spread, tile_inner


def test_nothing_is_drawn_or_chosen_inside() -> None:
    def draws(sch: sl.Schedule) -> None:
        sch.sample_categorical([1, 2])

    def draws_what_is_given(sch: sl.Schedule) -> None:
        sch.sample_categorical([1, 2], decision=1)

    def chooses(sch: sl.Schedule) -> None:
        sch.choose("fork", (1, 2), decision=0)

    for function in (draws, draws_what_is_given, chooses):
        sch = Schedule(product())
        with pytest.raises(SpaceError, match="its body is not recorded; .* in the module"):
            sl.instruction(function)(sch)
        assert len(sch.trace) == 0


def test_wrong_arguments_name_the_instruction_the_argument_and_the_line() -> None:
    sch = Schedule(product())
    block = sch.get_block("C")
    with pytest.raises(
        InstructionError, match="argument 'lanes' takes an integer.*not str 'x'"
    ) as e:
        tile_inner(sch, block, "x")  # type: ignore[arg-type]
    assert e.value.instruction == "tile_inner"
    assert e.value.location.startswith(__file__)
    with pytest.raises(InstructionError, match="argument 'loops' takes a loop"):
        spread(sch, 2, block)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tile_inner: missing a required argument: 'lanes'"):
        tile_inner(sch, block)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'other'"):
        tile_inner(sch, block, 1, other=2)  # type: ignore[call-arg]
    with pytest.raises(InstructionError, match="decision 3 of 'sample_divisor' is not in the supp"):
        sample_divisor(sch, sch.get_loops(block)[0], decision=3)


def test_an_error_inside_names_the_inner_instruction_and_line() -> None:
    sch = Schedule(product())
    with pytest.raises(InstructionError) as caught:
        tile_inner(sch, sch.get_block("C"), 0)
    assert caught.value.instruction == "split"
    assert caught.value.location.startswith(user_defined.__file__)
    trace = scheduled().trace
    (position,) = [
        k for k, i in enumerate(trace.instructions) if i.kind.name == "spread" and i.outputs
    ]
    text = trace.to_json().replace('"width":2', '"width":0')
    with pytest.raises(InvalidTrace, match=r"spread\(width=0.*positive") as invalid:
        Trace.from_json(text, product()).replay()
    assert (invalid.value.reason, invalid.value.site) == ("instruction", "spread")
    assert position


def test_it_may_return_handles_only_and_as_many_as_when_recorded() -> None:
    @sl.instruction
    def returns_an_extent(sch: sl.Schedule, block: sl.BlockRV) -> Any:
        return sch.extent(sch.get_loops(block)[0])

    sch = Schedule(product())
    with pytest.raises(TypeError, match="returns_an_extent returned 16; it may return handles"):
        returns_an_extent(sch, sch.get_block("C"))

    @sl.instruction
    def tiles(sch: sl.Schedule, block: sl.BlockRV) -> list[sl.LoopRV]:
        loop = sch.get_loops(block)[0]
        return sch.split(loop, [None, 8]) if sch.extent(loop) > 8 else [loop]

    sch = Schedule(product())
    tiles(sch, sch.get_block("C"))
    with pytest.raises(InvalidTrace, match="returned 2 handles when recorded, now 1"):
        sch.trace.replay(product(8))


def test_a_name_that_is_taken_is_refused() -> None:
    def split(sch: sl.Schedule) -> None:
        """Named like a primitive."""

    with pytest.raises(SpaceError, match="'split' is defined in schedlang.language.primitives al"):
        sl.instruction(split)
    with pytest.raises(SpaceError, match="'split' is defined in schedlang.language.primitives al"):
        sl.sampling_instruction(split)  # type: ignore[arg-type]
    assert KINDS["split"].is_method


def test_defining_the_same_function_again_replaces_it() -> None:
    def define(width: int) -> Any:
        @sl.instruction
        def again(sch: sl.Schedule, block: sl.BlockRV) -> None:
            sch.split(sch.get_loops(block)[0], [None, width])

        return again

    for width in (2, 4):
        sch = Schedule(product())
        define(width)(sch, sch.get_block("C"))
        assert sch.extent(sch.get_loops("C")[1]) == width


def test_parameters_by_keyword_in_a_dictionary_are_refused() -> None:
    def options(sch: sl.Schedule, **rest: int) -> None:
        """Takes anything."""

    with pytest.raises(SpaceError, match=r"options: an instruction cannot take \*\*rest"):
        sl.instruction(options)


def test_a_sampling_instruction_must_return_a_distribution() -> None:
    @sl.sampling_instruction
    def returns_a_list(sch: sl.Schedule) -> Any:
        return [1, 2]

    with pytest.raises(TypeError, match="returns_a_list must return a Distribution, not list"):
        returns_a_list(Schedule(product()))


def test_a_distribution_that_is_not_registered_cannot_be_stored() -> None:
    class Unregistered(PowerOfTwo):
        kind: ClassVar[str] = "test_unregistered"

    sch = Schedule(product(), seed=0)
    assert sch.sample(Unregistered(3)) in (1, 2, 4)
    assert sch.trace.replay().trace.decisions == sch.trace.decisions
    with pytest.raises(sl.DistributionError, match="Unregistered is not registered; decorate"):
        sch.trace.to_json()


class Absent(Exception):
    """An error of a user's own."""


def test_what_a_function_of_indices_raises_is_the_cause() -> None:
    def raises(*indices: Any) -> Any:
        raise Absent("no such index")

    sch = Schedule(product())
    uses: list[Any] = [
        lambda: sch.transform_layout("C", ("write", 0), raises),
        lambda: sch.transform_block_layout("C", raises),
        lambda: sch.annotate_buffer_access("C", 0, "read", raises),
        lambda: sch.transform_layout("C", "C", lambda i, j: (i // 5, j, i % 5), pad_value=raises),
    ]
    for use in uses:
        with pytest.raises(InstructionError, match="Absent: no such index") as caught:
            use()
        assert isinstance(caught.value.__cause__, Absent)
    with pytest.raises(sl.NotApplicable):
        sch.transform_layout("C", ("write", 0), lambda i, j: analysis.require(False, "no"))


def test_a_padding_is_an_element_of_the_buffer_at_replay_too() -> None:
    sch = Schedule(chain())
    sch.transform_layout("B", "B", lambda i, j: (i // 5, j, i % 5), pad_value=0.5)
    with pytest.raises(InvalidTrace, match="takes an integer for a buffer of int32, not 0.5"):
        sch.trace.replay(integer_chain())
