"""Reports in a real browser: every view draws, nothing fails, nothing leaves the file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlang as sl
from tests import chromium
from tests.report.hostile import make_hostile, make_hostile_shapes
from tests.report.synthetic import make_history
from tests.report.synthetic_shapes import make_shapes

pytestmark = pytest.mark.skipif(chromium.find() is None, reason=chromium.WHY_NONE)

CHARTS = {
    *("convergence-trials", "time", "importance", "decisions", "rejections", "finals"),
}
DRAWN = """
Object.fromEntries([...document.querySelectorAll('.chart')].filter((one) => one.clientWidth > 0)
  .map((one) => [one.dataset.chart, Boolean(one.querySelector('svg.marks, canvas.marks'))]))
"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports by name: of a run, of a hostile one, a comparison, and sets of shapes."""
    folder = tmp_path_factory.mktemp("reports")
    one, hostile = make_history(120), make_hostile()
    return {
        "plain": sl.report.write(one, folder / "plain.html"),
        "hostile": sl.report.write(hostile, folder / "hostile.html"),
        "comparison": sl.report.write_comparison([one, hostile], folder / "two.html"),
        "shapes": sl.report.write_shapes(make_shapes(), folder / "shapes.html"),
        "hostile-shapes": sl.report.write_shapes(make_hostile_shapes(), folder / "bad.html"),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Chromium]:
    with chromium.Chromium() as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_failed(browser: chromium.Chromium, files: dict[str, Path]) -> Iterator[None]:
    """No error in the console, and no request but for the files themselves."""
    browser.errors.clear()
    browser.requests.clear()
    yield
    assert browser.errors == []
    known = tuple(path.as_uri() for path in files.values())
    assert [one for one in browser.requests if not one.startswith((*known, "data:", "blob:"))] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_each_view_draws(browser: chromium.Chromium, files: dict[str, Path], dark: bool) -> None:
    browser.open(files["plain"], dark=dark)
    assert browser.evaluate(DRAWN) == dict.fromkeys(CHARTS, True)
    light = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(15, 19, 24)") == dark
    ink = browser.evaluate("document.querySelector('.chart svg text').getAttribute('fill')")
    assert ink.lower() == ("#aeb9c7" if dark else "#4d5868")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_cells_of_kernels_can_be_read(
    browser: chromium.Chromium, files: dict[str, Path], dark: bool
) -> None:
    """Titles of columns stand above the cells, and each taken cell is framed."""
    browser.open(files["shapes"], dark=dark)
    assert browser.evaluate(DRAWN) == {"kernels-0": True, "kernels-1": True}
    chart = "document.querySelector('[data-chart=kernels-0] svg')"
    place = "getBoundingClientRect()"
    lines = f"{chart}.querySelectorAll('.role-axis-label text')"
    titles = f"[...{lines}].filter((one) => one.textContent.startsWith('kernel'))"
    lowest = browser.evaluate(f"Math.max(...{titles}.map((one) => one.{place}.bottom))")
    frames = f"[...{chart}.querySelectorAll('.mark-rect path[stroke=white]')]"
    assert browser.evaluate(f"{frames}.length") == len(make_shapes().ranges[0].samples)
    assert lowest <= browser.evaluate(f"Math.min(...{frames}.map((one) => one.{place}.top))")


@pytest.mark.parametrize("name", ["plain", "hostile", "comparison", "shapes", "hostile-shapes"])
def test_it_fits_a_phone(browser: chromium.Chromium, files: dict[str, Path], name: str) -> None:
    browser.open(files[name], width=400, height=800)
    assert browser.evaluate(OVERFLOW) == 0
    assert set(browser.evaluate(DRAWN).values()) == {True}


def test_attacks_stay_text(browser: chromium.Chromium, files: dict[str, Path]) -> None:
    browser.open(files["hostile"])
    browser.evaluate("document.querySelector('[data-place]').click()")
    assert browser.evaluate(DRAWN) == dict.fromkeys(CHARTS, True)
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.evaluate("window.attacked ?? null") is None
    assert "onerror" in browser.evaluate("document.querySelector('h1').textContent")
    browser.open(files["hostile-shapes"])
    assert set(browser.evaluate(DRAWN).values()) == {True}
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.evaluate("window.attacked ?? null") is None


