"""Stored traces: exact round trips; files that are cut off, damaged, too large or none."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from schedlang.interpreters.document import MAX_BYTES, MAX_DEPTH
from schedlang.interpreters.stored_trace import SCHEMA
from schedlang.language.schedule import Schedule, Trace
from schedlang.modules import unroll_tile
from schedlang.tvm.program import structurally_equal
from tests.formats.reading import loads_soundly_or_is_refused, refused, stored
from tests.language.programs import SPACE, convolution, everything, product, recorded

ASSETS = Path(__file__).parent / "assets"
RECORDED = recorded()


# -- round trips -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sch", RECORDED)
def test_a_trace_comes_back_as_it_was(sch: Schedule) -> None:
    text = sch.trace.to_json()
    assert "\n" not in text
    for form in (text, text.encode()):
        loaded = Trace.from_json(form, sch.workload)
        assert loaded == sch.trace
        assert hash(loaded) == hash(sch.trace)
        assert loaded.to_json() == text
        assert str(loaded) == str(sch.trace)
        assert loaded.decisions == sch.trace.decisions
        assert loaded.distributions == sch.trace.distributions
        assert loaded.choices == sch.trace.choices
        assert loaded.log_prob() == sch.trace.log_prob()
        assert structurally_equal(loaded.replay().mod, sch.mod)
    assert stored(sch)["schema"] in (1, SCHEMA)


READER = """
import sys
from schedlang import Trace
early = [name for name in sys.modules if name.startswith("schedlang.modules")]
text = sys.stdin.read()
print(early, Trace.from_json(text).to_json() == text)
"""


def test_a_fresh_process_knows_the_instructions_of_modules() -> None:
    """They are imported when the first one is met, not before."""
    sch = Schedule(product())
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    unroll_tile(sch, sch.get_block("C"), 1, 8)
    assert stored(sch)["instructions"][-1]["kind"] == "unroll_tile"
    done = subprocess.run(
        [sys.executable, "-c", READER], input=sch.trace.to_json(), capture_output=True, text=True
    )
    assert done.stdout == "[] True\n", done.stderr


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), on_convolution=st.booleans())
def test_every_sample_comes_back_as_it_was(seed: int, on_convolution: bool) -> None:
    sch = SPACE.sample(convolution(), seed=seed) if on_convolution else everything(seed)
    loaded = Trace.from_json(sch.trace.to_json())
    assert loaded == sch.trace
    again = loaded.replay(sch.workload)
    assert structurally_equal(again.mod, sch.mod)
    assert again.trace.to_json() == sch.trace.to_json()


def test_floats_and_integers_keep_their_type_and_last_bit() -> None:
    sch = Schedule(product())
    values = [
        0.1,
        1 / 3,
        5e-324,
        1e308,
        -0.0,
        1,
        1.0,
        True,
        2**63 - 1,
        -(2**63),
        None,
        "",
        "ü\u2028",
    ]
    special = [float("inf"), float("-inf"), float("nan")]
    sch.annotate(sch.get_block("C"), "note", values)
    sch.annotate(sch.get_block("C"), "special", special)
    loaded = Trace.from_json(sch.trace.to_json())
    kept = [instruction.args[2] for instruction in loaded.instructions[1::2]]
    assert repr(kept) == repr([tuple(values), tuple(special)])
    assert loaded == sch.trace


def test_traces_that_differ_in_a_type_only_are_different() -> None:
    traces = []
    for value in (1, 1.0, True, "1"):
        sch = Schedule(product())
        sch.annotate(sch.get_block("C"), "note", value)
        traces.append(sch.trace)
    assert len(set(traces)) == 4


def test_schema_1_stays_readable() -> None:
    text = (ASSETS / "schema_1.json").read_text(encoding="utf-8").strip()
    trace = Trace.from_json(text, product())
    *written, last = json.loads(trace.to_json())["instructions"]
    assert last == {"kind": "overlap_last_tiles", "args": {}}
    for old, new in zip(json.loads(text)["instructions"], written, strict=True):
        # What a later version added is an option at its default.
        added = new["args"].keys() - old["args"].keys()
        assert {**new, "args": {k: v for k, v in new["args"].items() if k not in added}} == old
        assert added <= {"decay"}
    assert trace.decisions == {
        "width": 2,
        "tile j": (4, 4),
        "sample_partitioned_tile": (2, 1, 8),
        "order": (0, 1),
        "items": (1, 3),
        "sample_int_range": 9,
        "any": 1,
        "where": -1,
    }
    assert trace.choices == {"unroll": "never"}
    assert len(trace) == 24 + 1
    again = trace.replay()
    assert again.trace == trace
    assert not structurally_equal(again.mod, product().mod)


# -- files cut off, damaged, or too large ----------------------------------------------------------


@pytest.mark.parametrize("sch", RECORDED[:1] + RECORDED[2:3])
def test_truncated_files_are_refused(sch: Schedule) -> None:
    text = sch.trace.to_json()
    for end in range(0, len(text), 37):
        assert "line 1 column" in refused(text[:end]).where
        refused(text[:end].encode())


def test_damaged_files_are_refused_or_sound() -> None:
    rng = random.Random(0)
    loaded = 0
    for number in range(300):
        sch = RECORDED[number % len(RECORDED)]
        damaged = bytearray(sch.trace.to_json().encode())
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        loaded += loads_soundly_or_is_refused(bytes(damaged), sch.workload)
    assert 0 < loaded < 300


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert refused(text).where


def test_nesting_that_json_can_read_is_bounded_too() -> None:
    document = stored(RECORDED[0])
    value: Any = 1
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    document["instructions"][0]["args"]["name"] = value
    error = refused(json.dumps(document))
    assert error.where.startswith("trace.instructions[0].args.name[0]")
    assert f"nested deeper than {MAX_DEPTH}" in error.problem


def test_a_huge_file_is_refused_by_its_size() -> None:
    huge = "x" * (100 << 20)
    assert f"at most {MAX_BYTES}" in refused(huge).problem
    assert f"at most {MAX_BYTES}" in refused(huge.encode()).problem


def test_a_long_string_or_list_inside_is_refused() -> None:
    many = 70_000
    for value in ("x" * many, [0] * many, {"x" * many: 1}, {str(k): 0 for k in range(many)}):
        document = stored(RECORDED[0])
        document["instructions"][0]["args"]["name"] = value
        assert refused(json.dumps(document)).where == "trace.instructions[0].args.name"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "7",
        '"text"',
        "{}",
        "NaN",
        '{"schema": 1, "instructions": NaN}',
        '{"schema": 1, "instructions": [Infinity]}',
        '{"schema": 1, "instructions": [-Infinity]}',
        '{"schema": 1, "instructions": [1e999]}',
        '{"schema": 1, "schema": 1, "instructions": []}',
        '{"schema": 1, "instructions": [], "instructions": []}',
        '{"schema": 1, "instructions": [' + "9" * 10_000 + "]}",
        '{"schema": 1, "instructions": [-' + "9" * 100 + "]}",
        '{"schema": 1, "instructions": []} {}',
        "\ufeff" + '{"schema": 1, "instructions": []}',
        b"\xff\xfe",
        b'{"schema": 1, "instructions": ["\xc3\x28"]}',
        '{"schema": 1, "instructions": []}'.encode("utf-16"),
    ],
)
def test_what_is_no_trace_is_refused(text: str | bytes) -> None:
    refused(text)


def test_an_empty_trace_is_one() -> None:
    trace = Trace.from_json('{"schema": 1, "instructions": []}', product())
    assert len(trace) == 0
    assert structurally_equal(trace.replay().mod, product().mod)
