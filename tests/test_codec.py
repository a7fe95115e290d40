"""The codec: what is written is read again, and a wrong value is refused with its place."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from schedlang.codec import CodecError, Stored, codec_of, decode, encode, register
from schedlang.files import Document, read_json


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Span(NamedTuple):
    begin: float
    end: float
    worker: int | None = None


@Stored(row=True)
@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(f"x={self.x}; give 0 or more")


@dataclass(frozen=True)
class Leaf:
    name: str


@Stored(row=True)
@dataclass(frozen=True)
class Fork:
    left: Leaf | Fork
    right: Leaf | Fork


class Opaque:
    """No dataclass: it is registered."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


register(Opaque, "an opaque text", (str,), Opaque, lambda one: one.text)


@Stored(names={"kind": "what"}, left_out=["note"])
@dataclass(frozen=True)
class Everything:
    number: int
    real: float
    truth: bool
    text: str
    kind: Color
    pair: tuple[int, str]
    points: tuple[Point, ...]
    spans: list[Span]
    names: frozenset[str]
    by_name: Mapping[str, Sequence[float]]
    by_number: Mapping[int, Point]
    tree: Leaf | Fork
    opaque: Opaque
    anything: Any = None
    note: str | None = None
    later: Sequence[str] = field(default_factory=list)


TEXTS = st.text(max_size=6)
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
REALS = st.floats(allow_nan=False)
POINTS = st.builds(Point, st.integers(0, 99), REALS)
TREES: st.SearchStrategy[Leaf | Fork] = st.recursive(
    st.builds(Leaf, TEXTS), lambda below: st.builds(Fork, below, below), max_leaves=6
)
EVERYTHING = st.builds(
    Everything,
    number=WHOLE,
    real=REALS,
    truth=st.booleans(),
    text=TEXTS,
    kind=st.sampled_from(Color),
    pair=st.tuples(WHOLE, TEXTS),
    points=st.lists(POINTS, max_size=3).map(tuple),
    spans=st.lists(st.builds(Span, REALS, REALS, st.none() | WHOLE), max_size=3),
    names=st.frozensets(TEXTS, max_size=3),
    by_name=st.dictionaries(TEXTS, st.lists(REALS, max_size=3), max_size=3),
    by_number=st.dictionaries(WHOLE, POINTS, max_size=3),
    tree=TREES,
    opaque=st.builds(Opaque, TEXTS),
    anything=st.none() | st.dictionaries(TEXTS, st.lists(WHOLE, max_size=2), max_size=2),
    note=st.none() | TEXTS,
    later=st.lists(TEXTS, max_size=3),
)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats() | TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=8,
)
SAMPLE = Everything(
    *(1, 0.5, True, "a", Color.RED, (1, "b"), (Point(1), Point(2, 3.0)), [Span(0.0, 1.0)]),
    *(frozenset("ab"), {"a": [1.0]}, {3: Point(4)}, Fork(Leaf("l"), Leaf("r")), Opaque("o")),
)


def through_text(value: Any, kind: Any = None) -> Any:
    """A value as JSON that was a text."""
    return json.loads(json.dumps(encode(value, kind)))


def through(value: Any, kind: Any = None) -> Any:
    """What is read of what was written."""
    return decode(kind or type(value), through_text(value, kind))


@given(EVERYTHING)
def test_what_is_written_is_read_again(value: Everything) -> None:
    assert through(value) == value
    assert decode(Everything, encode(value)) == value


def test_how_values_are_stored() -> None:
    assert encode(SAMPLE) == {
        **{"number": 1, "real": 0.5, "truth": True, "text": "a", "what": "red"},
        **{"pair": [1, "b"], "points": [[1, 0.0], [2, 3.0]], "spans": [[0.0, 1.0, None]]},
        **{"names": ["a", "b"], "by_name": {"a": [1.0]}, "by_number": [[3, [4, 0.0]]]},
        **{"tree": [{"name": "l"}, {"name": "r"}], "opaque": "o", "anything": None, "later": []},
    }


def test_lists_and_mappings_are_stored_by_their_type() -> None:
    assert through((Point(1),), tuple[Point, ...]) == (Point(1),)
    assert through({}, Mapping[int, Point]) == {} and encode({}, Mapping[int, Point]) == []
    assert through(None, Point | None) is None and through(Point(1), Point | None) == Point(1)


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
def test_special_numbers_pass(special: float) -> None:
    assert repr(through(special, float)) == repr(special)


def test_a_whole_number_is_a_number_and_a_truth_value_is_none() -> None:
    found = decode(tuple[float, ...], [1, 2.5])
    assert found == (1.0, 2.5) and all(type(one) is float for one in found)
    for kind in (int, float):
        with pytest.raises(CodecError, match="number, not a truth value"):
            decode(kind, True)


