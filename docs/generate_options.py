"""Write the tables of what ``tune`` and ``tune_network`` take into docs/, from their declaration.

A table stands between ``<!-- options: NAME -->`` and ``<!-- end of options -->``. A test fails when
one is not what this program writes: run it after changing schedlang/tuning/options.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from schedlang.cli.declared import flag, form_of
from schedlang.tuning.options import REQUIRED, TUNE, TUNE_NETWORK, Option

FOLDER = Path(__file__).parent


def generate() -> dict[Path, str]:
    """Return the pages with their tables as they should be."""
    tables = {
        "tuning.md": ("tune", _arguments(TUNE, "tuning.md")),
        "networks.md": ("tune_network", _arguments(TUNE_NETWORK, "networks.md")),
        "cli.md": ("commands", _commands()),
    }
    return {FOLDER / page: _with_table(FOLDER / page, *table) for page, table in tables.items()}


def _with_table(page: Path, name: str, rows: Iterator[str]) -> str:
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- options: {name} -->\n", "<!-- end of options -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{page}: {begin.strip()} and {end} are missing")
    return "\n".join([f"{before}{begin}", *rows, "", f"{end}{after}"])


def _arguments(options: tuple[Option, ...], page: str) -> Iterator[str]:
    yield from ("| argument | default | meaning | identifies a run |", "|---|---|---|---|")
    for option in options:
        default = "" if option.default is REQUIRED else f"`{option.default!r}`"
        meaning = "; ".join(filter(None, [option.help, option.more])).replace(f"({page}#", "(#")
        counts = {None: "", "given": "where given"}.get(option.identity, "yes")
        yield f"| `{option.name}` | {default} | {meaning} | {counts} |"


def _commands() -> Iterator[str]:
    """Yield a row for each option of both commands; those of one of them say which."""
    yield from ("| option | words | argument | of |", "|---|---|---|---|")
    own = {option.name: option for option in TUNE}
    networks = {option.name: option for option in TUNE_NETWORK}
    for name, option in {**own, **networks}.items():
        if option.default is not REQUIRED:
            of = "`tune-network`" if name not in own else "`tune`" if name not in networks else ""
            words = form_of(option).lstrip(" :,;")
            yield f"| `{flag(option)}` | {words} | `{name}=` | {of} |"


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")
