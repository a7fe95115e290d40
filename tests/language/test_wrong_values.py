"""Files of the right form with a wrong value: each is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.formats.reading import refused, stored
from tests.language.programs import everything

# Positions of instructions in the trace of ``everything(0)``.
TILE, REORDER, MAP, NOTE, EXPR, CHOICE = 5, 10, 11, 12, 14, 19


def at(instruction: int, *path: str | int) -> tuple[str | int, ...]:
    return ("instructions", instruction, *path)


WRONG: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("schema",), 3, "schema"),
    (("schema",), 0, "schema"),
    (("schema",), True, "schema"),
    (("schema",), "1", "schema"),
    (("schema",), None, "schema"),
    (("more",), 1, "trace.more"),
    (("instructions",), {}, "instructions"),
    (at(0), [], "instructions[0]"),
    (at(0, "more"), 1, "instructions[0].more"),
    (at(0, "kind"), "no_such_instruction", "instructions[0].kind"),
    (at(0, "kind"), "__import__('os')", "instructions[0].kind"),
    (at(0, "kind"), ["get_block"], "instructions[0].kind"),
    (at(0, "kind"), "get_loops", "instructions[0].args.func_name"),
    (at(0, "args"), [], "instructions[0].args"),
    (at(0, "args"), None, "instructions[0].args"),
    (at(0, "args"), {"name": "C"}, "instructions[0].args.func_name"),
    (at(0, "args", "more"), 1, "instructions[0].args.more"),
    (at(0, "args", "name"), 7, "instructions[0].args.name"),
    (at(0, "args", "name"), None, "instructions[0].args.name"),
    (at(0, "args", "func_name"), ["main"], "instructions[0].args.func_name"),
    (at(0, "out"), "b1", "instructions[0].out"),
    (at(0, "out"), "l0", "instructions[0].out"),
    (at(0, "out"), "x0", "instructions[0].out"),
    (at(0, "out"), "b00", "instructions[0].out"),
    (at(0, "out"), "b", "instructions[0].out"),
    (at(0, "out"), "", "instructions[0].out"),
    (at(0, "out"), ["b0"], "instructions[0].out"),
    (at(0, "out"), [], "instructions[0].out"),
    (at(0, "out"), 0, "instructions[0].out"),
    (at(0, "out"), None, "instructions[0].out"),
    (at(0, "site"), "here", "instructions[0]"),
    (at(0, "decision"), 1, "instructions[0]"),
    (at(0, "module"), 1, "instructions[0].module"),
    (at(1, "args", "block"), {"rv": "b1"}, "instructions[1].args.block"),
    (at(1, "args", "block"), {"rv": "b99999999999"}, "instructions[1].args.block"),
    (at(1, "args", "block"), {"rv": "b-1"}, "instructions[1].args.block"),
    (at(1, "args", "block"), {"rv": "b²"}, "instructions[1].args.block"),
    (at(1, "args", "block"), {"rv": 0}, "instructions[1].args.block"),
    (at(1, "args", "block"), {"rv": "b0", "x": 1}, "instructions[1].args.block"),
    (at(1, "args", "block"), {"other": "b0"}, "instructions[1].args.block"),
    (at(1, "args", "block"), {}, "instructions[1].args.block"),
    (at(1, "args", "block"), "b0", "instructions[1].args.block"),
    (at(1, "args", "read_buffer_index"), True, "instructions[1].args.read_buffer_index"),
    (at(1, "args", "read_buffer_index"), 0.0, "instructions[1].args.read_buffer_index"),
    (at(1, "args", "consumer_blocks"), [None], "instructions[1].args.consumer_blocks[0]"),
    (at(2, "out", 1), "b3", "instructions[2].out[1]"),
    (at(2, "out", 1), "l2", "instructions[2].out[1]"),
    (at(3, "site"), "", "instructions[3].site"),
    (at(3, "site"), None, "instructions[3].site"),
    (at(3, "decision"), "2", "instructions[3].decision"),
    (at(3, "decision"), None, "instructions[3].decision"),
    (at(3, "decision"), 2.0, "instructions[3].decision"),
    (at(3, "decision"), True, "instructions[3].decision"),
    (at(3, "distribution"), None, "instructions[3].distribution"),
    (at(3, "distribution"), {"kind": "no_such"}, "instructions[3].distribution"),
    (at(3, "distribution", "kind"), "os.system", "instructions[3].distribution"),
    (at(3, "distribution", "probs"), [1, 2], "instructions[3].distribution"),
    (at(3, "distribution", "candidates"), [2, 2], "instructions[3].distribution"),
    (at(3, "out"), ["v5"], "instructions[3].out"),
    (at(3, "out"), "l5", "instructions[3].out"),
    (at(4, "args", "loop"), {"rv": "b0"}, "instructions[4].args.loop"),
    (at(4, "args", "loop"), {"rv": "v5"}, "instructions[4].args.loop"),
    (at(4, "args", "factors"), 4, "instructions[4].args.factors"),
    (at(4, "args", "factors", 0), "4", "instructions[4].args.factors[0]"),
    (at(4, "args", "factors", 0), True, "instructions[4].args.factors[0]"),
    (at(4, "args", "factors", 1), {"expr": ["*", "v5"]}, "instructions[4].args.factors[1]"),
    (at(4, "args", "factors", 1), {"expr": ["**", "v5", 2]}, "instructions[4].args.factors[1][0]"),
    (at(4, "args", "factors", 1), {"expr": [[], "v5", 2]}, "instructions[4].args.factors[1][0]"),
    (at(4, "args", "factors", 1), {"expr": ["*", "l4", 2]}, "instructions[4].args.factors[1][1]"),
    (at(4, "args", "factors", 1), {"expr": ["*", "v9", 2]}, "instructions[4].args.factors[1][1]"),
    (at(4, "args", "factors", 1), {"expr": ["*", "i0", 2]}, "instructions[4].args.factors[1][1]"),
    (at(4, "args", "factors", 1), {"expr": ["*", 1.5, 2]}, "instructions[4].args.factors[1][1]"),
    (at(4, "args", "factors", 1), {"expr": "exit()"}, "instructions[4].args.factors[1]"),
    (at(TILE, "decision"), [4, "4"], f"instructions[{TILE}].decision[1]"),
    (at(TILE, "decision"), [4, [4]], f"instructions[{TILE}].decision[1]"),
    (at(TILE, "decision"), [4, True], f"instructions[{TILE}].decision[1]"),
    (at(TILE, "site"), "width", f"instructions[{TILE}].site"),
    (at(TILE, "out"), ["v8", "v9", "v10"], f"instructions[{TILE}].out"),
    (at(TILE, "out"), ["v8"], f"instructions[{TILE}].out"),
    (at(TILE, "out"), "v8", f"instructions[{TILE}].out"),
    (at(TILE, "out"), ["b8", "l9"], f"instructions[{TILE}].out[0]"),
    (at(REORDER, "args", "loops", 0), {"rv": "b0"}, f"instructions[{REORDER}].args.loops[0]"),
    (at(MAP, "args", "buffer"), 0, f"instructions[{MAP}].args.buffer"),
    (at(MAP, "args", "index_map"), {"map": []}, f"instructions[{MAP}].args.index_map"),
    (at(MAP, "args", "index_map"), {"map": {"in": ["a"]}}, f"instructions[{MAP}].args.index_map"),
    (
        at(MAP, "args", "index_map", "map", "in"),
        ["n", "__import__('os')"],
        f"instructions[{MAP}].args.index_map.in[1]",
    ),
    (
        at(MAP, "args", "index_map", "map", "in"),
        ["n", "lambda"],
        f"instructions[{MAP}].args.index_map.in[1]",
    ),
    (
        at(MAP, "args", "index_map", "map", "in"),
        ["n", "v5"],
        f"instructions[{MAP}].args.index_map.in[1]",
    ),
    (
        at(MAP, "args", "index_map", "map", "in"),
        ["n", "n"],
        f"instructions[{MAP}].args.index_map.in[1]",
    ),
    (
        at(MAP, "args", "index_map", "map", "out"),
        ["i0", "i2"],
        f"instructions[{MAP}].args.index_map.out[1]",
    ),
    (at(NOTE, "args", "ann_val"), {"dict": []}, f"instructions[{NOTE}].args.ann_val"),
    (
        at(NOTE, "args", "ann_val", "dict", "list"),
        [{"float": "1e5"}],
        f"instructions[{NOTE}].args.ann_val.list[0]",
    ),
    (at(EXPR, "args", "ann_val"), {"expr": None}, f"instructions[{EXPR}].args.ann_val"),
    (at(CHOICE, "args", "options"), [], f"instructions[{CHOICE}].args.options"),
    (at(CHOICE, "args", "options"), 4, f"instructions[{CHOICE}].args.options"),
    (at(CHOICE, "decision"), 4, f"instructions[{CHOICE}].decision"),
    (at(CHOICE, "decision"), -1, f"instructions[{CHOICE}].decision"),
    (at(CHOICE, "decision"), [0], f"instructions[{CHOICE}].decision"),
    (
        at(CHOICE, "distribution"),
        {"kind": "int_range", "start": 0, "stop": 4, "step": 1},
        f"instructions[{CHOICE}].distribution",
    ),
    (at(CHOICE, "out"), ["v25"], f"instructions[{CHOICE}].out"),
]


@pytest.mark.parametrize(("path", "value", "where"), WRONG, ids=lambda item: str(item)[:50])
def test_a_wrong_value_is_refused_with_its_place(
    path: tuple[str | int, ...], value: Any, where: str
) -> None:
    document = stored(everything(0))
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert refused(json.dumps(document)).where == where
