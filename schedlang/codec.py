"""Values as JSON, and back, as their types say.

A dataclass is an object of its fields, or a list of them where ``Stored`` says so. Reading believes
nothing and runs no code: every value has the JSON type that its field's type asks for, and
``CodecError`` names the place of the one that has not. What reads a type is made once.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from inspect import Parameter, signature
from operator import attrgetter
from types import MappingProxyType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints, overload

T = TypeVar("T")
K = TypeVar("K", bound=type)

_NULL = type(None)
_KINDS = {
    _NULL: "null",
    bool: "a truth value",
    int: "a whole number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


class CodecError(ValueError):
    """A JSON value is not of the type that it was read as.

    Attributes
    ----------
    what: is wrong, such as ``a number, not a string``.
    where: the path to it, such as ``candidates[3].latency``; empty for the value as a whole.
    """

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(f"{where}: {what}" if where else what)
        self.what, self.where = what, where

    def inside(self, part: str) -> CodecError:
        """Return the error of a value that has the wrong one at ``part``."""
        joint = "." if self.where[:1] not in ("", "[") else ""
        return CodecError(self.what, f"{part}{joint}{self.where}")


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type are read and written.

    Attributes
    ----------
    noun: what it reads, for errors.
    kinds: types of the JSON values that it reads.
    read: returns the value of a JSON value; CodecError for another one.
    write: returns the JSON value; None where ``json`` writes the value as it is.
    """

    noun: str
    kinds: Collection[type]
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None


class Stored:
    """The form in which a dataclass is stored, as a decorator. Without it that is an object.

    Parameters
    ----------
    fields: those that are stored, in order; by default all.
    row: it is a list of the fields' values, without their names.
    names: names of fields in the object where they differ.
    left_out: fields that are not written where they are None.
    complete: no field may be absent; by default one that is absent has its default, as in files
        that are older than the field.
    more: other fields are ignored; by default they are refused.
    """

    def __init__(
        self,
        *fields: str,
        row: bool = False,
        names: Mapping[str, str] | None = None,
        left_out: Collection[str] = (),
        complete: bool = False,
        more: bool = False,
    ) -> None:
        self.fields, self.row, self.names = fields, row, names or {}
        self.left_out, self.complete, self.more = left_out, complete, more

    def __call__(self, kind: K) -> K:
        _FORMS[kind] = self
        return kind


_FORMS: dict[type, Stored] = {}
_REGISTERED: dict[Any, Codec] = {}


def register(
    kind: type[T],
    noun: str,
    kinds: Collection[type],
    read: Callable[[Any], T],
    write: Callable[[T], Any],
) -> None:
    """Say how values of a type are stored; ``read`` raises ValueError or TypeError for others."""

    def checked(value: Any) -> T:
        if type(value) not in kinds:
            raise wrong(noun, value)
        return _made(read, value)

    _REGISTERED[kind] = Codec(noun, kinds, checked, write)


def encode(value: Any, kind: Hashable = None) -> Any:
    """Return a value as ``json`` can write it; ``kind`` is its type where that is not its class.

    That is so of lists, tuples and mappings, whose classes do not tell what is in them.
    """
    own: Any = kind or type(value)
    write = codec_of(own).write
    return value if write is None else write(value)


@overload
def decode(kind: type[T], value: Any, **given: Any) -> T: ...
@overload
def decode(kind: Any, value: Any, **given: Any) -> Any: ...
def decode(kind: Any, value: Any, **given: Any) -> Any:
    """Return the value of type ``kind`` that a JSON value stands for; CodecError for another one.

    ``given`` are fields of a dataclass that are stored elsewhere.
    """
    if given:
        return _class(kind).read(value, given)
    return codec_of(kind).read(value)


