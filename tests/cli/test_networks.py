"""``schedlang tune-network`` and ``schedlang compile``."""

from __future__ import annotations

from pathlib import Path

import pytest

import schedlang as sl
from tests.cli.calling import call, document

NETWORK = """
import numpy as np
from tvm import relax
from tests.tuning.scripted import Scripted


def network(width, layers=1):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, width), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(layers):
                weight = relax.const(np.ones((width, width), "float32"))
                value = builder.emit(relax.op.matmul(value, weight))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    return builder.get()


def sizes():
    import schedlang as sl

    found = [sl.import_network(network(width), name="mine") for width in (4, 8)]
    return sl.NetworkSet(found)


def number():
    return 7


class Measurer(Scripted):
    def __init__(self):
        super().__init__([3e-6, 2e-6], 5e-6)

    def bind(self, workload):
        pass
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "a_network_of_mine.py"
    path.write_text(NETWORK, encoding="utf-8")
    return str(path)


def test_a_network_is_tuned_and_compiled(file: str, tmp_path: Path) -> None:
    database, library = tmp_path / "network.db", tmp_path / "network.so"
    words = (f"{file}:network", "--width", "8", "--database", database)
    tuning = ("--trials", "2", "--measurer", f"{file}:Measurer", "--notes", "mine")
    wrong = call("tune-network", *words, *tuning, "--tolerance", "y=1e-3", code=2)
    assert "--tolerance y=1e-3; give one number, or (relative, absolute), for all" in wrong.stderr
    wrong = call("tune-network", *words, *tuning, "--tolerance", "1e-3,1e-5", code=2)
    assert "tolerance: the measurer that is given keeps its own settings" in wrong.stderr
    assert not database.exists()
    said = document("tune-network", *words, *tuning)
    assert said["trials"] == 2 and [one["task"] for one in said["tasks"]]
    assert said["tasks"][0]["latency"] == pytest.approx(2e-6, rel=0.01)
    with sl.open_database(database) as opened:
        assert [run.notes for run in opened.runs()] == ["mine"]
    compiled = document("compile", *words, "--output", library)
    assert compiled["verified"] and library.stat().st_size > 0
    assert compiled["library"] == str(library) and len(compiled["tasks"]) == 1
    assert document("compile", *words, "--output", tmp_path / "for_c.so", "--c")["verified"]
    assert "int for_c(const float *" in (tmp_path / "for_c.h").read_text()
    assert "--c goes with --output FILE" in call("compile", *words, "--c", code=2).stderr


def test_a_network_at_several_sizes(file: str, tmp_path: Path) -> None:
    database, library = tmp_path / "sizes.db", tmp_path / "sizes.so"
    words = (f"{file}:sizes", "--database", database)
    tuning = ("--trials", "4", "--measurer", f"{file}:Measurer")
    wrong = call("tune-network", *words, *tuning, "--library", library, code=2)
    assert "holds one size, and mine has 2: add --c" in wrong.stderr and not database.exists()
    said = document("tune-network", *words, *tuning, "--library", library, "--c")
    assert [one["name"] for one in said["networks"]] == ["mine 4", "mine 8"]
    assert said["trials"] == 4 and library.exists()
    compiled = document("compile", *words, "--output", tmp_path / "again.so", "--c")
    assert compiled["verified"] and [one["size"] for one in compiled["sizes"]] == ["4", "8"]
    assert all(one["call"] > 0 and len(one["tasks"]) == 1 for one in compiled["sizes"])
    assert "int again_tensors(" in (tmp_path / "again.h").read_text()
    shown = call("compile", *words, "--profile").stdout
    assert "network mine at 2 sizes" in shown and "median of 10 calls" in shown
    assert "add --c" in call("compile", *words, "--output", library, code=2).stderr


def test_wrong_networks(file: str, tmp_path: Path) -> None:
    assert "needs --width" in call("compile", f"{file}:network", code=2).stderr
    assert "int" in call("compile", f"{file}:number", code=2).stderr
    assert "no such file" in call("compile", "nowhere.onnx", code=2).stderr
    assert "name the function" in call("tune-network", file, code=2).stderr
    missing = call("compile", f"{file}:network", "--width", "8", "--database", "no.db", code=2)
    assert "no such database" in missing.stderr


def test_a_compilation_shows_how_far_it_is_and_ends_in_time(file: str) -> None:
    words = ("compile", f"{file}:network", "--width", "8", "--seconds", "1e-9")
    assert [one["origin"] for one in document(*words)["tasks"]] == ["hasty"]
    found = call(*words, "--progress")
    assert "choosing default schedules, 0 of 1 functions" in found.stderr
    assert "tasks: 1 hasty" in found.stdout
