"""What the last line of a notebook's cell shows, and how messages list many things."""

from __future__ import annotations

import schedlang as sl
from schedlang.language.schedule import Trace
from schedlang.networks import NetworkResult
from schedlang.printed import first_line, listed, nearest
from schedlang.report import RunComparison
from schedlang.tuning.explaining import Explanation


class Printer:
    """IPython's printer, as far as it is used."""

    def __init__(self) -> None:
        self.shown = ""

    def text(self, text: str) -> None:
        self.shown += text

    def break_(self) -> None:
        self.shown += "\n"


def shown(value: object) -> str:
    """What IPython shows: it takes the first class that has either method by itself."""
    printer = Printer()
    for kind in type(value).__mro__:
        if "_repr_pretty_" in vars(kind):
            vars(kind)["_repr_pretty_"](value, printer, cycle=False)
            return printer.shown
        if "__repr__" in vars(kind):
            break
    return repr(value)


def test_a_cell_shows_the_text_of_what_is_large() -> None:
    schedule = sl.default_space("cpu").sample(sl.workloads.matmul(16, 16, 16), seed=0)
    assert shown(schedule.trace) == str(schedule.trace)
    space = sl.default_space("cpu")
    assert shown(space) == str(space)
    kinds = (Trace, sl.TuneResult, NetworkResult, Explanation, RunComparison)
    for kind in (*kinds, sl.Space, sl.Network, sl.CompiledNetwork):
        assert "_repr_pretty_" in vars(kind)


def test_the_repr_of_a_result_is_one_line() -> None:
    result = sl.tune(sl.workloads.matmul(16, 16, 16), trials=2, seed=0, search="random")
    assert repr(result).startswith("<TuneResult of matmul: 2 records, best ")
    assert len(repr(result)) < 100
    assert shown(result) == str(result)


def test_the_repr_of_a_history_has_no_records() -> None:
    result = sl.tune(sl.workloads.matmul(16, 16, 16), trials=2, seed=0, search="random")
    assert "Record(" not in repr(result.history) and "Phase(" not in repr(result.history)


def test_a_message_names_the_first_of_many_things() -> None:
    assert listed(["a"]) == "a"
    assert listed("abcde") == "\n  a\n  b\n  c\n  d\n  e"
    assert listed(range(12)) == "\n  0\n  1\n  2\n  3\n  4\n  and 7 more"
    assert listed("abc", lines=False, most=2) == "a; b; and 1 more"


def test_the_first_line_of_what_was_said() -> None:
    assert first_line("\n one\ntwo") == "one"
    assert first_line(ValueError("one\ntwo")) == "one"
    assert (first_line(""), first_line(ValueError(" \n"))) == ("", "ValueError")


def test_the_nearest_word_is_named_in_its_own_form() -> None:
    known = ["matmul", "GMM", "conv2d"]
    assert nearest("matmull", known) == "; did you mean 'matmul'?"
    assert nearest("gmm", known) == "; did you mean 'GMM'?"
    assert nearest("con2d", known, "--{}".format) == "; did you mean --conv2d?"
    assert nearest("softmax", known) == nearest(3, []) == ""
