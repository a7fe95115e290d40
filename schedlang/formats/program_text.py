"""Programs as text in printed Python: TVMScript where it reads back, TVM's JSON elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlang.instructions.instruction import Line
from schedlang.interpreters.replay import replay
from schedlang.tvm import program
from schedlang.tvm.graph.positions import without_positions
from schedlang.tvm.schedule import get_module
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


def script_text(mod: TensorProgram, line: Line = ()) -> str | None:
    """Return TVMScript that reads back as the module; None where TVM's printer loses something.

    It loses some values, and names: it renames the second buffer of a name. Instructions name new
    blocks after buffers, so ``line`` must make the same program of what is read back.
    """
    script = str(mod.script())
    try:
        parsed = program.parse_script(script)
        same = program.structurally_equal(parsed, mod)
        if same and line and _names(parsed) != _names(mod):
            same = program.structurally_equal(_made(line, parsed), _made(line, mod))
    except Exception:  # TVM's parser does not read all that its printer writes
        return None
    return script if same else None


def json_text(mod: TensorProgram) -> str:
    """Return TVM's JSON text of the module, without the places in the user's file."""
    return program.to_json(without_positions(mod))


def quoted(script: str) -> str:
    """Return a script as it stands between triple quotes."""
    return script.replace("\\", "\\\\").rstrip()


def _made(line: Line, mod: TensorProgram) -> TensorProgram:
    return get_module(replay(line, Workload(mod, program.MAIN)).state.raw)


def _names(mod: TensorProgram) -> list[str]:
    found = []
    for func in program.named_functions(mod).values():
        found += [one.name for one in program.parameters(func)]
        found += [name for name, _ in program.intermediate_shapes(func)]
        found += [str(one.block.name_hint) for one in program.block_realizes(func)]
    return found
