"""Reading of stored programs, whose text may be damaged or hostile.

TVM's reader trusts the text: a node that refers to itself exhausts the stack, and a field of the
wrong type can crash the process later. So each node is first compared with TVM's own declaration
of its type: the names of the fields and the type of each.
"""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir.analysis import verify_well_formed
from tvm_ffi.core import TypeInfo, _lookup_or_register_type_info_from_type_key

from schedlang.errors import WorkloadError
from schedlang.tvm.program_text import cleared


def read_stored_program(text: str) -> IRModule:
    """Read a module from TVM's JSON text; runs no code.

    The nodes are checked against TVM's declarations before TVM reads them: its C++ reader follows
    references without checks and crashes the process on a cycle. Source positions, which programs
    stored by earlier versions have, are left out. WorkloadError if the program is invalid.
    """
    try:
        checked = checked_graph(text, "ir.IRModule")
    except GraphError as error:
        raise _refused(str(error)) from None
    try:
        mod = tvm.ir.load_json(checked)
        mod.script()  # raises if TVM cannot print the program; a later error message would crash
        verify_well_formed(mod)
    except Exception as error:  # TVM's errors have many types
        raise _refused(str(error).strip().splitlines()[-1][:200]) from None
    return mod


def _refused(reason: str) -> WorkloadError:
    return WorkloadError(
        f"a stored program cannot be read: {reason}; it is damaged or from another TVM version: "
        "tune its workload again"
    )


# -- The check of TVM's JSON text before TVM reads it --------------------------------------------

MOST_NODES = 1 << 20
# Maximum nesting depth; reading a deeper graph could exhaust the stack.
MOST_DEEP = 512
_INT64 = 1 << 63
# Types whose values are stored inside the node; all other fields hold node numbers.
_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "DataType": (str,),
    "dtype": (str,),
    "Device": (list,),
}
_VALUES: dict[str, tuple[type, ...]] = {
    "None": (type(None),),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "ffi.String": (str,),
    "ffi.SmallStr": (str,),
}
_TEXTS = ("ffi.String", "ffi.SmallStr", "str")
# Declared type -> other node types that are accepted for it: encodings of integers and strings.
_STANDS_FOR = {"ffi.BigInt": ("int",), "ffi.SmallStr": ("ffi.String",), "ffi.String": _TEXTS}
_CONTAINERS = ("ffi.Array", "ffi.Map")
# Fields that may be null although TVM declares them otherwise.
_NULLABLE = {("tirx.IterVar", "dom"), ("ir.Call", "attrs")}
# Enumerations stored as integers; TVM aborts the process when it prints an undefined value.
_ENUMERATIONS = {("tirx.For", "kind"): range(5), ("tirx.IterVar", "iter_type"): range(9)}


class _Any:
    """A container that contains every value."""

    def __contains__(self, value: object) -> bool:
        return True


_ANY = _Any()
# Stored by name; TVM's reader rejects a name that is not registered.
_NAMED = ("ir.Op", "target.TargetKind")
# A function may have the attribute ``target``.
_TARGET = "target.Target"
# Fields that TVM declares too widely: it casts the value without a check.
_NARROWED = {
    (_TARGET, "host"): {"type": "Optional", "args": [{"type": _TARGET}]},
}


class GraphError(ValueError):
    """The text is not a valid graph of TVM nodes; the message names the node."""


@dataclass(frozen=True, slots=True)
class _NodeField:
    """The values that a field permits: a plain value, a node of some types, or null."""

    plain: tuple[type, ...]
    schema: Any
    nullable: bool
    numbers: Container[Any]


