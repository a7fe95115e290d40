"""Suites: files of kernels to tune, and to set beside torch, whose expressions they may give.

A suite is a TOML file, in which a table ``[[kernel]]`` stands for one kernel or a family of them.

::

    [[kernel]]                                 two rows of two lengths:
    name = "matmul.{row}.s{n}"                 ->  matmul.q_proj.s32, matmul.q_proj.s128,
    workload = "matmul"                            matmul.kv_proj.s32, matmul.kv_proj.s128
    sizes = { n = [32, 128], k = 2048 }
    rows.q_proj = { m = 2048 }
    rows.kv_proj = { m = 256 }
"""

from __future__ import annotations

import ast
import builtins
import itertools
import keyword
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import schedlang as sl
from schedlang.bench import TORCH_DTYPES
from schedlang.cli.objects import UsageError, existing_file, is_python
from schedlang.cli.programs import check_program, workload_of
from schedlang.cli.words import SCRIPT
from schedlang.errors import require
from schedlang.printed import nearest

if TYPE_CHECKING:
    from schedlang.bench.torch_operators import Eager
    from schedlang.workloads.workload import Workload


_KNOWN = ("torch", "F", "math")


@dataclass(frozen=True)
class Expression:
    """An expression of torch, such as ``torch.softmax(x, -1)``. It is run.

    Besides its tensors and numbers it knows ``torch``, ``torch.nn.functional`` as ``F``, ``math``
    and Python's own functions. UsageError where it does not parse, or reads another name, or not
    every tensor.

    Attributes
    ----------
    text: the expression. Its value is one tensor.
    tensors: names of its tensors, in order. Those that ``torch.compile`` freezes have the names of
        a model's weights: ``weight``, ``w``, ``bias``, ``scale``, ``offset``, ``kernel``.
    numbers: further names, with their values.
    """

    text: str
    tensors: Sequence[str]
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [*self.tensors, *self.numbers]
        for name in names:
            if not name.isidentifier() or keyword.iskeyword(name) or name in _KNOWN:
                raise UsageError(f"{name!r} cannot be a name in an expression")
        try:
            tree = ast.parse(self.text, mode="eval")
        except SyntaxError as error:
            raise UsageError(f"{self.text!r} is no expression of Python: {error.msg}") from None
        read, bound = _names(tree)
        known = {*names, *_KNOWN, *bound, *vars(builtins)}
        for name in read:
            if name not in known:
                raise UsageError(
                    f"{self.text!r} reads {name!r}, which is no input{nearest(name, names)}"
                )
        for name in names:
            if name in self.tensors and name not in read:
                raise UsageError(f"{self.text!r} does not read the input {name!r}: leave it out")

    def reads(self, name: str) -> bool:
        """Whether the expression reads a name."""
        return name in _names(ast.parse(self.text, mode="eval"))[0]

    def __call__(self, tensors: Sequence[Any]) -> Eager:
        """Return the expression on these tensors, in order."""
        from schedlang.bench.torch_operators import Eager

        if len(tensors) != len(self.tensors):
            raise UsageError(
                f"{self.text!r} is of {', '.join(self.tensors)}, and the program reads "
                f"{len(tensors)} tensors"
            )
        # The tensors are the free variables of the call: the compiler finds the weights by name.
        return Eager(
            self._made(f"lambda {', '.join(self.tensors)}: (lambda: {self.text})")(*tensors)
        )

    def workload(self, name: str, shapes: Mapping[str, Sequence[int]], dtype: str) -> Workload:
        """Return it as one program, whose arguments are its tensors and the result.

        Raises ``MissingExtraError`` without torch, and ``NetworkError`` for what cannot be
        imported, or merged into one program.
        """
        torch = require("torch", "a kernel that is an expression of torch")
        forward = self._made(f"lambda {', '.join(['self', *self.tensors])}: {self.text}")
        model = type("Expression", (torch.nn.Module,), {"forward": forward})()
        examples = [torch.zeros(tuple(shapes[one]), dtype=getattr(torch, dtype)) for one in shapes]
        return sl.import_network(model, tuple(examples), name=name, layout="as_is").as_workload()

    def _made(self, text: str) -> Any:
        torch = require("torch", "a kernel that is an expression of torch")
        known = {"torch": torch, "F": torch.nn.functional, "math": math, **self.numbers}
        return eval(text, known)


