"""Write a transformation module with three kinds of sampling and a choice, and tune with it."""

import schedlang as sl


@sl.module
def tile_matmul(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """for i, j, k: C  ->  parallel i0: for j0, k0, i1, k1: vectorized j1: C"""
    loops = sch.get_loops(block)
    if len(loops) != 3:
        raise sl.NotApplicable("not a matmul")
    i, j, k = loops
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, name="tile i"))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64, name="tile j"))
    k0, k1 = sch.split(k, [None, sch.sample_categorical([4, 8, 16], name="steps of k")])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    if sch.choose("copy B", (True, False)):
        copy = sch.cache_read(block, 1, "global")
        sch.compute_at(copy, sch.sample_compute_location(copy, name="where to copy B"))
    sch.parallel(i0)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k0)


def main() -> None:
    """Tune a matmul with it and print the best trace, for schedlang and for TVM only."""
    workload = sl.workloads.matmul(256, 256, 256)
    result = sl.tune(workload, space=sl.Space([tile_matmul]), trials=32, seed=0)
    print(result)
    print("\n# The best trace, as Python with schedlang\n")
    print(result.best.trace.as_python())
    print("# The same with only TVM\n")
    print(result.best.trace.as_tvm_python())


if __name__ == "__main__":
    main()
