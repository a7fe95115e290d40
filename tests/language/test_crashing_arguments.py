"""Arguments on which TVM 0.27 ends the process: they are refused before TVM sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Each use in a process of its own would take 2 s: they share one, which must live to its end.
PROGRAM = """
import schedlang as sl
from schedlang.language.schedule import Trace

def schedule():
    return sl.Schedule(sl.workloads.SFM(8, 16))

def merge_a_loop_with_itself(sch):
    loop = sch.get_loops("row_max")[0]
    sch.merge(loop, sch.get_loops("row_max")[0])

def partition_without_a_cut(sch):
    sch.loop_partition(sch.get_loops("row_max")[0], [None])

def partition_without_factors(sch):
    sch.loop_partition(sch.get_loops("row_max")[0], [])

def partition_around_two_blocks(sch):
    loop = sch.get_loops("exponent")[0]
    sch.compute_at("row_max", loop)
    sch.loop_partition(loop, [2])

def reorder_the_roots_variables(sch):
    sch.reorder_block_iter_var("root", [])

for use in (
    merge_a_loop_with_itself,
    partition_without_a_cut,
    partition_without_factors,
    partition_around_two_blocks,
    reorder_the_roots_variables,
):
    try:
        use(schedule())
    except sl.InstructionError as error:
        print(use.__name__, "|", error.reason)

sch = schedule()
loop = sch.get_loops("row_max")[0]
sch.loop_partition(loop, [2])
text = sch.trace.to_json().replace('"factors":[2]', '"factors":[null]')
text = text.replace('"out":["l3","l4"]', '"out":["l3"]')
try:
    Trace.from_json(text, sch.workload).replay()
except sl.InvalidTrace as error:
    print("replay |", error.site)
"""


def test_they_are_refused_and_the_process_lives() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "merge_a_loop_with_itself | loops[1] is the same loop as an earlier one",
        "partition_without_a_cut | factors must give at least the length of the first part",
        "partition_without_factors | factors must give at least the length of the first part",
        "partition_around_two_blocks | the loop surrounds several statements; "
        "it must surround a single block",
        "reorder_the_roots_variables | the block has no variables to reorder",
        "replay | loop_partition",
    ]