def checked_graph(text: str, root: str) -> str:
    """Return the text of a graph for TVM to read, without source positions.

    It is written anew, so TVM reads what was checked. GraphError unless ``text`` is a well-typed
    acyclic graph with a ``root`` as root.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GraphError(f"not JSON: {str(error)[:80]}") from None
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise GraphError("the text has no list of nodes")
    nodes, root_index = cleared(document["nodes"]), document.get("root_index")
    _Checker(nodes).check(root_index, root)
    return json.dumps({"root_index": root_index, "nodes": nodes})


class _Checker:
    """Reads the nodes in order: each may refer to earlier ones only."""

    def __init__(self, nodes: list[Any]) -> None:
        if len(nodes) > MOST_NODES:
            raise GraphError(f"{len(nodes)} nodes; at most {MOST_NODES} are read")
        self.nodes = nodes
        self.types: list[str] = []
        self.depths: list[int] = []

    def check(self, root_index: Any, root: str) -> None:
        for number, node in enumerate(self.nodes):
            self._node(number, node)
        if not self._is_number(root_index, len(self.nodes)) or self.types[root_index] != root:
            raise GraphError(f"the root is not a {root}")

    def _node(self, number: int, node: Any) -> None:
        if not isinstance(node, dict) or not isinstance(node.get("type"), str):
            raise GraphError(f"node {number} has no type")
        kind, data = node["type"], node.get("data")
        inside: list[int] = []
        if kind in _NAMED:
            self._plain((str,), data, f"node {number}")
        elif kind in _VALUES:
            self._plain(_VALUES[kind], data, f"node {number}")
        elif kind in _CONTAINERS:
            inside = self._references(data, number)
            if kind == "ffi.Map" and len(inside) % 2:
                raise GraphError(f"node {number}: a key without a value")
        else:
            inside = self._object(kind, data, number)
        depth = 1 + max((self.depths[item] for item in inside), default=0)
        if depth > MOST_DEEP:
            raise GraphError(f"node {number}: nested deeper than {MOST_DEEP}")
        self.types.append(kind)
        self.depths.append(depth)

    def _object(self, kind: str, data: Any, number: int) -> list[int]:
        fields = _fields_of(kind)
        if fields is None:
            raise GraphError(f"node {number}: type {kind[:40]!r} cannot occur in a program")
        if not isinstance(data, dict) or set(data) != set(fields):
            raise GraphError(f"node {number}: {kind} must have the fields {', '.join(fields)}")
        inside = []
        for name, field in fields.items():
            where = f"node {number}: {kind}.{name}"
            value = data[name]
            if field.plain:
                self._plain(field.plain, value, where)
                if value not in field.numbers:
                    raise GraphError(f"{where} cannot be {value}")
            elif not self._is_number(value, number):
                raise GraphError(f"{where} must refer to an earlier node")
            elif self.types[value] == "None" and field.nullable:
                continue
            elif not self._permits(field.schema, value):
                raise GraphError(f"{where} cannot be a {self.types[value]}")
            else:
                inside.append(value)
        return inside

    def _permits(self, schema: Any, number: int) -> bool:
        """Return whether the node is a value of the declared type ``schema``."""
        kind, wanted = self.types[number], schema["type"]
        args = schema.get("args", ())
        if wanted in ("Any", "ffi.Any", "ffi.Object", "ffi.ObjectRef"):
            return True
        if wanted in ("Optional", "Union"):
            return kind == "None" or any(self._permits(item, number) for item in args)
        if kind == "None":
            return False
        if wanted in ("ffi.Array", "ffi.List") and kind == "ffi.Array":
            return not args or all(
                self._permits(args[0], item) for item in self.nodes[number]["data"]
            )
        if wanted in ("ffi.Map", "ffi.Dict") and kind == "ffi.Map":
            data = self.nodes[number]["data"]
            return not args or all(
                self._permits(args[position % 2], item) for position, item in enumerate(data)
            )
        return kind == wanted or kind in _STANDS_FOR.get(wanted, ()) or _is_a(kind, wanted)

    def _references(self, data: Any, number: int) -> list[int]:
        if not isinstance(data, list) or not all(self._is_number(i, number) for i in data):
            raise GraphError(f"node {number}: expected a list of earlier nodes")
        return data

    @staticmethod
    def _is_number(value: Any, limit: int) -> bool:
        return type(value) is int and 0 <= value < limit

    @staticmethod
    def _plain(kinds: tuple[type, ...], value: Any, where: str) -> None:
        wrong_bool = isinstance(value, bool) and bool not in kinds
        if wrong_bool or not isinstance(value, kinds):
            raise GraphError(f"{where}: unexpected {type(value).__name__}")
        if isinstance(value, int) and not -_INT64 <= value < _INT64:
            raise GraphError(f"{where}: a number beyond 64 bits")


def _info(kind: str) -> TypeInfo | None:
    try:
        return _lookup_or_register_type_info_from_type_key(kind)
    except (ValueError, KeyError, RuntimeError):
        return None


@cache
def _fields_of(kind: str) -> dict[str, _NodeField] | None:
    """Return the fields of a type, inherited ones too; None if no program contains the type."""
    if kind != _TARGET and not kind.startswith(("ir.", "prim.", "tirx.", "s_tir.", "relax.")):
        return None
    fields: dict[str, _NodeField] = {}
    info = _info(kind)
    if info is None:
        return None
    while info is not None:
        for declared in info.fields or ():
            schema = json.loads(declared.metadata["type_schema"])
            schema = _NARROWED.get((kind, declared.name), schema)
            fields[declared.name] = _NodeField(
                _PLAIN.get(schema["type"], ()),
                schema,
                declared.name == "span" or (kind, declared.name) in _NULLABLE,
                _ENUMERATIONS.get((kind, declared.name), _ANY),
            )
        info = info.parent_type_info
    return fields


@cache
def _is_a(kind: str, wanted: str) -> bool:
    info = _info(kind)
    while info is not None:
        if info.type_key == wanted:
            return True
        info = info.parent_type_info
    return False
