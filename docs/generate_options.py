"""Write the tables of what ``tune`` and the like take into docs/, from their declaration.

A table stands between ``<!-- options: NAME -->`` and ``<!-- end of options -->``. A test fails when
one is not what this program writes: run it after changing schedlang/tuning/options/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from schedlang.cli.options import flag, form_of
from schedlang.tuning.options import REQUIRED, TUNE, TUNE_NETWORK, TUNE_SHAPES, Option

FOLDER = Path(__file__).parent


def generate() -> dict[Path, str]:
    """Return the pages with their tables as they should be."""
    tables = {
        "tuning.md": ("tune", _arguments(TUNE, "tuning.md")),
        "networks.md": ("tune_network", _arguments(TUNE_NETWORK, "networks.md")),
        "tutorials/shapes.md": ("tune_shapes", _arguments(TUNE_SHAPES, "tutorials/shapes.md")),
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
    """Yield a row for each option; those that are as of ``tune`` are named below the table."""
    yield from ("| argument | default | meaning | identifies a run |", "|---|---|---|---|")
    up = "../" * page.count("/")
    shared = [] if options is TUNE else [option for option in options if option in TUNE]
    for option in options:
        if option in shared:
            continue
        default = "" if option.default is REQUIRED else f"`{option.default!r}`"
        meaning = "; ".join(filter(None, [option.help, option.more])).replace(f"({page}#", "(#")
        meaning = re.sub(r"\]\((?=\w+\.md)", f"]({up}", meaning)
        counts = {None: "", "given": "where given"}.get(option.identity, "yes")
        yield f"| `{option.name}` | {default} | {meaning} | {counts} |"
    if shared:
        names = ", ".join(f"`{option.name}`" for option in shared)
        yield from ("", f"As of [`tune`]({up}tuning.md): {names}.")


def _commands() -> Iterator[str]:
    """Yield a row for each option with words of its own, then the others, by their commands."""
    yield from ("| option | words | of |", "|---|---|---|")
    commands: dict[tuple[str, str], list[str]] = {}
    of_commands = {"tune": TUNE, "tune-network": TUNE_NETWORK, "tune-shapes": TUNE_SHAPES}
    for command, options in of_commands.items():
        for option in options:
            if option.default is not REQUIRED:
                words = form_of(option).lstrip(" :,;")
                commands.setdefault((flag(option), words), []).append(command)
    plain: dict[str, list[str]] = {}
    for (name, words), of in commands.items():
        known = "all" if len(of) == len(of_commands) else ", ".join(of)
        if words:
            yield f"| `{name}` | {words} | {known} |"
        else:
            plain.setdefault(known, []).append(f"`{name}`")
    yield ""
    yield f"Besides, as Python takes them: of all, {', '.join(plain.pop('all'))};"
    others = [f"of `{of.replace(', ', '` and `')}`, {', '.join(n)}" for of, n in plain.items()]
    yield "; ".join(others) + "."


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")
