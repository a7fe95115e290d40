"""``auto_inline``: into consumers, into producers, and each condition."""

from __future__ import annotations

import functools

import pytest
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

import schedlang as sl
from schedlang.analysis import block_facts, require
from schedlang.errors import NotApplicable, SpaceError
from schedlang.language.schedule import Schedule
from schedlang.modules.inlining import auto_inline
from schedlang.spaces.module import Module
from schedlang.tvm.program import block_names, structurally_equal
from schedlang.tvm.schedule.intrinsics import register_all
from schedlang.workloads import CBR, SFM, TBG, from_script
from schedlang.workloads.workload import Workload
from tests.expressiveness.bindings import BINDINGS
from tests.language.primitives.programs import biased_matmul, chain, elementwise, matmul, siblings
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled
from tests.properties.programs import SMALL, assert_same_numbers, small

CPU = auto_inline(
    require_injective=True,
    require_ordered=True,
    expensive=["tirx.exp"],
    always_in_spatial_programs=True,
)
BRANCH = "T.if_then_else(vi < 8, A[vi, vj], T.float32(0))"
GPU = auto_inline(into_producer=True, inline_branches=True, inline_expensive=True)


@functools.cache
def stages(stage: str, signature: str = "A: T.Buffer((16, 16), 'float32')") -> Workload:
    """B = ``stage``, then C[i] = the sum of B[i, :]."""
    return from_script(
        f"""
@T.prim_func(s_tir=True)
def main({signature}, C: T.Buffer((16,), 'float32')):
    B = T.sblock_alloc_buffer((16, 16), 'float32')
    for i, j in T.grid(16, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {stage}
    for i, k in T.grid(16, 16):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vk]
""",
        "stages",
    )


def inlined(module: Module, workload: Workload, block: str = "B") -> bool:
    sch = sampled(workload, module)
    assert_same_numbers(sch.mod, workload, sch.trace)
    return any("inline" in i.kind.name for i in sch.trace.instructions)


def test_into_the_consumer(golden: Golden) -> None:
    assert_golden(golden, "auto_inline", sampled(chain(), auto_inline))


def test_into_the_producer(golden: Golden) -> None:
    """What copies a tile of a product out takes the epilogue in."""
    sch = Schedule(biased_matmul())
    sch.cache_write("C", 0, "local")
    auto_inline(sch, sch.get_block("D"), into_producer=True)
    assert_golden(golden, "auto_inline_into_producer", sch)
    assert_same_numbers(sch.mod, biased_matmul(), sch.trace)


@pytest.mark.parametrize("scope", ["local", "shared", "warp", "wmma.accumulator"])
def test_what_writes_a_cache_back_stays_with_the_threads_that_hold_it(scope: str) -> None:
    """The epilogue goes backward into it, as by TVM's rule; forward, D would read the cache."""
    workload = biased_matmul()

    @sl.module
    def cache_and_bind(sch: Schedule, block: sl.BlockRV) -> None:
        """for i, j: C  ->  for i, j on threads: C_cache; C"""
        require(block_facts(sch, block).has_init, "it does not reduce")
        copy = sch.cache_write(block, 0, scope)
        *threads, _ = sch.get_loops(block)
        sch.bind(threads[0], "blockIdx.x")
        sch.bind(threads[1], "threadIdx.x")
        sch.reverse_compute_at(copy, threads[1])

    sch = sl.Space([cache_and_bind, GPU]).sample(workload, seed=0)
    assert block_names(sch.mod) == ["C", f"C_{scope}", "root"]
    copy = sch.get(sch.get_block(f"C_{scope}"))
    assert [str(region.source.name) for region in copy.writes] == ["D"]
    assert len(sch.get_loops(f"C_{scope}")) == 2


def test_nothing_goes_into_a_reduction() -> None:
    module = auto_inline(into_producer=True)
    assert_not_applicable(module, biased_matmul(), "D", "should be a complete block")


@pytest.mark.parametrize(
    ("stage", "module", "applies"),
    [
        ("A[vi, vj] * T.float32(2)", auto_inline, True),
        ("T.exp(A[vi, vj])", auto_inline, False),
        ("T.exp(A[vi, vj])", auto_inline(inline_expensive=True), True),
        ("T.exp(A[vi, vj])", auto_inline(expensive=["tirx.tanh"]), True),
        ("T.tanh(A[vi, vj])", auto_inline, False),
        ("T.tanh(A[vi, vj])", CPU, True),
        (BRANCH, auto_inline, False),
        (BRANCH, auto_inline(inline_branches=True), True),
        ("A[vj, vi]", auto_inline, True),
        ("A[vj, vi]", auto_inline(require_ordered=True), False),
        ("A[vj, vi]", auto_inline(require_injective=True), True),
        ("A[vi, vi]", auto_inline(require_injective=True), False),
        ("A[vi, vi]", auto_inline(require_ordered=True), True),
        ("A[vi, vj // 2]", auto_inline, True),
        ("A[vi, vj // 2]", CPU, False),
        ("A[vi, 3]", CPU, True),
        ("A[vi, vj] * A[vi, vj] + T.float32(1)", auto_inline(max_operations=0), True),
        ("T.float32(7)", CPU, True),
        ("T.if_then_else(vi < vj, T.float32(1), T.float32(0))", CPU, True),
    ],
)  # fmt: skip
def test_conditions(stage: str, module: Module, applies: bool) -> None:
    assert inlined(module, stages(stage)) == applies


