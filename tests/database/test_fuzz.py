"""500 damaged and hostile inputs: each is refused with a typed error, or loads. Nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from schedlang.tvm.program import to_json
from schedlang.tvm.stored_program import read_stored_program
from tests.database.damage import KINDS, Case, cases, sound_schedule
from tests.database.read_damaged import Refused, read

# How many cases of each kind there are, and how many of them are refused at the least. The others
# are damaged where it does not show: in free space, in a name, in a number.
EXPECTED = {"files": (200, 80), "traces": (120, 110), "columns": (100, 50), "programs": (80, 75)}


def test_the_corpus_has_500_cases(tmp_path: Path) -> None:
    made = {kind: cases(kind, tmp_path) for kind in KINDS}
    assert {kind: len(some) for kind, some in made.items()} == {
        kind: count for kind, (count, _) in EXPECTED.items()
    }
    assert sum(map(len, made.values())) == 500
    names = [(kind, case.name) for kind, some in made.items() for case in some]
    assert len(set(names)) == 500
    text = sound_schedule().trace.to_json()
    assert all(case.text not in (text, text.encode()) for case in made["traces"])


def test_the_sound_inputs_that_they_come_from_load(tmp_path: Path) -> None:
    schedule = sound_schedule()
    read("traces", Case("sound", schedule.trace.to_json()), tmp_path)
    read("programs", Case("sound", to_json(schedule.workload.mod)), tmp_path)
    read("columns", Case("sound", sql=("SELECT ?", (1,))), tmp_path)
    with pytest.raises(Refused):
        read("traces", Case("damaged", schedule.trace.to_json()[:-1]), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_input_crashes_runs_code_or_hangs(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.database.read_damaged", kind, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    lines = done.stdout.splitlines()
    last = lines[-1] if lines else "nothing"
    assert done.returncode == 0, f"exit {done.returncode} at: {last}\n{done.stderr[-2000:]}"
    ended = Counter(line.split()[0] for line in lines)
    count, refused = EXPECTED[kind]
    assert ended["begin"] == ended["refused"] + ended["loaded"] == count
    assert ended["refused"] >= refused, ended


def test_sound_programs_pass_the_check() -> None:
    for schedule in (sound_schedule(),):
        for mod in (schedule.workload.mod, schedule.mod):
            text = to_json(mod)
            assert to_json(read_stored_program(text)) == text
