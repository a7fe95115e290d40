"""Traces that somebody made up are refused, sound or invalid; they never crash or run code."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from schedlang.language.schedule import Trace
from tests.formats.reading import loads_soundly_or_is_refused, stored
from tests.language.programs import everything, product, recorded


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(item, (*path, key))


def _replaced(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    document = copy.deepcopy(document)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return document


# Any JSON, and what stands somewhere in traces: the right form in the wrong place.
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.integers(-3, 20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["b0", "b1", "l2", "l4", "v5", "i0", "i1", "C", "read", "write", "global"])
)
_TAGGED = st.sampled_from(
    [
        {"rv": "b0"},
        {"rv": "b1"},
        {"rv": "l2"},
        {"rv": "l4"},
        {"rv": "v5"},
        {"float": "nan"},
        {"float": "inf"},
        {"expr": ["*", "v5", 2]},
        {"expr": ["//", "v5", 0]},
        {"expr": ["min", 2**62, ["*", 2**62, 2**62]]},
        {"map": {"in": ["n", "m"], "out": ["i1", "i0"]}},
        {"map": {"in": ["n"], "out": [["%", "i0", 0]]}},
        {"map": {"in": [], "out": []}},
        {"dict": {"key": 1}},
        {"distribution": {"kind": "categorical", "candidates": [1, 2], "probs": None}},
        {"distribution": {"kind": "perfect_tile", "extent": 16, "n": 2}},
    ]
)
_JSON = st.recursive(
    _SCALARS | _TAGGED,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
_DOCUMENTS = [(stored(sch), list(_places(stored(sch))), sch.workload) for sch in recorded()]


@settings(derandomize=True, deadline=None, max_examples=400)
@given(data=st.data())
def test_any_value_anywhere_is_refused_or_sound(data: st.DataObject) -> None:
    document, places, workload = data.draw(st.sampled_from(_DOCUMENTS))
    for _ in range(data.draw(st.integers(1, 2))):
        changed = _replaced(document, data.draw(st.sampled_from(places)), data.draw(_JSON))
    loads_soundly_or_is_refused(json.dumps(changed), workload)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(data=st.data())
def test_any_value_of_the_same_form_is_refused_or_sound(data: st.DataObject) -> None:
    """Values of the trace itself in each other's places: most load, and reach the interpreter."""
    document, places, workload = data.draw(st.sampled_from(_DOCUMENTS))
    place = data.draw(st.sampled_from([p for p in places if "args" in p and p[-1] != "args"]))
    old = _at(document, place)
    same = [v for p in places if "args" in p and type(v := _at(document, p)) is type(old)]
    new = data.draw(st.integers(-(2**63), 2**63 - 1) if type(old) is int else st.sampled_from(same))
    loads_soundly_or_is_refused(json.dumps(_replaced(document, place, new)), workload)


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def test_text_in_a_trace_never_runs(tmp_path: Path) -> None:
    """Not when it loads, replays or is printed; nor when what is printed runs as a program."""
    sentinel = tmp_path / "ran"
    attacks = [
        f"open({str(sentinel)!r}, 'w')",
        f"__import__('pathlib').Path({str(sentinel)!r}).touch()",
        f"\nopen({str(sentinel)!r}, 'w')\n",
        f"\ropen({str(sentinel)!r}, 'w')\r",
        f"'\nopen({str(sentinel)!r}, 'w')\n'",
        f'"""\nopen({str(sentinel)!r}, "w")\n"""',
        f"x', open({str(sentinel)!r}, 'w'), '",
        f"\\'\nopen({str(sentinel)!r}, 'w') #",
    ]
    for attack in attacks:
        document = stored(everything(0))
        instructions = document["instructions"]
        instructions[0]["module"] = attack
        instructions[3]["site"] = attack
        instructions[12]["args"]["ann_key"] = attack
        instructions[12]["args"]["ann_val"] = {"dict": {attack: ["read", attack]}}
        instructions[19]["site"] = attack + "?"
        instructions[19]["args"]["options"][0] = attack
        trace = Trace.from_json(json.dumps(document), product())
        assert trace.replay().trace == trace
        assert trace.flattened() and str(trace) and repr(trace)
        for program in (trace.as_python(), trace.as_tvm_python()):
            exec(compile(program, "printed.py", "exec"), {"__name__": "printed"})
        assert not sentinel.exists(), attack