@pytest.mark.parametrize(("bound", "applies"), [(None, True), (2, True), (1, False), (0, False)])
def test_operations_count_where_consumers_repeat_them(bound: int | None, applies: bool) -> None:
    """Each element of B is read by 16 elements of C; it takes a product and a sum."""
    workload = from_script(
        """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 16), 'float32'), C: T.Buffer((16, 16), 'float32')):
    B = T.sblock_alloc_buffer((16, 16), 'float32')
    for i, j in T.grid(16, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * A[vi, vj] + T.float32(1)
    for i, j, k in T.grid(16, 16, 16):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vi, vk]
""",
        "repeated",
    )
    assert inlined(auto_inline(max_operations=bound), workload) == applies


def test_programs_without_reductions_may_waive_the_conditions() -> None:
    workload = from_script(
        """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16,), 'float32'), C: T.Buffer((16,), 'float32')):
    B = T.sblock_alloc_buffer((16,), 'float32')
    for i in range(16):
        with T.sblock("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = T.exp(A[vi])
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + T.float32(1)
""",
        "exponent",
    )
    assert not inlined(auto_inline, workload)
    assert inlined(CPU, workload)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_it_does_what_metaschedules_rule_does(name: str, device: str) -> None:
    register_all()  # the context imports them all, which takes 20 s without this
    cpu = device == "cpu"
    rule = ms.schedule_rule.AutoInline(
        into_producer=not cpu,
        into_consumer=True,
        inline_const_tensor=True,
        disallow_if_then_else=cpu,
        require_injective=cpu,
        require_ordered=cpu,
        disallow_op=["tirx.exp"] if cpu else [],
    )
    generator = ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={})
    context = ms.TuneContext(
        mod=small(name).mod,
        target=Target({"kind": "llvm", "num-cores": 2}),
        space_generator=generator,
    )
    (theirs,) = context.generate_design_space()
    mine = sampled(small(name), CPU if cpu else GPU)
    assert structurally_equal(mine.mod, theirs.mod), mine.trace
    assert_same_numbers(mine.mod, small(name), mine.trace)


@pytest.mark.parametrize(
    ("module", "workload", "block", "reason"),
    [
        (auto_inline, matmul, "C", "a reduction cannot be inlined"),
        (auto_inline, elementwise, "B", "it cannot be put into what reads it"),
        (auto_inline(into_producer=True), siblings, "B", "only allowed to read a single buffer"),
        (auto_inline(into_consumer=False), chain, "B", "it cannot be put"),
        (auto_inline, lambda: SFM(6, 32), "exponent", "it is expensive to repeat"),
        (auto_inline, lambda: CBR(6, 6, 2, 8, 3, 2, 1), "padded", "it branches"),
        (CPU, lambda: TBG(8, 3, 8), "query_transpose", "its reads are not in order"),
    ],
)
def test_where_it_does_not_apply(module: Module, workload, block: str, reason: str) -> None:
    assert_not_applicable(module, workload(), block, reason)


def test_an_annotation_turns_it_off() -> None:
    attribute = 'T.sblock_attr({"meta_schedule.inline_rule": "disable"})'
    block = 'with T.sblock("B"):'
    script = chain().script().replace(block, f"{block}\n                {attribute}")
    workload = from_script(script)
    assert_not_applicable(auto_inline, workload, "B", "it is annotated with")


def test_bad_options() -> None:
    with pytest.raises(SpaceError, match=r"expensive='tirx.exp'\): it takes a list of names"):
        sampled(chain(), auto_inline(expensive="tirx.exp"))
    with pytest.raises(
        SpaceError, match=r"max_operations=-1\): give 0 or more, or None for no bound"
    ):
        sampled(chain(), auto_inline(max_operations=-1))


@pytest.mark.parametrize("name", BINDINGS)
def test_what_the_variables_are_bound_to_does_not_matter(name: str) -> None:
    workload = BINDINGS[name]()
    assert inlined(CPU, workload)


def test_a_block_that_was_split_stays() -> None:
    sch = Schedule(chain())
    sch.split(sch.get_loops("B")[0], [None, 4])
    with pytest.raises(NotApplicable, match="its variables are not plain loops"):
        auto_inline(sch, sch.get_block("B"))
