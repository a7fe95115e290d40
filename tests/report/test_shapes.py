"""The report of a set of shapes: complete, and honest about what is missing."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.plot.kernels import loss_text
from schedlang.report.page import VegaScript
from schedlang.shapes import ShapeSet
from tests.report.hostile import ATTACK, make_hostile_shapes
from tests.report.synthetic_shapes import ALONE, make_shapes

SET = make_shapes()


def page_of(found: ShapeSet, folder: Path) -> str:
    """The page without Vega's script, which is long."""
    text = sl.report.write_shapes(found, folder / "set.html").read_text(encoding="utf-8")
    return text.replace(VegaScript().text(), "")


def data_of(page: str) -> Any:
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)


def sections_of(page: str) -> dict[str, str]:
    found = re.findall(r'<section class="view" id="([\w-]+)"(.*?)</section>', page, re.S)
    return dict(found)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(SET, tmp_path_factory.mktemp("report"))


def test_every_part_is_there(page: str) -> None:
    sections = sections_of(page)
    assert list(sections) == ["kernels-0", "kernels-1", "choice", "points", "failed"]
    assert set(data_of(page)["charts"]) == {"kernels-0", "kernels-1"}
    assert all(f'href="#{key}"' in page for key in sections)
    assert "Nothing to show" not in page and "<h1>dense</h1>" in page


def test_the_numbers_at_the_top(page: str) -> None:
    top = page.partition('id="kernels-0"')[0]
    total = sum(one.range.size for one in SET.ranges) + len(SET.points)
    losses = np.concatenate([one.losses for one in SET.ranges])
    mean = float(np.exp(np.log(losses).mean()))
    for text in (f"{total:,}", "1,234", "1\xa0min 33\xa0s", loss_text(mean), "1 failed"):
        assert f">{text}<" in top or text in top, text
    assert "dense(rows, width)" in top and SET.target.key in top


@pytest.mark.parametrize("number", [0, 1])
def test_each_cell_has_its_loss_and_each_shape_its_kernel(page: str, number: int) -> None:
    found = SET.ranges[number]
    columns = data_of(page)["datasets"][f"kernels-{number}"]["columns"]

    def column(name: str) -> list[Any]:
        values = columns[name]
        return values if isinstance(values, list) else [values["of"][k] for k in values["at"]]

    order = sorted(range(len(found.samples)), key=lambda k: tuple(found.samples[k].values()))
    ratios = found.latencies[order] / found.best[order][:, None]
    losses = [one - 1 if math.isfinite(one) else None for one in ratios.ravel()]
    shown = [math.nan if one is None else one for one in column("loss")]
    wanted = [math.nan if one is None else one for one in losses]
    assert shown == pytest.approx(wanted, rel=1e-4, abs=1e-6, nan_ok=True)
    assert None in losses and column("text")[losses.index(None)] == "failed"
    taken = [k % len(ratios[0]) for k, one in enumerate(column("taken")) if one == "yes"]
    assert taken == [found.tree.find(found.samples[place]) for place in order]
    section = sections_of(page)[f"kernels-{number}"]
    assert f"{losses.count(None)} cells" in section
    assert (f"and {ALONE} kernels for one shape each" in section) == (number == 1)
    assert section.count("<tr><td>") == len(found.samples)


def test_the_choice_is_shown_as_regions_and_as_python(page: str) -> None:
    choice = sections_of(page)["choice"]
    assert "def dense_range_0(rows, width):" in choice and "if width &lt; 200:" in choice
    assert f"{ALONE} kernels for one shape each" in choice and "rows=1 alone" not in choice
    for one in SET.ranges:
        for bounds, kernel, loss in one.regions():
            if kernel.alone:
                continue
            assert kernel.origin in choice and loss_text(loss) in choice
            low, high = bounds["rows"]
            assert f"rows={low} to {high}" in choice


def test_single_shapes_and_failed_ones_are_listed(page: str) -> None:
    points = sections_of(page)["points"]
    assert "2 tuned, 2 carried over, 2 default schedule" in points
    first = SET.points[0]
    rate = sl.workloads.matmul(7, 768, 64).flops / first.latency / 1e9
    row = ("rows=7, width=768", "1", "4\xa0µs", f"{rate:.4g}", "tuned", "64")
    cells = re.findall(r"<tr>(.*?)</tr>", points, re.S)[1]
    assert re.findall(r"<td.*?>(.*?)</td>", cells) == list(row)
    assert "–" in points
    assert "it is too narrow" in sections_of(page)["failed"]


def test_parts_that_were_not_asked_for_are_left_out(tmp_path: Path) -> None:
    only_points = page_of(make_shapes(ranges=0, points=1), tmp_path)
    assert list(sections_of(only_points)) == ["points", "failed"]
    assert "there is no range" in only_points and data_of(only_points)["charts"] == {}
    only_ranges = page_of(make_shapes(ranges=1, points=0), tmp_path)
    assert list(sections_of(only_ranges)) == ["kernels-0", "choice"]
    loaded = dataclasses.replace(make_shapes(), measured=0, seconds=0.0)
    assert page_of(loaded, tmp_path).count("read from a file") == 2
    cut = dataclasses.replace(make_shapes(ranges=0), interrupted=True)
    assert "interrupted by Ctrl-C" in page_of(cut, tmp_path)


def test_a_tree_that_fails_without_a_shape_is_told(tmp_path: Path) -> None:
    one = SET.ranges[0]
    regret = one.regret.copy()
    regret[3] = math.inf
    failing = dataclasses.replace(one, regret=regret)
    page = page_of(dataclasses.replace(SET, ranges=(failing,)), tmp_path)
    assert "1 would take a kernel that fails" in sections_of(page)["kernels-0"]
    assert "at worst failed" in page


def test_losses_as_people_read_them() -> None:
    given = (1.0, 1.0004, 1.031, 1.0994, 1.35, 2.44, 31.0, math.inf, math.nan)
    said = ["0%", "0%", "3.1%", "9.9%", "35%", "2.4×", "31.0×", "failed", "–"]
    assert [loss_text(one) for one in given] == said


def test_names_and_messages_cannot_become_html(tmp_path: Path) -> None:
    page = page_of(make_hostile_shapes(), tmp_path)
    assert ATTACK not in page and "<img" not in page.lower()
    assert page.lower().count("</script>") == 3 and page.count("<script") == 3


def test_what_is_no_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="which tune_shapes returns, not int"):
        sl.report.write_shapes(7, tmp_path / "set.html")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        sl.report.write_shapes(SET, tmp_path / "no" / "set.html")


def test_the_chart_stands_alone() -> None:
    chart = sl.plot.kernels(SET, 1).to_dict(validate=True)
    [rows] = chart["datasets"].values()
    assert len(rows) == SET.ranges[1].latencies.size
    with pytest.raises(ValueError, match="place=2: the set has 2 ranges"):
        sl.plot.kernels(SET, 2)