def test_the_table_sorts_by_keyboard_and_filters(
    browser: chromium.Chromium, files: dict[str, Path]
) -> None:
    browser.open(files["plain"])
    browser.evaluate("document.querySelectorAll('table.trials thead button')[1].focus()")
    browser.press_enter()
    column = (
        "[...document.querySelectorAll('table.trials tbody tr')].map((r) => r.cells[1].textContent)"
    )
    shown = [float(text) for text in browser.evaluate(column)]  # failed ones are last
    assert shown == sorted(shown) and len(shown) == 25
    browser.press_enter()
    down = [float(text.replace(",", "")) for text in browser.evaluate(column)]
    assert down == sorted(down, reverse=True) and down[0] > shown[-1]
    sorted_by = "document.querySelectorAll('table.trials th')[1].getAttribute('aria-sort')"
    assert browser.evaluate(sorted_by) == "descending"
    browser.evaluate(
        "(() => { const box = document.getElementById('trial-filter'); box.value = 'unroll=512';"
        " box.dispatchEvent(new Event('input')); })()"
    )
    count = browser.evaluate("document.getElementById('trial-count').textContent")
    assert 0 < int(count.split(" of ")[1]) < 120
    browser.evaluate("document.querySelector('[data-place]').click()")
    assert "512" in browser.evaluate("document.querySelector('tr.detail').textContent")


def test_the_table_and_an_open_trial_fit_a_laptop(
    browser: chromium.Chromium, files: dict[str, Path]
) -> None:
    browser.open(files["plain"], width=1200)
    browser.evaluate("document.querySelector('[data-place]').click()")
    holder = "document.getElementById('trial-table')"
    assert browser.evaluate(f"{holder}.scrollWidth - {holder}.clientWidth") == 0
    # On a phone the table scrolls; the decisions of a trial stay as wide as the screen.
    browser.resize(400, 800)
    details = "document.querySelector('tr.detail dl').getBoundingClientRect().width"
    assert browser.evaluate(f"{details} <= {holder}.clientWidth")


@pytest.mark.parametrize(("site", "turned"), [("unroll", False), ("finish", True)])
def test_labels_of_a_heat_map_are_level_where_they_fit(
    browser: chromium.Chromium, files: dict[str, Path], site: str, turned: bool
) -> None:
    browser.open(files["plain"])
    browser.evaluate(
        f"(() => {{ const box = document.getElementById('axis-x'); box.value = '{site}';"
        " box.dispatchEvent(new Event('change')); })()"
    )
    chart = "document.querySelector('[data-chart=decisions]')"
    titles = f"[...{chart}.querySelectorAll('text')].map((one) => one.textContent)"
    is_turned = f"{chart}.innerHTML.includes('rotate(315)')"
    shown = f"{titles}.includes('{site}') && {is_turned} === {str(turned).lower()}"
    browser.wait_for(shown)  # until it is drawn
    assert browser.evaluate("document.getElementById('axis-x').value") == site


def test_two_other_decisions_can_be_chosen(
    browser: chromium.Chromium, files: dict[str, Path]
) -> None:
    browser.open(files["plain"])
    before = browser.evaluate("document.querySelector('[data-chart=decisions] svg').outerHTML")
    browser.evaluate(
        "(() => { const box = document.getElementById('axis-x'); box.value = 'unroll';"
        " box.dispatchEvent(new Event('change')); })()"
    )
    browser.wait_for(
        "document.querySelector('[data-chart=decisions]').textContent.includes('unroll')"
    )
    after = browser.evaluate("document.querySelector('[data-chart=decisions] svg').outerHTML")
    assert after != before
    label = browser.evaluate("document.getElementById('figure-decisions').ariaLabel")
    assert label.startswith("Heat map of unroll")


def test_a_choice_shows_the_other_chart_and_the_theme_can_be_chosen(
    browser: chromium.Chromium, files: dict[str, Path]
) -> None:
    browser.open(files["plain"])
    browser.evaluate("document.querySelectorAll('[data-choices] button')[1].click()")
    browser.wait_for("document.querySelector('[data-chart=convergence-seconds] svg.marks')")
    assert browser.evaluate("document.getElementById('figure-convergence-trials').hidden")
    browser.evaluate("document.querySelector('[data-set-theme=dark]').click()")
    browser.wait_for(
        "document.querySelector('[data-chart=finals] svg text').getAttribute('fill') === '#aeb9c7'"
    )
    browser.evaluate("localStorage.clear()")


def test_it_prints(browser: chromium.Chromium, files: dict[str, Path]) -> None:
    browser.open(files["plain"])
    began = time.monotonic()
    assert browser.pdf().startswith(b"%PDF") and time.monotonic() - began < 60
    # What is folded on the screen was unfolded for paper, and is folded again.
    assert not browser.evaluate("document.querySelector('details.on-paper').open")