def _names(tree: ast.AST) -> tuple[list[str], set[str]]:
    """Return the names that an expression reads, and those that it binds itself."""
    read, bound = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                read.append(node.id)
            else:
                bound.add(node.id)
    return read, bound


@contextmanager
def within(place: str) -> Iterator[None]:
    """Begin the message of a UsageError with its place."""
    try:
        yield
    except UsageError as error:
        raise type(error)(f"{place}: {error}") from error.__cause__


@dataclass(frozen=True)
class SuiteKernel:
    """A kernel, as a suite gives it.

    Attributes
    ----------
    name: its own in the suite.
    program: what ``schedlang tune`` takes; empty where the expression of torch is the program.
    sizes: of the program, or numbers of the expression, by name.
    torch: an expression of torch; empty for an operator of ``schedlang.workloads``, whose
        counterpart in torch is known.
    inputs: shapes of the tensors of the expression, by name, in which texts are names of sizes;
        empty where there is a program, whose arguments they are.
    dtype: element type of these tensors.
    trials: maximum number of candidates to measure; None where the suite does not say.
    """

    name: str
    program: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    torch: str = ""
    inputs: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    dtype: str = TORCH_DTYPES[0]
    trials: int | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors of the expression, in elements. UsageError for a wrong one."""
        return {
            tensor: tuple(self._extent(tensor, one) for one in shape)
            for tensor, shape in self.inputs.items()
        }

    def _extent(self, tensor: str, given: int | str) -> int:
        if isinstance(given, str) and given not in self.sizes:
            hint = nearest(given, self.sizes)
            raise UsageError(f"{tensor} has the extent {given!r}, which is no size{hint}")
        value = self.sizes[given] if isinstance(given, str) else given
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"{tensor} has the extent {value!r}; give a whole number, 1 or more")
        return value

    @property
    def words(self) -> list[str]:
        """The sizes as ``schedlang tune`` takes them."""
        return [f"--{name.replace('_', '-')}={_word(one)}" for name, one in self.sizes.items()]

    def check(self) -> None:
        """UsageError that names the wrong field, as far as that is known without TVM."""
        if self.program:
            with within("workload"):
                check_program(self.program, [])
            with within("sizes"):
                check_program(self.program, self.words)
            return
        with within("inputs"):
            shapes = self.shapes
            named = {one for shape in self.inputs.values() for one in shape}
        with within("torch"):
            expression = self._expression(list(shapes))
        with within("sizes"):
            for name, value in self.sizes.items():
                if isinstance(value, str):
                    raise UsageError(f"{name} = {value!r}; give a number")
                if name not in named and not expression.reads(name):
                    raise UsageError(f"neither inputs nor torch read {name!r}: leave it out")

    def workload(self) -> Workload:
        """Return its program, under the name of the kernel. A file of the user's is run."""
        if not self.program:
            shapes = self.shapes
            return self._expression(list(shapes)).workload(self.name, shapes, self.dtype)
        return replace(workload_of(self.program, self.words), name=self.name)

    def in_torch(self, workload: Workload) -> Expression | None:
        """Return how torch computes its workload; None where it is an operator that is known."""
        if not self.torch:
            return None
        read = [one.name for one in workload.args if one.role == "input"]
        with within("torch"):
            return self._expression(read if self.program else list(self.inputs))

    def _expression(self, tensors: Sequence[str]) -> Expression:
        return Expression(self.torch, tensors, self.sizes)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    kernels: tuple[SuiteKernel, ...]


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
    kernels: dict[str, SuiteKernel] = {}
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


def _family(table: Mapping[str, Any], folder: Path, trials: int | None) -> Iterator[SuiteKernel]:
    """Yield the kernels that a table stands for: each row with every choice of its sizes."""
    _check_fields(table, tuple(_FIELDS), "a kernel")
    for name, value in table.items():
        kind, wanted = _FIELDS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UsageError(f"{name} = {value!r}; give {wanted}")
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
                kernel = SuiteKernel(
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
    for name in ("inputs", "dtype"):
        if name in table and not alone:
            raise UsageError(f"{name} is of a kernel that torch gives alone: the workload says it")
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
