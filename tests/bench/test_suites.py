"""Suite files: families of kernels, what is refused, and the figures of a suite."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from schedlang.bench.measuring import SuiteRow, by_family, figures, losers, row_line, summary
from schedlang.bench.peers import COMPILED, EAGER, OURS, disturbance
from schedlang.cli.objects import UsageError
from schedlang.cli.suite import Expression, Suite, read_suite
from schedlang.measurement.disturbance import CoreUse

SUITES = Path(__file__).resolve().parents[2] / "benchmarks" / "suites"


def read(folder: Path, text: str) -> Suite:
    file = folder / "suite.toml"
    file.write_text(text, encoding="utf-8")
    return read_suite(file)


def test_a_table_is_a_family_of_rows_and_lists(tmp_path: Path) -> None:
    suite = read(
        tmp_path,
        """
        trials = 7
        [[kernel]]
        name = "mm.{row}.s{n}"
        workload = "matmul"
        sizes = { n = [8, 16], dtype = "float16" }
        rows.q = { m = 4 }
        rows.kv = { m = 2 }
        [[kernel]]
        name = "norm"
        workload = "NRM"
        trials = 2
        columns = ["m", "batch"]
        rows.a = [4, [1, 2]]
        [[kernel]]
        name = "softmax"
        torch = "torch.softmax(x * half, -1)"
        inputs = { x = ["s", 3, "s"] }
        sizes = { s = 4, half = 0.5 }
        """,
    )
    assert suite.name == "suite"
    sizes = {one.name: dict(one.sizes) for one in suite.kernels}
    assert sizes == {
        "mm.q.s8": {"n": 8, "dtype": "float16", "m": 4},
        "mm.q.s16": {"n": 16, "dtype": "float16", "m": 4},
        "mm.kv.s8": {"n": 8, "dtype": "float16", "m": 2},
        "mm.kv.s16": {"n": 16, "dtype": "float16", "m": 2},
        "norm.a.batch1": {"m": 4, "batch": 1},
        "norm.a.batch2": {"m": 4, "batch": 2},
        "softmax": {"s": 4, "half": 0.5},
    }
    assert [one.trials for one in suite.kernels] == [7, 7, 7, 7, 2, 2, 7]
    assert suite.kernels[-1].shapes == {"x": (4, 3, 4)}
    assert suite.kernels[0].words == ["--n=8", "--dtype=float16", "--m=4"]


def test_files_are_named_from_the_folder_of_the_suite(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("", encoding="utf-8")
    suite = read(tmp_path, '[[kernel]]\nname = "a"\nworkload = "mine.py:f"\nsizes = { on = true }')
    assert suite.kernels[0].program == f"{tmp_path / 'mine.py'}:f"
    assert suite.kernels[0].words == ["--on=true"]


KERNEL = '[[kernel]]\nname = "a"\n'
MATMUL = f'{KERNEL}workload = "matmul"\n'
TORCH = f'{KERNEL}torch = "torch.relu(x)"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[kernel]\n", "is no valid TOML: .*line 1"),
        ("", "the suite is empty"),
        ("kernels = 1\n", "no field 'kernels'; did you mean 'kernel'"),
        ("kernel = 1\n", "kernel: give each as a table"),
        (f"trials = 0\n{MATMUL}", "trials = 0; give a whole number"),
        (f"name = 1\n{MATMUL}", "name = 1; give a text"),
        ('[[kernel]]\nworkload = "matmul"\n', "kernel number 1: name is missing"),
        (KERNEL, "kernel 'a': workload is missing"),
        (f"{MATMUL}size = 4\n", "kernel 'a': no field 'size'; did you mean 'sizes'"),
        (f"{MATMUL}trials = true\n", "kernel 'a': trials = True; give a whole number"),
        (f"{MATMUL}sizes = 4\n", "kernel 'a': sizes = 4; give a table"),
        (f"{MATMUL}sizes = {{ n = [] }}\n", r"sizes: n = \[\]; give one value at least"),
        (f"{MATMUL}sizes = {{ n = [{{}}] }}\n", r"sizes: n = \{\}; give a number"),
        (f"{MATMUL}sizes = {{ q = 4 }}\n", "kernel 'a': sizes: no option --q.* takes --n"),
        (f"{MATMUL}rows.b = 4\n", "rows.b = 4; give a table"),
        (f'{MATMUL}columns = ["n"]\nrows.b = [1, 2]\n', "rows.b = .*a value for each of columns"),
        (f"{MATMUL}{MATMUL}", "kernel 'a': name: there are two kernels called 'a'"),
        (f'{KERNEL}workload = "matmull"\n', "kernel 'a': workload: .*did you mean 'matmul'"),
        (f'{KERNEL}workload = "no.py:f"\n', "kernel 'a': workload: .*no such file"),
        ('[[kernel]]\nname = "a{b}"\nworkload = "matmul"\n', "name: {b} is no size"),
        (f"{MATMUL}inputs = {{ x = [4] }}\n", "inputs is of a kernel that torch gives alone"),
        (TORCH, "kernel 'a': inputs is missing"),
        (f"{TORCH}inputs = {{ x = 4 }}\n", "inputs: x = 4; give its shape"),
        (f"{TORCH}inputs = {{ x = [0] }}\n", "inputs: x has the extent 0; give a whole"),
        (f'{TORCH}inputs = {{ x = ["n"] }}\n', "inputs: x has the extent 'n', which is no size"),
        (f"{TORCH}inputs = {{ y = [4] }}\n", "torch: .* reads 'x', which is no input"),
        (f"{TORCH}inputs = {{ x = [4], y = [4] }}\n", "torch: .*does not read the input 'y'"),
        (f"{TORCH}inputs = {{ x = [4] }}\nsizes = {{ n = 1 }}\n", "sizes: neither .* read 'n'"),
        (f'{TORCH}inputs = {{ x = [4] }}\ndtype = "float31"\n', "dtype = 'float31'; did you mean"),
        (f'{KERNEL}torch = "x +"\ninputs = {{ x = [4] }}\n', "torch: 'x \\+' is no expression"),
    ],
)
def test_a_wrong_suite_is_refused_with_the_place(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "suite.toml"))


def test_an_error_in_a_family_names_its_member(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"kernel 'a': a\.b\.q2: sizes: no option --q"):
        read(tmp_path, f"{MATMUL}sizes = {{ q = [2] }}\nrows.b = {{}}\n")


def test_names_of_an_expression() -> None:
    made = Expression("[torch.relu(y) for y in (x,)][0] + n * max(1, 2)", ["x"], {"n": 2})
    assert made.reads("n") and not made.reads("m")
    for name in ("torch", "for", "a b"):
        with pytest.raises(UsageError, match="cannot be a name"):
            Expression("x", ["x", name])


@pytest.mark.parametrize(
    ("name", "families"),
    [
        (
            "deplodock",
            {"matmul": 36, "rmsnorm": 6, "softmax": 6, "silu_mul": 6, "sdpa": 6, "naive_attn": 6}
            | {"matmul_add": 12, "silu_mul_matmul": 6},
        ),
        (
            "ansor",
            dict.fromkeys("C1D C2D C3D GMM GRP DIL DEP T2D CAP NRM".split(), 8),
        ),
    ],
)
def test_the_suites_of_the_repository(name: str, families: dict[str, int]) -> None:
    suite = read_suite(SUITES / f"{name}.toml")
    assert Counter(one.name.partition(".")[0] for one in suite.kernels) == families
    assert not any("{" in one.name for one in suite.kernels)


def row(
    name: str, ours: float, eager: float | None = None, compiled: float | None = None
) -> SuiteRow:
    others = {EAGER: eager, COMPILED: compiled}
    latency = {OURS: ours} | {side: one for side, one in others.items() if one is not None}
    ratio = {side: one / ours for side, one in latency.items() if side != OURS}
    p_value = {EAGER: 0.5, COMPILED: 0.001}
    return SuiteRow(
        name, "key", 8e6, 1000, latency, ratio=ratio, p_value=p_value, slowest_call="aten::mm"
    )


def test_figures_of_made_up_rows() -> None:
    rows = [row("a.1", 1e-3, 4e-3, 1e-3), row("a.2", 1e-3, 1e-3), row("b", 2e-3, 1e-3, 1e-3)]
    failed = SuiteRow("c", failed="tune", error="it is broken")
    found = figures([*rows, failed], EAGER)
    assert found is not None
    assert (found.kernels, found.at_least_as_fast) == (3, 2)
    assert (found.best, found.lowest) == (4.0, 0.5)
    assert found.geometric_mean == pytest.approx(2 ** (1 / 3))
    assert found.percentile_90 == pytest.approx(3.4)  # between the second, 1, and the first, 4
    assert figures([failed], EAGER) is None
    assert {name: len(held) for name, held in by_family(rows).items()} == {"a": 2, "b": 1}
    assert losers(rows, COMPILED) == [rows[2]]
    text = summary([*rows, failed], "mine", 5.0)
    assert "mine: 4 kernels in 5 s, 1 failed" in text
    assert "torch eager is faster for 1 of 3 kernels:" in text
    loser = "b: 0.50x, as fast within the noise; ours 2 ms (4 GFLOPS); eager 1 ms (8 GFLOPS); "
    assert loser + "torch calls aten::mm" in text
    assert "b: 0.50x; ours" in text and "its code calls no library" in text
    assert "c (tune): it is broken" in text


def test_a_busy_machine_is_told() -> None:
    """Torch is slow in every round then, so that they may agree."""
    calm = {OURS: [1.0, 1.1, 1.1], EAGER: [2.0, 2.1, 9.0]}  # one slow round says nothing
    wild = {OURS: [1.0, 1.0, 1.0], EAGER: [2.0, 4.0, 4.0]}
    assert disturbance(calm, None) == "" == disturbance(calm, CoreUse(1.0, 2, 0.1))
    assert disturbance(calm, CoreUse(1.0, 2, 0.9)) == "others used 0.9 of 2 cores"
    assert disturbance(calm, CoreUse(1.0, 2, 0.1, 0.2)).startswith("others used 0.1 of 2 cores")
    assert disturbance(wild, None) == "rounds usually take 2.0 times the fastest"


def test_lines_of_the_table() -> None:
    names = ["a", "longer"]
    line = row_line(row("a", 1e-3, 4e-3), names, sides=2)
    assert line.startswith("a     ") and "4.00x" in line and "-" in line
    assert "usually" not in line
    disturbed = replace(row("a", 1.0), disturbed="rounds usually take 2.0 times the fastest")
    assert row_line(disturbed, names, sides=2).endswith(
        "; rounds usually take 2.0 times the fastest"
    )
    assert "other work disturbed 1 of 1 kernels" in summary([disturbed], "mine", 1.0)
    failed = row_line(SuiteRow("a", failed="make", error="no file"), names, sides=2)
    assert failed == "a       failed (make): no file"
