"""Suite files: TOML, in which a table ``[[kernel]]`` stands for one kernel or a family of them.

::

    [[kernel]]                                 two rows of two lengths:
    name = "matmul.{row}.s{n}"                 ->  matmul.q_proj.s32, matmul.q_proj.s128,
    workload = "matmul"                            matmul.kv_proj.s32, matmul.kv_proj.s128
    sizes = { n = [32, 128], k = 2048 }
    rows.q_proj = { m = 2048 }
    rows.kv_proj = { m = 256 }
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlang.cli.naming.files import existing_file, is_python
from schedlang.cli.suite.kernel import Kernel, within
from schedlang.cli.verb import UsageError
from schedlang.cli.words import SCRIPT, TORCH_DTYPES
from schedlang.printed import nearest

_FIELDS: Mapping[str, tuple[type, str]] = {
    "name": (str, "a text"),
    "workload": (str, "a text: an operator, or file.py:function"),
    "torch": (str, "a text: an expression of torch"),
    "inputs": (dict, "a table: the shape of each tensor, as { x = [32, 64] }"),
    "sizes": (dict, "a table, as { n = 512 }"),
    "rows": (dict, "a table of tables: rows.q_proj = { m = 2048 }"),
    "columns": (list, "the names of sizes, of which each row gives the values: ['n', 'm']"),
    "dtype": (str, "a text"),
    "trials": (int, "a whole number"),
}
"""The fields of a kernel: their types, and what to give in place of a value of another type."""
_OF_SUITE = ("name", "trials", "kernel")
_SCALARS = (int, float, str)


@dataclass(frozen=True)
class Suite:
    """Kernels to be measured together.

    Attributes
    ----------
    name: a name to display.
    kernels: in the order of the file; their names differ.
    """

    name: str
    kernels: tuple[Kernel, ...]


def read_suite(path: Path) -> Suite:
    """Read a suite file; nothing of it is run.

    UsageError names the file, the kernel and the field that is wrong.
    """
    try:
        table = tomllib.loads(existing_file(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no valid TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    with within(str(path)):
        _check_fields(table, _OF_SUITE, "a suite")
        name, trials = table.get("name", path.stem), table.get("trials")
        if not isinstance(name, str):
            raise UsageError(f"name = {name!r}; give a text")
        _check_trials(trials)
        given = table.get("kernel", [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise UsageError("kernel: give each as a table of its own, [[kernel]]")
        if not given:
            raise UsageError("the suite is empty: give its kernels as tables [[kernel]]")
    kernels: dict[str, Kernel] = {}
    for number, one in enumerate(given, 1):
        named = f"kernel {one['name']!r}" if "name" in one else f"kernel number {number}"
        with within(f"{path}: {named}"):
            for kernel in _family(one, path.parent, trials):
                if kernel.name in kernels:
                    raise UsageError(f"name: there are two kernels called {kernel.name!r}")
                kernels[kernel.name] = kernel
    return Suite(name, tuple(kernels.values()))


def _check_fields(table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in table:
        if name not in known:
            hint = nearest(name, known) or ";"
            raise UsageError(f"no field {name!r}{hint} {what} has {', '.join(known)}")


def _check_trials(trials: Any) -> None:
    whole = isinstance(trials, int) and not isinstance(trials, bool)
    if trials is not None and not (whole and trials >= 1):
        raise UsageError(f"trials = {trials!r}; give a whole number, 1 or more")


def _family(table: Mapping[str, Any], folder: Path, trials: int | None) -> Iterator[Kernel]:
    """Yield the kernels that a table stands for: each row with every choice of its sizes."""
    _check_fields(table, tuple(_FIELDS), "a kernel")
    for field, value in table.items():
        kind, wanted = _FIELDS[field]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UsageError(f"{field} = {value!r}; give {wanted}")
    _check_trials(table.get("trials"))
    if not table.get("name"):
        raise UsageError("name is missing: give each kernel one")
    if not (table.get("workload") or table.get("torch")):
        raise UsageError("workload is missing: give it, or an expression of torch as torch")
    _check_tensors(table)
    rows = table.get("rows") or {"": {}}
    for row, own in rows.items():
        sizes = {**table.get("sizes", {}), **_row(row, own, table.get("columns"))}
        choices = [_choices(name, value) for name, value in sizes.items()]
        varied = [name for name, value in sizes.items() if isinstance(value, list)]
        for chosen in itertools.product(*choices):
            values = dict(zip(sizes, chosen, strict=True))
            name = _name(table["name"], row, values, varied)
            with nullcontext() if name == table["name"] else within(name):
                kernel = Kernel(
                    name=name,
                    program=_program(table.get("workload", ""), folder),
                    sizes=values,
                    torch=table.get("torch", ""),
                    inputs=table.get("inputs", {}),
                    dtype=table.get("dtype", TORCH_DTYPES[0]),
                    trials=table.get("trials", trials),
                )
                kernel.check()
            yield kernel


def _row(name: str, given: Any, columns: list[Any] | None) -> Mapping[str, Any]:
    """Return the sizes of a row, which is a table, or a list of values for the columns."""
    if isinstance(given, dict):
        return given
    if columns is None or not isinstance(given, list):
        raise UsageError(
            f"rows.{name} = {given!r}; give a table, as {{ m = 2048 }}, or columns = ['m'] and "
            "the rows as lists of values"
        )
    if len(given) != len(columns) or not all(isinstance(one, str) for one in columns):
        raise UsageError(f"rows.{name} = {given!r}; give a value for each of columns = {columns!r}")
    return dict(zip(columns, given, strict=True))


def _check_tensors(table: Mapping[str, Any]) -> None:
    """UsageError where the fields about torch do not go together."""
    alone = not table.get("workload")
    if alone and not table.get("inputs"):
        raise UsageError("inputs is missing: give the shape of each tensor of the expression")
    for field in ("inputs", "dtype"):
        if field in table and not alone:
            raise UsageError(f"{field} is of a kernel that torch gives alone: the workload says it")
    for tensor, shape in table.get("inputs", {}).items():
        if not isinstance(shape, list):
            raise UsageError(f"inputs: {tensor} = {shape!r}; give its shape, as [32, 64]")
    if table.get("dtype", TORCH_DTYPES[0]) not in TORCH_DTYPES:
        hint = nearest(table["dtype"], TORCH_DTYPES) or ";"
        raise UsageError(f"dtype = {table['dtype']!r}{hint} known: {', '.join(TORCH_DTYPES)}")


def _choices(name: str, value: Any) -> list[Any]:
    """Return what a size may be: each value of a list, or the one that is given."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise UsageError(f"sizes: {name} = []; give one value at least")
    for one in values:
        if not isinstance(one, _SCALARS):
            raise UsageError(f"sizes: {name} = {one!r}; give a number, a truth value or a text")
    return values


def _name(text: str, row: str, values: Mapping[str, Any], varied: list[str]) -> str:
    """Return the name of one of a family; ``{row}`` and ``{n}`` in the name are its own.

    Without any, the row and the sizes that differ stand at the end: ``matmul.q_proj.n32``.
    """
    known = {**values, "row": row}
    if "{" not in text:
        return ".".join([text, *([row] if row else []), *(f"{one}{values[one]}" for one in varied)])

    def filled(found: re.Match[str]) -> str:
        if found[1] not in known:
            raise UsageError(f"name: {{{found[1]}}} is no size{nearest(found[1], known)}")
        return str(known[found[1]])

    return re.sub(r"\{(\w*)\}", filled, text)


def _program(text: str, folder: Path) -> str:
    """Return the program as ``tune`` takes it; files are relative to the suite's folder."""
    is_file = is_python(text) or SCRIPT in text
    return str(folder / text) if is_file else text