def test_a_field_that_an_older_file_lacks_has_its_default() -> None:
    stored = through_text(SAMPLE)
    del stored["later"], stored["anything"]
    assert decode(Everything, stored) == SAMPLE
    assert decode(Point, [3]) == Point(3, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"number": "1"}, "number: a whole number, not a string"),
        ({"number": 1.0}, "number: a whole number, not a number"),
        ({"real": 10**400}, "real: a number that is too large"),
        ({"what": "green"}, "what: 'green' is not a valid Color"),
        ({"what": []}, "what: a word, not a list"),
        ({"pair": [1]}, "pair: a list of 2, not of 1"),
        ({"pair": [1, 2]}, r"pair\[1\]: a string, not a whole number"),
        ({"points": {}}, "points: a list of .*, not an object"),
        ({"points": [[1], [2, "3"]]}, r"points\[1\]\.y: a number, not a string"),
        ({"points": [[1], [-2]]}, r"points\[1\]: x=-2; give 0 or more"),
        ({"points": [[1, 2, 3]]}, r"points\[0\]: a list of 2, not of 3"),
        ({"points": [[]]}, r"points\[0\]\.x: it is missing"),
        ({"spans": [[1.0]]}, r"spans\[0\]\.end: it is missing"),
        ({"by_name": {"a": [1, None]}}, r"by_name\.a\[1\]: a number, not null"),
        ({"by_number": [["3", [4]]]}, r"by_number\[0\]\[0\]: a whole number, not a string"),
        ({"tree": [{"name": "l"}, {"name": 3}]}, r"tree\.right\.name: a string, not a whole"),
        ({"tree": 3}, "tree: .* or .*, not a whole number"),
        ({"opaque": 3}, "opaque: an opaque text, not a whole number"),
        ({"note": 3}, "note: a string or null, not a whole number"),
        ({"other": 3}, "other: there is no such field"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CodecError, match=f"^{message}"):
        decode(Everything, through_text(SAMPLE) | change)


def test_a_missing_field_is_named() -> None:
    stored = through_text(SAMPLE)
    del stored["text"]
    with pytest.raises(CodecError, match=r"^text: it is missing") as raised:
        decode(Everything, stored)
    assert raised.value.where == "text" and raised.value.what == "it is missing"


@given(JSON)
def test_any_json_is_refused_or_read(value: Any) -> None:
    for kind in (Everything, Point, Fork, Span, tuple[Point, ...], Mapping[int, float], Color):
        try:
            found = decode(kind, value)
        except CodecError as error:
            assert str(error)
        else:
            assert decode(kind, json.loads(json.dumps(encode(found, kind)))) == found or (
                "nan" in repr(found)
            )


@given(st.data())
def test_one_wrong_value_anywhere_is_refused_or_read(data: st.DataObject) -> None:
    stored = through_text(SAMPLE)
    name = data.draw(st.sampled_from(sorted(stored)))
    stored[name] = data.draw(JSON)
    try:
        decode(Everything, stored)
    except CodecError as error:
        assert error.where.startswith(name)


def test_fields_that_are_stored_elsewhere_are_given() -> None:
    @Stored("name", complete=True)
    @dataclass(frozen=True)
    class Message:
        name: str
        frame: bytes = b""

    message = Message("a", b"x")
    assert encode(message) == {"name": "a"}
    assert decode(Message, {"name": "a"}, frame=b"x") == message
    with pytest.raises(CodecError, match="it is missing"):
        decode(Message, {}, frame=b"x")


def test_a_type_without_a_form_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        codec_of(bytes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (str(1 << 63), "beyond 64 bits"),
        ("1" * 5000, "beyond 64 bits"),
        ("1e999", "not finite"),
        ("NaN", "not finite"),
        ('"\\ud800"', "surrogates"),
        ("[" * 100_000, "too deeply"),
        ("[", "Expecting value"),
    ],
)
def test_json_that_could_not_be_stored_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_json(text)


# -- Documents ------------------------------------------------------------------------------------

DOCUMENT = Document(kind=("format", "things"), version=("version", 2), checksum=True)


def test_a_document_is_read_again() -> None:
    assert DOCUMENT.read(DOCUMENT.write({"a": [1, "b"]})) == {"a": [1, "b"]}
    plain = Document(version=("version", 1))
    assert plain.write({"a": 1}) == '{"version": 1, "a": 1}'
    assert plain.read('{"version": 1, "a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "others"}, "it is something else"),
        ({"format": None}, "it is something else"),
        ({"version": 3}, "its version is 3, and this schedlang reads 2"),
        ({"version": True}, "its version is True"),
        ({"checksum": "0"}, "it was changed after it was written"),
        ({"a": 2}, "it was changed after it was written"),
    ],
)
def test_another_document_is_told(change: dict[str, Any], message: str) -> None:
    stored = json.loads(DOCUMENT.write({"a": 1}))
    with pytest.raises(CodecError, match=message):
        DOCUMENT.read(json.dumps(stored | change))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff"])
def test_a_damaged_document_is_told(text: str | bytes) -> None:
    with pytest.raises(CodecError, match="it is damaged"):
        DOCUMENT.read(text)


@pytest.mark.parametrize("text", ["3", "[]", "null"])
def test_what_is_no_object_is_no_document(text: str) -> None:
    with pytest.raises(CodecError, match="it is something else"):
        DOCUMENT.read(text)
    with pytest.raises(CodecError, match="it is damaged: an object, not"):
        Document(version=("version", 1)).read(text)
