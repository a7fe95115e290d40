"""``schedlang tune``: what it tunes, with which options, and what it answers."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.cli.measure import survey
from schedlang.cli.objects import UsageError
from schedlang.cli.options import flag, help_of
from schedlang.cli.settings import tolerance_of
from schedlang.cli.tune import tune, tune_network, tune_shapes
from schedlang.tuning.options import REQUIRED, SURVEY, TUNE, TUNE_NETWORK, TUNE_SHAPES, Option
from tests.cli.calling import SIZES, call, document
from tests.cli.conftest import Tuned

# What commands have besides: of files, of importing and compiling, and of all verbs.
OWN = {
    "context",
    "what",
    "report",
    "explain",
    "library",
    "c",
    "layout",
    "log",
    "output",
    "python",
    "as_json",
    "debug",
}


def test_tune_measures_and_stores(tuned: Tuned) -> None:
    said = tuned.first
    assert (said["workload"], said["trials"], said["finished"]) == ("matmul", 3, "3 trials")
    stored = sl.best(sl.workloads.matmul(16, 16, 16), "cpu", tuned.file)
    assert stored is not None
    with sl.open_database(tuned.file, read_only=True) as database:
        assert database.get([said["best"]["record"]])[0].run_id == 1
    assert said["speedup"] == pytest.approx(said["unscheduled_latency"] / said["best"]["latency"])


def test_the_same_call_measures_nothing(tuned: Tuned, tmp_path: Path) -> None:
    report = tmp_path / "run.html"
    words = ("--trials", "3", "--database", tuned.file, "--report", report, "--explain")
    again = document("tune", *SIZES, *words)
    assert (again["earlier"], again["best"]) == (3, tuned.first["best"])
    assert "matmul" in again["explanation"] and report.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("options", "verb"),
    [(TUNE, tune), (TUNE_NETWORK, tune_network), (TUNE_SHAPES, tune_shapes), (SURVEY, survey)],
    ids=["tune", "net", "shapes", "survey"],
)
def test_every_argument_has_an_option_with_the_same_default(
    options: tuple[Option, ...], verb: Callable[..., Any]
) -> None:
    """A new argument of the API has an option; mypy and Typer see real parameters."""
    has = inspect.signature(verb).parameters
    for option in (one for one in options if one.default is not REQUIRED):
        default = has[option.name].default
        if option.name in ("verify", "callbacks"):
            assert default in ("true", None)
        else:
            assert default == option.default, option.name
        assert has[option.name].annotation.__metadata__[0].help == help_of(option, options)
    also = {"module", *(name for name in has if name.startswith("stop_"))}
    assert set(has) - {option.name for option in options} <= OWN | also


def test_the_command_and_the_library_refuse_alike() -> None:
    """The same text, but for how the option is spelled; nothing is measured."""
    for option in TUNE:
        if option.wrong is None or option.name == "seconds":
            continue
        word = "al" if option.name == "verify" else "-1"
        with pytest.raises(ValueError) as refused:
            sl.tune(sl.workloads.matmul(4, 4, 4), **{option.name: "al" if word == "al" else -1})
        name, _, remedy = str(refused.value).partition("; ")
        said = call("tune", *SIZES, flag(option), word, code=2).stderr
        assert said == f"schedlang: {flag(option)} {word}; {remedy}\n", name


def test_verify_has_the_values_of_the_library(programs: str) -> None:
    words = (*SIZES, "--trials", "1", "--measurer", f"{programs}:measurer")
    for word in ("true", "True", "all", "false"):
        assert document("tune", *words, "--verify", word)["trials"] == 1
    said = call("tune", *words, "--verify", "winners", code=2).stderr
    assert "--verify winners; choose True, False or 'all'" in said


def test_an_option_that_is_a_size_too_is_never_taken_for_the_other(programs: str) -> None:
    """``batch`` is what ``tune`` asks a search for, and a size of many operators."""
    words = ("--trials", "1", "--measurer", f"{programs}:measurer")
    said = call("tune", "softmax", "--batch", "4", *words).stdout  # it has no such size
    assert "softmax" in said
    shape = ("norm", "--n", "8", "--m", "8")
    refused = call("tune", *shape, "--batch", "4", *words, code=2).stderr
    assert "--batch is an option of the command, and a size of norm" in refused
    assert "norm -- --batch VALUE" in refused
    found = document("tune", *shape, "--batch", "3", *words, "--", "--batch", "2")
    wanted = sl.workloads.norm(n=8, m=8, batch=2).key
    assert found["workload_key"] == wanted


def test_a_function_of_a_file(programs: str, tmp_path: Path) -> None:
    arrays = tmp_path / "inputs.npz"
    np.savez(arrays, a=np.ones(8, np.float32))
    words = ("--n", "8", "--trials", "1", "--inputs", arrays, "--tolerance", "1e-3,1e-6")
    more = ("--reference", f"{programs}:twice", "--module", f"{programs}:nothing")
    assert document("tune", f"{programs}:add", *words, *more)["best"]["verified"]


def test_settings_of_a_file(programs: str) -> None:
    """A stop rule, a callback and a measurer; a size may follow --, whatever it is called."""
    words = ("--trials", "9", "--measurer", f"{programs}:measurer", "--search", "random")
    more = ("--stop-when", f"{programs}:enough", "--callback", f"{programs}:see")
    said = document("tune", f"{programs}:add", *words, *more, "--", "--n", "64")
    assert said["trials"] == 2 and "enough" in said["finished"]
    assert sys.modules["programs_of_mine"].seen == pytest.approx([3e-6, 2e-6], rel=0.01)
    stopped = document("tune", f"{programs}:add", "--n", "64", *words, "--stop-gain-trials", "1")
    assert "no gain" in stopped["finished"]


def test_programs_without_sizes(programs: str, tmp_path: Path) -> None:
    words = ("--trials", "1", "--measurer", f"{programs}:measurer")
    assert document("tune", f"{programs}:program", *words)["workload"] == "program"
    script = tmp_path / "kernel.tvmscript"
    script.write_text(sl.workloads.matmul(4, 4, 4).mod.script(), encoding="utf-8")
    assert document("tune", script, *words)["workload"] == "kernel"
    assert "takes no --n" in call("tune", script, "--n", "4", code=2).stderr


TWO = """\
from tvm.script import ir as I
from tvm.script import tirx as T

