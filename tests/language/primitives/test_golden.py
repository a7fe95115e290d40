"""One golden text for each case: the program before, the instructions, the program after.

``pytest tests/primitives --update-golden`` rewrites them; read the difference before committing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.language.primitives.case import Case, scheduled
from tests.language.primitives.groups import CASES, each_case

FOLDER = Path(__file__).parent / "golden"


def shown(case: Case) -> str:
    """The golden text of a case."""
    sch = scheduled(case)
    parts = (script(sch.workload.mod), str(sch.trace), script(sch.mod))
    return "\n".join(
        f"# {title}\n{part}\n"
        for title, part in zip(("before", "instructions", "after"), parts, strict=True)
    )


def script(mod: object) -> str:
    """The program's text without the imports above it."""
    text = mod["main"].script()  # type: ignore[index]
    return text[text.index("@T.prim_func") :].rstrip()


@each_case
def test_the_program_before_and_after(case: Case, golden: Callable[[Path, str], None]) -> None:
    golden(FOLDER / f"{case.name}.txt", shown(case))


def test_every_golden_text_has_its_case() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(names)
