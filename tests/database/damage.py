"""The corpus of damaged and hostile inputs: 500 cases, the same in every run."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedlang.database import Ask, Database
from schedlang.language.schedule import Schedule
from schedlang.measurement import Status
from schedlang.tvm.program import to_json
from tests.database.plausible import make_details, make_record, make_run
from tests.language.programs import everything

# A mark that no input may leave behind: the texts below try to write this file.
SENTINEL = "ran"
ATTACK = f"__import__('pathlib').Path('{SENTINEL}').touch()"
DEEP = "[" * 100_000


@dataclasses.dataclass(frozen=True)
class Case:
    """An input: a text, or files by the end of their names; ``sql`` changes a sound file."""

    name: str
    text: str | bytes = ""
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    sql: tuple[str, tuple[Any, ...]] | None = None


@functools.cache
def sound_schedule() -> Schedule:
    """A schedule whose trace has every form of argument."""
    return everything(0)


def fill(path: Path) -> Database:
    """Some of everything that a file may hold; it stays open."""
    schedule = sound_schedule()
    database = Database(path)
    database.put_workload(
        schedule.workload.key, "everything", to_json(schedule.workload.mod), "e", "f"
    )
    run = database.add_run(make_run(state='{"records": [1]}', outcome='{"winner": 2}'))
    assert run.id is not None
    for n in range(8):
        database.add_ask(run.id, Ask(1, float(n)))
        database.append(
            [
                make_record(
                    trace_json=schedule.trace.to_json(),
                    status=Status.CRASHED if n % 4 == 3 else Status.OK,
                    provenance={"tvm": "0.27", "n": str(n)},
                    run_id=run.id,
                    proposal=n,
                    seed=2**70,
                )
            ]
        )
    database.add_details(run.id, make_details(*range(1, 9)))
    return database


def sound_files(folder: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of a closed database, and of one that a crash left with its journal."""
    path = folder / "sound.db"
    database = fill(path)
    wal = path.with_name("sound.db-wal")
    crashed = {"": path.read_bytes(), "-wal": wal.read_bytes()}
    database.close()
    return {"": path.read_bytes()}, crashed


@functools.cache
def _closed(folder: Path) -> bytes:
    return sound_files(folder)[0][""]


def cases(kind: str, folder: Path) -> list[Case]:
    """Return the cases of a kind; their source files are made in ``folder``."""
    return list(_MAKERS[kind](folder))


