"""What a user gives: inputs, tolerance and reference, checked against the workload's arguments."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from schedlang.measurement.problem import Problem, Tolerance, tolerances_of
from schedlang.targets.measure import floating_point
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import InputDraw
from schedlang.targets.measure.inputs import InputSource, random_inputs
from schedlang.targets.measure.numerics import compare
from schedlang.targets.measure.problem_values import check_problem, results_of, values_of
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.right_results import Results
from schedlang.tvm.analysis.index_ranges import ValueRange
from schedlang.workloads.workload import Argument
from tests.targets.programs import matmul
from tests.targets.worker import state_changes

A = Argument("A", (2, 3), "float32", "input")
INDEX = Argument("index", (4,), "int32", "input")
STATE = Argument("state", (2,), "float32", "inout")
OUT = Argument("out", (2,), "float32", "output")
TINY = Argument("tiny", (2,), "float32", "input")
ARGS = (A, OUT, INDEX, STATE)
OUTPUTS = ("out", "state")

a = np.ones((2, 3), "float32")
index = np.arange(4, dtype="int32")
state = np.zeros(2, "float32")


def test_values_are_in_the_order_of_what_is_read_or_by_name() -> None:
    for inputs in ([a, index, state], (a, index, state), dict(state=state, A=a, index=index)):
        values = values_of(Problem(inputs), ARGS, seed=0)
        assert values is not None
        [draw] = values
        assert [value.tolist() for value in draw] == [a.tolist(), index.tolist(), state.tolist()]
    assert values_of(Problem(), ARGS, seed=0) is None


def test_later_changes_of_an_array_do_not_count() -> None:
    mine = a.copy()
    values = values_of(Problem([mine, index, state]), ARGS, seed=0)
    mine[:] = 7
    assert values is not None and values[0][0].max() == 1


def test_a_function_draws_from_the_seed() -> None:
    problem = Problem(lambda rng: [rng.random((2, 3), "float32"), index, state])
    first, again, other = (values_of(problem, ARGS, seed=seed) for seed in (1, 1, 2))
    assert first is not None and again is not None and other is not None
    assert (first[0][0] == again[0][0]).all() and (first[0][0] != other[0][0]).any()


def test_a_function_is_called_for_each_draw_and_arrays_are_one() -> None:
    drawn = Problem(lambda rng: [rng.random((2, 3), "float32"), index, state])
    several = values_of(drawn, ARGS, seed=1, draws=3)
    once = values_of(drawn, ARGS, seed=1)
    assert several is not None and once is not None and len(several) == 3
    assert (several[0][0] == once[0][0]).all() and (several[1][0] != several[2][0]).any()
    given = values_of(Problem([a, index, state]), ARGS, seed=1, draws=3)
    assert given is not None and len(given) == 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([a, index], r"inputs has 2 arrays, and the program reads 3 arguments: A, index, state"),
        ([a.T, index, state], r"inputs\[0\]: argument 'A' has the shape \(2, 3\), .* \(3, 2\)"),
        (
            [a, index.astype("int64"), state],
            r"argument 'index' is int32, and the array is int64; convert .*\.astype\('int32'\)",
        ),
        ({"A": a, "index": index}, "inputs lacks 'state'; the program reads A, index, state"),
        ({"A": a, "out": state}, "inputs names 'out'; the program reads A, index, state"),
        (lambda rng: [a], "inputs has 1 arrays"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_problem(Problem(inputs), ARGS)


@pytest.mark.parametrize("inputs", ["text", 3.0, object()])
def test_inputs_of_another_type_are_refused(inputs: Any) -> None:
    with pytest.raises(TypeError, match="inputs is a list of arrays"):
        Problem(inputs)


@pytest.mark.parametrize(
    ("tolerance", "error"),
    [
        (-1e-3, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        ((1e-3, -1.0), ValueError),
        ("1e-3", TypeError),
        ((1e-3,), TypeError),
        (True, TypeError),
        ({"out": -1.0}, ValueError),
    ],
)
def test_a_tolerance_that_is_none_is_refused_at_once(tolerance: Any, error: type) -> None:
    with pytest.raises(error, match="tolerance"):
        Problem(tolerance=tolerance)


def test_tolerances_by_output() -> None:
    assert tolerances_of(None, OUTPUTS) == (None, None)
    assert tolerances_of(0.5, OUTPUTS) == (Tolerance(0.5), Tolerance(0.5))
    assert tolerances_of({"state": (0.1, 2)}, OUTPUTS) == (None, Tolerance(0.1, 2.0))
    assert tolerances_of({0: 0.1}, OUTPUTS) == (Tolerance(0.1), None)
    with pytest.raises(ValueError, match="names the output 'A'; the outputs are 'out', 'state'"):
        tolerances_of({"A": 0.1}, OUTPUTS)


def test_a_tolerance_replaces_the_default_of_its_output() -> None:
    want, got = np.array([1.0, 100.0]), np.array([1.5, 100.0])
    kinds = ["float64"]
    assert compare([got], [want], kinds) is not None
    assert compare([got], [want], kinds, tolerances=(Tolerance(0.01),)) is None  # of the scale
    assert compare([got], [want], kinds, tolerances=(Tolerance(0.01, 0.0),)) is not None
    assert compare([got], [want], kinds, tolerances=(Tolerance(0.01, 0.5),)) is None
    whole = [np.array([3, 4])], [np.array([4, 4])], ["int64"]
    assert compare(*whole) is not None
    assert compare(*whole, tolerances=(Tolerance(0.0, 1.0),)) is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the rounding mode is known")
def test_the_reference_computes_by_default_in_a_process_that_does_not() -> None:
    """Libraries such as torch have denormal numbers flushed where a user asks for it."""
    state_changes.flush()
    try:
        tiny = Problem(reference=lambda given: given * np.float32(1e-20))
        given = ((np.full(2, 1e-22, "float32"),),)
        found = results_of(tiny, InputSource((TINY, OUT), 0, given=given))
        assert floating_point.changes() == ("how denormal numbers are computed with",)
    finally:
        floating_point.use_default()
    assert found is not None and (found.results[0].expected[0] > 0).all()


def test_the_reference_gets_copies_and_may_return_wider_numbers() -> None:
    def double(x: Any, i: Any, s: Any) -> Any:
        x *= 2
        return x.sum(axis=1, dtype="float64"), np.array([1, 2])

    values = values_of(Problem([a, index, state]), ARGS, seed=0)
    found = results_of(Problem(reference=double), InputSource(ARGS, 0, given=values))
    assert found is not None and values is not None
    assert values[0][0].max() == 1
    [one] = found.results
    assert [value.dtype for value in one.expected] == ["float32", "float32"]
    assert one.expected[0].tolist() == [6, 6]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(2, "float32"), "returned 1 arrays, and the program writes 2: out, state"),
        ([np.zeros(3), np.zeros(2)], r"output 'out' has the shape \(2,\), .* \(3,\)"),
        ([np.zeros(2), np.full(2, np.nan)], "reference gives NaN in 'state'"),
        ([np.zeros(2), np.array(["a", "b"])], "output 'state' is float32, .* returned <U1"),
    ],
)
def test_results_that_do_not_fit_are_named(result: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        results_of(Problem(reference=lambda *inputs: result), InputSource(ARGS, 0))


def test_an_exception_says_whose_function_raised_it() -> None:
    def fails(*inputs: Any) -> Any:
        raise KeyError("mine")

    for given, call in (
        (Problem(inputs=fails), lambda problem: values_of(problem, ARGS, seed=0)),
        (Problem(reference=fails), lambda problem: results_of(problem, InputSource(ARGS, 0))),
    ):
        with pytest.raises(KeyError, match="mine") as caught:
            call(given)
        [name] = given.given()
        assert caught.value.__notes__ == [f"in the function that was given as {name}="]


def test_whole_results_must_fit_their_type() -> None:
    counts = (Argument("n", (2,), "int8", "output"),)
    source = InputSource(counts, 0)
    fits = results_of(Problem(reference=lambda: np.array([1, 2])), source)
    assert fits is not None and fits.results[0].expected[0].dtype == np.int8
    for wrong in (np.array([1, 300]), np.array([1.0, 2.0])):
        with pytest.raises(ValueError, match="output 'n' is int8"):
            results_of(Problem(reference=lambda wrong=wrong: wrong), source)


def test_random_inputs_that_give_nan_are_drawn_positive() -> None:
    args = (Argument("x", (64,), "float32", "input"), Argument("y", (64,), "float32", "output"))
    source = InputSource(args, 3)
    found = results_of(Problem(reference=np.sqrt), source, draws=3)
    assert found is not None and len(found.results) == 3
    for one in found.results:
        assert one.draw.positive == {0}
        [x, _] = source.values(one.draw)
        assert x is not None and (one.expected[0] == np.sqrt(x)).all()
    assert found.results[0].expected[0].max() < 1 < found.results[1].expected[0].max()


def test_a_reference_that_refuses_unusual_inputs_judges_the_usual_ones() -> None:
    def picky(x: Any) -> Any:
        assert np.abs(x).max() <= 1
        return x

    args = (Argument("x", (64,), "float32", "input"), Argument("y", (64,), "float32", "output"))
    found = results_of(Problem(reference=picky), InputSource(args, 0), draws=3)
    assert found is not None and {one.draw.spreads[0] for one in found.results} == {"plain"}


def test_a_reference_is_not_asked_for_what_rounding_decides() -> None:
    def rough(x: Any) -> Any:
        return np.exp(x / 2)

    args = (Argument("x", (64,), "float32", "input"), Argument("y", (64,), "float32", "output"))
    found = results_of(Problem(reference=rough), InputSource(args, 0), draws=3)
    assert found is not None
    assert [one.draw.spreads[0] for one in found.results] == ["plain", "wide", "wide"]


def test_a_problem_travels_to_a_worker() -> None:
    workload = matmul()
    args = (
        Argument("x", (2,), "bfloat16", "input"),
        Argument("y", (), "float32", "output"),
        Argument("z", (2,), "bool", "output"),
    )
    x = np.array([1, 2], ml_dtypes.bfloat16)
    mask = np.array([True, False])
    draws = [InputDraw(n, ("plain", "wide", "plain"), frozenset({0})) for n in range(2)]
    right = (np.array(3, "float32"), np.array([True, False]))
    known = Reference(tuple(Results(draw, right, (None, mask)) for draw in draws), seconds=1.5)
    values = ((x,), (x + x,))
    sent = Binding(workload.mod, args, 5, True, 1e-9, values, (Tolerance(0.5, 1.0), None), known, 2)
    found = Binding.unpack(*sent.pack())
    assert found.values is not None and found.draws == 2
    assert [draw[0].tolist() for draw in found.values] == [[1, 2], [2, 4]]
    assert found.values[0][0].dtype == ml_dtypes.bfloat16
    assert found.tolerances == sent.tolerances
    assert found.reference is not None
    assert [one.draw for one in found.reference.results] == draws
    assert found.reference.seconds == 1.5
    one = found.reference.results[1]
    assert one.expected[0].shape == () and one.expected[0] == 3
    assert one.untouched[0] is None
    assert (one.untouched[1] == mask).all()  # type: ignore[comparison-overlap]
    plain = Binding.unpack(*Binding(workload.mod, workload.args, 0, True).pack())
    assert plain.values is None and plain.reference is None and plain.tolerances == ()


def test_what_is_given_is_described() -> None:
    assert Problem().describe() == {}
    said = Problem([a], (1e-3, 0), np.sqrt).describe()
    assert said["inputs"] == "the given arrays only"
    assert said["tolerance"] == "(0.001, 0)" and "sqrt" in said["reference"]
    drawn = Problem(test_what_is_given_is_described).describe()["inputs"]
    assert drawn.startswith("drawn by ") and drawn.endswith("test_what_is_given_is_described")


def test_ranges_of_single_arguments() -> None:
    args = (INDEX, Argument("rows", (1000,), "int64", "input"), A)
    plain, ranged = random_inputs(args, 0), random_inputs(args, 0, ranges={1: ValueRange(5, 999)})
    assert plain[0] is not None and ranged[0] is not None and ranged[1] is not None
    assert (plain[0] == ranged[0]).all()
    assert ranged[1].min() >= 5 and ranged[1].max() > 500 and ranged[1].dtype == np.int64


@pytest.mark.parametrize(
    ("dtype", "wanted", "low", "high"),
    [
        ("int64", ValueRange(0, 999), 0, 999),
        ("int32", ValueRange(-7, None), -7, 49),
        ("int32", ValueRange(None, 20), 0, 20),
        ("int32", ValueRange(1000, None), 1000, 1000),
        ("int32", ValueRange(None, -3), -3, -3),
        ("int8", ValueRange(1, None), 1, 127),
        ("int8", ValueRange(0, 999), 0, 127),
        ("int8", ValueRange(500, 999), 127, 127),
        ("uint8", ValueRange(-4, 3), 0, 3),
        ("uint64", ValueRange(1, None), 1, 49),
    ],
)
def test_a_range_is_drawn_in_full_and_kept(
    dtype: str, wanted: ValueRange, low: int, high: int
) -> None:
    args = (Argument("p", (10000,), dtype, "input"), Argument("x", (50,), "float32", "input"))
    drawn = random_inputs(args, 0, ranges={0: wanted})[0]
    assert drawn is not None and drawn.dtype == np.dtype(dtype)
    assert (drawn.min(), drawn.max()) == (low, high)


def test_offsets_ascend() -> None:
    args = (Argument("start", (100,), "int32", "input"),)
    (drawn,) = random_inputs(args, 0, ranges={0: ValueRange(0, 1000, ascending=True)})
    assert drawn is not None and (np.diff(drawn) >= 0).all() and drawn[-1] > 900


def test_without_ranges_small_integers_have_all_values_of_their_type() -> None:
    shape = (3, 7)
    args = [Argument(t, shape, t, "input") for t in ("int32", "int8", "uint16", "float32", "int64")]
    rng = np.random.default_rng(5)
    expected = [
        rng.integers(0, 3, shape),
        rng.integers(-128, 128, shape),
        rng.integers(0, 65536, shape),
        rng.uniform(-1.0, 1.0, shape),
        rng.integers(0, 3, shape),
    ]
    for value, right, arg in zip(random_inputs(args, 5), expected, args, strict=True):
        assert value is not None and value.dtype == np.dtype(arg.dtype)
        assert (value == right.astype(arg.dtype)).all()