@I.ir_module
class Module:
"""
FUNCTION = """\
    @T.prim_func(s_tir=True)
    def {name}(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.sblock("b"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] + T.float32({number})
"""


def test_a_function_of_a_script_with_several(programs: str, tmp_path: Path) -> None:
    script = tmp_path / "two.tvmscript"
    functions = [FUNCTION.format(name=name, number=number) for number, name in enumerate("fg")]
    script.write_text(TWO + "".join(functions), encoding="utf-8")
    words = ("--trials", "1", "--measurer", f"{programs}:measurer")
    assert document("tune", f"{script}:g", *words)["workload"] == "g"
    assert f"({script}:NAME)" in call("tune", script, *words, code=2).stderr
    assert "it has f, g" in call("tune", f"{script}:h", *words, code=2).stderr
    script.write_text(TWO + "    oops", encoding="utf-8")
    assert "line 6: Undefined variable" in call("tune", script, *words, code=2).stderr


def test_ctrl_c_keeps_what_was_measured(programs: str, tmp_path: Path) -> None:
    words = (*SIZES, "--trials", "9", "--measurer", f"{programs}:interrupted")
    file = tmp_path / "tune.db"
    found = call("tune", *words, "--database", file, code=130)
    assert "2 measured" in found.stdout and "the same call continues" in found.stdout
    assert "--database FILE" in call("tune", *words, code=130).stdout
    with sl.open_database(file) as database:
        assert database.count() > 1
    [run] = document("summary", file)["runs"]
    assert not run["ended"]
    explained = document("explain", file)
    assert explained["candidates"] == 2 and explained["decisions"]
    assert any("interrupted" in doubt for doubt in explained["doubts"])


@pytest.mark.usefixtures("hear_ctrl_c")
def test_ctrl_c_that_others_make_an_error_of_is_ctrl_c(programs: str) -> None:
    found = call("tune", f"{programs}:swallowed", code=130)
    assert found.stderr.strip() == "schedlang: interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_report_that_cannot_be_written_does_not_lose_the_result(programs: str) -> None:
    words = (*SIZES, "--trials", "2", "--measurer", f"{programs}:measurer")
    found = call("tune", *words, "--report", "/dev/full", code=1)
    assert "2 measured" in found.stdout and "No space left" in found.stderr
    said = document("tune", *words, "--report", "/dev/full", code=1)
    assert said["best"]["latency"] > 0 and "No space left" in said["error"]


def test_what_ends_a_run_leaves_the_result_so_far(programs: str) -> None:
    words = (*SIZES, "--trials", "9", "--measurer", f"{programs}:breaking")
    found = call("tune", *words, code=1)
    assert "RuntimeError: the cable" in found.stderr and "Traceback" not in found.stderr
    assert found.stdout.startswith("matmul: ") and "best" in found.stdout
    assert "Traceback" in call("tune", *words, "--debug", code=1).stderr


def test_no_candidate_succeeds(programs: str) -> None:
    words = ("--trials", "2", "--measurer", f"{programs}:failing")
    said = document("tune", *SIZES, *words, code=1)
    assert said["best"] is None and said["speedup"] is None and said["rejected"]


def test_tolerances() -> None:
    assert tolerance_of([]) is None
    assert tolerance_of(["1e-3"]) == 1e-3
    assert tolerance_of(["C=1e-3,1e-5", "D=1"]) == {"C": (1e-3, 1e-5), "D": 1.0}
    for wrong in (["one"], ["1,2,3"], ["1", "2"]):
        with pytest.raises(UsageError):
            tolerance_of(wrong)