def _flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 4, 64])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwritten(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    size = rng.choice([8, 512, 4096])
    filling = rng.choice([b"\0", b"\xff", rng.randbytes(1)])
    return content[:start] + filling * len(content[start : start + size]) + content[start + size :]


def _of_files(folder: Path) -> Iterator[Case]:
    closed, crashed = sound_files(folder)
    for n in range(100):
        rng = random.Random(f"file {n}")
        damage = (_cut, _flipped, _overwritten, _flipped)[n % 4]
        yield Case(f"{damage.__name__[1:]} file {n}", files={"": damage(closed[""], rng)})
    for n in range(80):
        rng = random.Random(f"journal {n}")
        damage = (_cut, _flipped, _overwritten, _flipped)[n % 4]
        end = ("-wal", "-wal", "")[n % 3]
        damaged = crashed | {end: damage(crashed[end], rng)}
        yield Case(f"{damage.__name__[1:]} {end or 'file'} beside its journal {n}", files=damaged)
    for n in range(10):
        rng = random.Random(f"foreign {n}")
        noise = rng.randbytes(rng.choice([0, 1, 32, 5000]))
        yield Case(f"foreign journal {n}", files=closed | {"-wal": noise, "-shm": noise})
        yield Case(f"old journal {n}", files=crashed | {"-journal": _flipped(crashed["-wal"], rng)})


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _of_traces(folder: Path) -> Iterator[Case]:
    text = sound_schedule().trace.to_json()
    for n in range(30):
        yield Case(f"cut trace {n}", _cut(text.encode(), random.Random(f"cut {n}")))
        yield Case(f"flipped trace {n}", _flipped(text.encode(), random.Random(f"flip {n}")))
    for number, hostile in enumerate(
        [
            DEEP,
            '{"schema":' * 50_000,
            "NaN",
            "1e999",
            "9" * 5000,
            '"' + "x" * (17 << 20) + '"',
            "[]",
            "null",
            "",
            "\0",
            "\ufeff{}",
            '{"schema": 1, "schema": 2, "instructions": []}',
            json.dumps({"schema": 10**30, "instructions": []}),
            json.dumps({"schema": 2, "instructions": [[]] * 70_000}),
        ]
    ):
        yield Case(f"hostile trace {number}", hostile)
    values: list[Any] = [
        ATTACK,
        "__import__",
        "__class__",
        "x" * 70_000,
        2**63,
        -(2**70),
        float("nan"),
        float("inf"),
        1e308,
        None,
        True,
        {},
        {"rv": "__import__"},
        {"rv": "v" + "9" * 5000},
        {"expr": ["__import__", 1, 2]},
        {"expr": ["//", 2**62, 0]},
        {"distribution": {"kind": "__import__"}},
        {"distribution": {"kind": "perfect_tile", "extent": 2**62, "n": 60}},
        {"distribution": {"kind": "categorical", "candidates": [], "probs": []}},
        [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],
        {"dict": {"__class__": {"dict": {"a": "b"}}}},
        {"map": {"in": [ATTACK], "out": ["i0"]}},
        {"float": ATTACK},
    ]
    for n, value in enumerate(values * 2):
        rng = random.Random(f"value {n}")
        document = json.loads(text)
        instruction = rng.choice(document["instructions"])
        if n < len(values):
            instruction[rng.choice(sorted(instruction))] = value
        else:
            instruction["args"][rng.choice(sorted(instruction["args"]) or ["more"])] = value
        yield Case(f"hostile value {n} in a trace", json.dumps(document))


_HOSTILE_TEXTS = (
    DEEP,
    '{"a":' * 100_000,
    "NaN",
    "[NaN]",
    "[1e999]",
    "[-Infinity]",
    "[" + "9" * 5000 + "]",
    "[1" + "0" * 400 + "]",
    "[null]",
    '["1e-6"]',
    "[true]",
    "{}",
    "null",
    "3",
    "",
    "[",
    ATTACK,
    '{"py/object": "os.system"}',
    "!!python/object/apply:os.system ['touch ran']",
    "x" * 1_000_000,
    "\ud800".encode("utf-8", "surrogatepass"),
    b"\xff\xfe",
    b"cos\nsystem\n(S'touch ran'\ntR.",
    1.5,
    2**62,
    None,
)


def _of_columns(folder: Path) -> Iterator[Case]:
    columns = (
        ("record", "samples"),
        ("provenance", "text"),
        ("run", "state"),
        ("run", "outcome"),
    )
    for table, column in columns:
        for n, value in enumerate(_HOSTILE_TEXTS[:20]):
            sql = f"UPDATE {table} SET {column} = ? WHERE id = 1"
            yield Case(f"{table}.{column} {n}", sql=(sql, (value,)))
    others = (
        ("record", "status"),
        ("record", "seed"),
        ("record", "created"),
        ("record", "trace_json"),
        ("record", "verified"),
        ("record", "latency"),
        ("record", "proposal"),
        ("ask", "size"),
        ("ask", "seconds"),
        ("run", "seed"),
        ("run", "created"),
        ("run", "state_asks"),
        ("workload", "name"),
        ("run", "notes"),
        ("run", "tags"),
        ("trial", "worker"),
        ("trial", "phases"),
        ("phase", "began"),
        ("rejection", "count"),
    )
    for n in range(20):
        table, column = others[n % len(others)]
        value = random.Random(f"column {n}").choice(_HOSTILE_TEXTS)
        if value is None and column not in ("seed", "latency", "proposal"):
            value = b"\0"
        first = "true" if table in ("phase", "rejection") else "rowid = 1"
        sql = f"UPDATE {table} SET {column} = ? WHERE {first}"
        yield Case(f"{table}.{column} as {n}", sql=(sql, (value,)))


def _of_programs(folder: Path) -> Iterator[Case]:
    text = to_json(sound_schedule().workload.mod)
    for n in range(20):
        yield Case(f"cut program {n}", _cut(text.encode(), random.Random(f"cut {n}")))
        yield Case(f"flipped program {n}", _flipped(text.encode(), random.Random(f"flip {n}")))
    for n in range(20):
        yield Case(f"changed program {n}", json.dumps(_changed(json.loads(text), n)))
    chain = [{"type": "ffi.Array", "data": []}]
    chain += [{"type": "ffi.Array", "data": [n]} for n in range(50_000)]
    itself = json.loads(text)
    itself["nodes"][-1]["data"]["functions"] = len(itself["nodes"]) - 1
    nothing = json.loads(text)
    block = next(n for n in nothing["nodes"] if n["type"] == "s_tir.SBlockRealize")
    block["data"]["predicate"] = 0
    twice = text.replace('"nodes"', '"nodes": [], "nodes"')
    documents: list[Any] = [
        {"root_index": 50_000, "nodes": chain},
        itself,
        nothing,
        {"root_index": 0, "nodes": [{"type": "ffi.Array", "data": [0]}]},
        {"root_index": 0, "nodes": [{"type": "ffi.Function", "data": ATTACK}]},
        {"root_index": 0, "nodes": [{"type": "ffi.Module", "data": ATTACK}]},
        {"root_index": 0, "nodes": [{"type": "ir.IRModule", "data": None}]},
        {"root_index": 0, "nodes": [{"type": "ir.Op", "data": "no.such.operator"}]},
        {"root_index": 1, "nodes": [{"type": "None"}, {"type": "ir.IRModule", "data": {}}]},
        {"root_index": -1, "nodes": []},
        {"root_index": 2**70, "nodes": [{}]},
        {"root_index": True, "nodes": [[], []]},
        {"nodes": {}},
        [],
        None,
    ]
    for n, hostile in enumerate(
        [*map(json.dumps, documents), DEEP, '{"a":' * 100_000, "", "\0", twice]
    ):
        yield Case(f"hostile program {n}", hostile)


def _changed(document: Any, n: int) -> Any:
    """Cases with well-formed references to the wrong things."""
    rng = random.Random(f"program {n}")
    nodes = document["nodes"]
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(1, len(nodes))
        data = nodes[number].get("data")
        value = rng.choice([rng.randrange(number), rng.randrange(len(nodes)), None, -1, 0.5, True])
        if isinstance(data, dict):
            data[rng.choice(sorted(data))] = value
        elif isinstance(data, list) and data:
            data[rng.randrange(len(data))] = value
        else:
            nodes[number]["type"] = rng.choice(nodes)["type"]
    return document


_MAKERS = {
    "files": _of_files,
    "traces": _of_traces,
    "columns": _of_columns,
    "programs": _of_programs,
}
KINDS = tuple(_MAKERS)


def place(case: Case, path: Path) -> None:
    """Put a case's database at ``path``."""
    if case.sql is None:
        for end, content in case.files.items():
            path.with_name(path.name + end).write_bytes(content)
        return
    path.write_bytes(_closed(path.parent))
    connection = sqlite3.connect(path)
    connection.execute(*case.sql)
    connection.commit()
    connection.close()
