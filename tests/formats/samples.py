"""A small file of each format that the library writes, for later versions to read.

``python -m tests.formats.samples`` writes ``assets``. Nothing is measured: a program's latency
follows from its text. ``schema_1.json``, a trace, and ``tests/database/assets`` are older.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import schedlang as sl
from schedlang.tvm.codegen.compiler import find_text
from tests.database.old_runs import RUNS, Hashed, played, target
from tests.lab.made_up_space import made_up
from tests.spaces.partial_spaces import SPACES, WORKLOAD

ASSETS = Path(__file__).parent / "assets"
OLD_RUNS = Path(__file__).parents[1] / "database" / "assets" / "runs"
SHAPES, SURVEY, FROZEN = "shapes.json", "survey.space", "frozen.db"
MANIFEST, DEFAULT = "manifest.json", "jit.default.json"


def dense(rows: int) -> sl.Workload:
    """``rows`` by 16 times 16 by 16."""
    return sl.workloads.matmul(rows, 16, 16)


def old_run(name: str, folder: Path) -> Path:
    """Unpack the database of a run that was interrupted; one of ``RUNS``."""
    assert name in RUNS
    path = folder / f"{name}.db"
    path.write_bytes(gzip.decompress((OLD_RUNS / f"{name}.db.gz").read_bytes()))
    return path


def _write(folder: Path, scratch: Path) -> None:
    shapes = [{"rows": (1, 9)}, {"rows": 32}]
    options = {"trials": 2, "exact": 1, "kernels": 1, "finals": 0, "progress": False}
    sl.tune_shapes(dense, shapes, target(), **options).save(folder / SHAPES)
    made_up(SPACES["two_tiles"], WORKLOAD, [sl.Status.CRASHED]).save(folder / SURVEY)
    (folder / FROZEN).unlink(missing_ok=True)
    sl.freeze(old_run("evolutionary_ended", scratch), folder / FROZEN, target())
    library = target().export_library(dense(8).mod, scratch / "dense.so")
    (folder / MANIFEST).write_text(f"{find_text(library)}\n")
    sl.jit(dense, target=target(), cache=scratch / "jit").kernel(rows=16)
    [kept] = (scratch / "jit").glob("*/*.default.json")
    # Another schedule than the default: whoever takes this one has read the file.
    schedule = sl.Schedule(dense(16))
    schedule.parallel(schedule.get_loops("C")[0])
    stored = json.loads(kept.read_text())
    stored |= {"program_key": schedule.program_key, "trace": schedule.trace.to_json()}
    (folder / DEFAULT).write_text(json.dumps(stored) + "\n")


def main(folder: Path = ASSETS) -> None:
    """Write all files."""
    measurer = Hashed()
    with tempfile.TemporaryDirectory() as scratch, played(lambda *_, **options: measurer):
        _write(folder, Path(scratch))


if __name__ == "__main__":
    main()