@cache
def codec_of(kind: Any) -> Codec:
    """Return what reads and writes values of a type; TypeError for a type that cannot be stored."""
    if kind in _REGISTERED:
        return _REGISTERED[kind]
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union(args)
    if origin is tuple and args[-1:] != (...,):
        return _fixed(args)
    if origin in _LISTS:
        return _list(*_LISTS[origin], args[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*args)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enumeration(kind)
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        return _class(kind).codec
    raise TypeError(f"values of type {kind} cannot be stored as JSON")


def wrong(noun: str, value: Any) -> CodecError:
    """Return the error for a JSON value where a ``noun`` belongs."""
    return CodecError(f"{noun}, not {_KINDS.get(type(value), type(value).__name__)}")


# -- Numbers, texts, and what is made of them -----------------------------------------------------


def _plain(kind: type) -> Codec:
    noun = _KINDS[kind]

    def read(value: Any) -> Any:
        if type(value) is kind:
            return value
        raise wrong(noun, value)

    return Codec(noun, (kind,), read)


def _real(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise wrong("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise CodecError("a number that is too large") from None


_PLAIN: Mapping[Any, Codec] = {
    Any: Codec("a value", tuple(_KINDS), lambda value: value),
    **{kind: _plain(kind) for kind in (_NULL, bool, int, str, list, dict)},
    float: Codec("a number", (float, int), _real),
}
_LISTS: Mapping[Any, tuple[Callable[[Any], Any], Callable[[Any], Any] | None]] = {
    tuple: (tuple, list),
    list: (list, None),
    Sequence: (list, list),
    frozenset: (frozenset, sorted),
}
"""For each class of lists: what makes it of a list, and what makes a list of it."""


def _made(make: Callable[..., T], *args: Any, **fields: Any) -> T:
    """Return what is made of values; what is raised for the wrong ones is a CodecError."""
    try:
        return make(*args, **fields)
    except CodecError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise CodecError(str(error)) from error


def _enumeration(kind: type[enum.Enum]) -> Codec:
    values = {type(one.value) for one in kind}
    noun = "a word" if values == {str} else "a value"

    def read(value: Any) -> Any:
        if type(value) not in values:
            raise wrong(noun, value)
        return _made(kind, value)

    return Codec(noun, values, read, attrgetter("value"))


def _union(members: Sequence[Any]) -> Codec:
    """Return the codec of a union; of members that JSON has as one type, the first that fits."""
    found = [codec_of(one) for one in members]
    noun = " or ".join(dict.fromkeys(one.noun for one in found))
    own = dict.fromkeys(kind for one in found for kind in one.kinds)
    kinds = {kind: [one.read for one in found if kind in one.kinds] for kind in own}

    def read(value: Any) -> Any:
        readers = kinds.get(type(value))
        if not readers:
            raise wrong(noun, value)
        for reader in readers[:-1]:
            with suppress(CodecError):
                return reader(value)
        return readers[-1](value)

    def write(value: Any) -> Any:
        for one, member in zip(found, members, strict=True):
            if isinstance(value, get_origin(member) or member):
                return value if one.write is None else one.write(value)
        return value

    return Codec(noun, tuple(own), read, write if any(one.write for one in found) else None)


# -- Lists, rows and objects ----------------------------------------------------------------------


def _list(make: Callable[[Any], Any], listed: Callable[[Any], Any] | None, item: Any) -> Codec:
    one = codec_of(item)
    noun = f"a list of {_plural(one.noun)}"
    read_one, write_one = one.read, one.write
    as_is = {item} & {bool, int, float, str}

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise wrong(noun, value)
        if as_is and as_is.issuperset(map(type, value)):
            return make(value)
        try:
            return make([read_one(item) for item in value])
        except CodecError:
            raise _located(enumerate(value), "[{}]", [read_one] * len(value)) from None

    def write(value: Any) -> Any:
        found = value if listed is None else listed(value)
        return found if write_one is None else [write_one(one) for one in found]

    return Codec(noun, (list,), read, write if listed or write_one else None)


def _plural(noun: str) -> str:
    words = noun.removeprefix("a ").removeprefix("an ")
    return f"{words}s" if words.isalpha() or words == "whole number" else f"{noun} each"


def _located(items: Any, part: str, readers: Sequence[Callable[[Any], Any]]) -> CodecError:
    """Return the error of the first item that its reader refuses, with its place."""
    for (name, item), read in zip(items, readers, strict=True):
        try:
            read(item)
        except CodecError as error:
            return error.inside(part.format(name))
    raise AssertionError("a value was refused once")


def _fixed(kinds: Sequence[Any]) -> Codec:
    """Return the codec of a tuple of several types."""
    parts = [codec_of(kind) for kind in kinds]
    noun = f"a list of {len(parts)}"
    readers = [one.read for one in parts]
    writers = [one.write for one in parts]

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise wrong(noun, value)
        if len(value) != len(readers):
            raise CodecError(f"{noun}, not of {len(value)}")
        try:
            return tuple([read(one) for read, one in zip(readers, value, strict=True)])
        except CodecError:
            raise _located(enumerate(value), "[{}]", readers) from None

    def write(value: Any) -> Any:
        pairs = zip(writers, value, strict=True)
        return [item if write is None else write(item) for write, item in pairs]

    return Codec(noun, (list,), read, write if any(writers) else list)


def _mapping(key: Any, kind: Any) -> Codec:
    """Return the codec of a mapping: an object, or a list of pairs where keys are no strings."""
    if key is not str:
        pairs = _list(list, None, tuple[key, kind])

        def write_pairs(value: Any) -> Any:
            found = list(value.items())
            return found if pairs.write is None else pairs.write(found)

        return Codec(pairs.noun, (list,), lambda value: dict(pairs.read(value)), write_pairs)
    one = codec_of(kind)
    noun = "an object"
    read_one, write_one = one.read, one.write

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise wrong(noun, value)
        try:
            return {name: read_one(item) for name, item in value.items()}
        except CodecError:
            raise _located(value.items(), "{}", [read_one] * len(value)) from None

    def write(value: Any) -> Any:
        if write_one is None:
            return dict(value)
        return {name: write_one(item) for name, item in value.items()}

    return Codec(noun, (dict,), read, write)


class _StoredField(NamedTuple):
    """A field of a class as it is stored; one that ``must`` be there has no default."""

    name: str
    key: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None
    must: bool


class _Class:
    """A dataclass or a NamedTuple, and how it is stored.

    Its fields are looked up when it is first read or written: it may contain itself.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._form = _FORMS.get(kind) or Stored(row=not dataclasses.is_dataclass(kind))
        self._of = list if self._form.row else dict
        noun = f"{_KINDS[self._of]} ({kind.__name__})"
        self.codec = Codec(noun, (self._of,), self.read, self.write)

    @cached_property
    def _fields(self) -> list[_StoredField]:
        form = self._form
        hints = get_type_hints(self._kind)
        required = {
            name
            for name, one in signature(self._kind).parameters.items()
            if one.default is Parameter.empty
        }
        codecs = {name: codec_of(hints[name]) for name in form.fields or hints}
        return [
            _StoredField(
                name,
                form.names.get(name, name),
                one.read,
                one.write,
                form.complete or name in required,
            )
            for name, one in codecs.items()
        ]

    @cached_property
    def _in_order(self) -> list[Callable[[Any], Any]]:
        """The readers where the fields are the class's first ones: rows are read quickly then."""
        names = [one.name for one in self._fields]
        first = [*signature(self._kind).parameters][: len(names)]
        return [one.read for one in self._fields] if names == first else []

    def read(self, value: Any, given: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """Return the value of its fields, and of those that are given."""
        if not isinstance(value, self._of):
            raise wrong(self.codec.noun, value)
        if self._form.row:
            if len(value) == len(self._in_order) and not given:
                try:
                    items = zip(self._in_order, value, strict=True)
                    return self._kind(*[read(item) for read, item in items])
                except (ValueError, TypeError, OverflowError):
                    pass  # below, it is told where
            if len(value) > len(self._fields):
                raise CodecError(f"a list of {len(self._fields)}, not of {len(value)}")
            value = dict(zip([one.key for one in self._fields], value, strict=False))
        found, known, key = dict(given), 0, ""
        try:
            for name, key, read, _, must in self._fields:
                if key in value:
                    known += 1
                    if name not in given:
                        found[name] = read(value[key])
                elif must:
                    raise CodecError("it is missing")
        except CodecError as error:
            raise error.inside(key) from None
        if len(value) > known and not self._form.more:
            own = {one.key for one in self._fields}
            raise CodecError("there is no such field", next(key for key in value if key not in own))
        return _made(self._kind, **found)

    def write(self, value: Any) -> Any:
        """Return its fields' values, with their names or without."""
        found = {}
        for name, key, _, write, _ in self._fields:
            item = getattr(value, name)
            if item is not None or name not in self._form.left_out:
                found[key] = item if write is None else write(item)
        return list(found.values()) if self._form.row else found


_class = cache(_Class)
