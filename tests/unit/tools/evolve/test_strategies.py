"""Strategies name skills, and their preconditions follow the evidence."""

import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import Profile
from cuda_harness.tools.evolve.strategies import BY_NAME, STRATEGIES
from cuda_harness.tools.evolve.traits import Evidence, SourceTrait, evidence_of, ir_traits, source_traits


def ir(
    op: str, shapes: tuple[list[str], list[str]] = (["m", "n"], ["m", "n"]), dtype: str = "float32"
) -> KernelIR:
    return KernelIR.model_validate(
        {
            "name": "f",
            "dims": [{"name": "m", "value": 4096}, {"name": "n", "value": 1024}],
            "tensors": [
                {"name": "x", "role": "in", "dtype": dtype, "shape": shapes[0]},
                {"name": "y", "role": "out", "dtype": dtype, "shape": shapes[1]},
            ],
            "steps": [{"id": "s", "op": op, "reads": ["x"], "writes": ["y"]}],
        }
    )


def fitting(evidence: Evidence) -> set[str]:
    return {s.name for s in STRATEGIES if s.fits(evidence)}


def test_names_are_unique_and_safe_for_files() -> None:
    assert len(BY_NAME) == len(STRATEGIES) == 18
    assert all(name.isidentifier() and s.gain > 1 for name, s in BY_NAME.items())
    assert all(r in BY_NAME for s in STRATEGIES for r in s.related)


@pytest.mark.parametrize(
    ("op", "shapes", "trait"),
    [
        ("relu", (["m", "n"], ["m", "n"]), "elementwise"),
        ("reduce_sum", (["m", "n"], ["m"]), "row_reduction"),
        ("reduce_sum", (["m", "n"], []), "full_reduction"),
        ("matmul", (["m", "n"], ["m", "m"]), "contraction"),
        ("prefix_sum", (["n"], ["n"]), "scan"),
        ("transpose", (["m", "n"], ["n", "m"]), "transpose"),
        ("histogram", (["n"], ["256"]), "scatter"),
    ],
)
def test_a_problem_is_known_by_its_operations_and_shapes(
    op: str, shapes: tuple[list[str], list[str]], trait: str
) -> None:
    assert trait in ir_traits(ir(op, shapes))


def test_a_technique_in_a_comment_is_not_used() -> None:
    assert source_traits("// __shared__ float4 atomicAdd\nint x;") == frozenset()
    assert {"shared", "padded"} <= source_traits("__shared__ float tile[32][32 + 1];")


def test_each_family_has_ideas_of_its_own_and_none_of_anothers() -> None:
    elementwise = Evidence(ir("relu"), ir_traits(ir("relu")))
    assert "vector_loads" in fitting(elementwise)
    assert not fitting(elementwise) & {"shared_tiling", "split_k", "lookback_scan", "tensor_cores"}
    product = ir("matmul", dtype="float16")
    assert {"shared_tiling", "tensor_cores"} <= fitting(Evidence(product, ir_traits(product)))
    assert "tensor_cores" not in fitting(Evidence(ir("matmul"), ir_traits(ir("matmul"))))


def test_an_idea_that_is_used_already_is_not_proposed() -> None:
    relu = ir("relu")
    used = Evidence(relu, ir_traits(relu), source_traits=frozenset({"vector", "persistent", "unrolled"}))
    assert not fitting(used)


def steps_of(*steps: tuple[str, str, list[str], list[str]]) -> KernelIR:
    return KernelIR.model_validate({
        "name": "f", "dims": [{"name": "m", "value": 4096}, {"name": "n", "value": 1024}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["m", "n"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["m", "n"]}],
        "intermediates": [{"name": "a", "dtype": "float32", "shape": ["m"]}, {"name": "b", "dtype": "float32", "shape": ["m"]}],
        "steps": [{"id": f"s{k}", "op": op, "formula": formula, "reads": reads, "writes": writes}
                  for k, (op, formula, reads, writes) in enumerate(steps)],
    })  # fmt: skip


def test_one_pass_is_an_idea_where_data_are_reduced_again_with_a_first_result() -> None:
    twice = steps_of(
        ("reduce", "a[i] = max_j x[i,j]", ["x"], ["a"]),
        ("reduce", "b[i] = sum_j exp(x[i,j] - a[i])", ["x", "a"], ["b"]),
        ("scale", "y[i,j] = exp(x[i,j] - a[i]) / b[i]", ["x", "a", "b"], ["y"]),
    )
    apart = steps_of(
        ("reduce", "a[i] = sum_j x[i,j]", ["x"], ["a"]),
        ("reduce", "b[i] = sum_j x[i,j]**2", ["x"], ["b"]),
        ("scale", "y[i,j] = x[i,j] * a[i] / b[i]", ["x", "a", "b"], ["y"]),
    )
    loops: frozenset[SourceTrait] = frozenset({"row_loops"})
    assert "online_one_pass" in fitting(Evidence(twice, ir_traits(twice), source_traits=loops))
    assert "online_one_pass" not in fitting(Evidence(apart, ir_traits(apart), source_traits=loops))
    row_min = ir("reduce_min", (["m", "n"], ["m"]))
    assert "online_one_pass" not in fitting(Evidence(row_min, ir_traits(row_min), source_traits=loops))


def test_windows_that_share_nothing_are_not_staged() -> None:
    pool, stencil = ir("max_pool2d"), ir("stencil")
    assert "shared_tiling" not in fitting(Evidence(pool, ir_traits(pool)))
    assert "shared_tiling" in fitting(Evidence(stencil, ir_traits(stencil)))


def test_a_grid_of_the_devices_size_and_a_last_block_are_known() -> None:
    dot = ir("reduce_sum", (["m", "n"], []))
    step = {"launch": "k", "grid": ["num_sms * 2"], "block": [256], "args": []}
    plan = LaunchPlan.model_validate({"steps": [step]})
    last_block = 'extern "C" __global__ void k() { __threadfence(); }'
    found = fitting(evidence_of(dot, Kernel(source=last_block, plan=plan), None))
    assert not found & {"persistent_grid", "two_stage_reduction"}
    plain = LaunchPlan.model_validate({"steps": [{**step, "grid": ["cdiv(m * n, 256)"]}]})
    found = fitting(evidence_of(dot, Kernel(source="", plan=plain), None))
    assert {"persistent_grid", "two_stage_reduction"} <= found


@pytest.mark.parametrize(
    "fence", ["cuda::atomic_thread_fence(cuda::memory_order_release)", "__threadfence_system()", 'asm("atom.acq_rel.gpu")']
)  # fmt: skip
def test_a_last_block_is_known_by_any_fence(fence: str) -> None:
    assert "ticket" in source_traits(f"void k() {{ {fence}; }}")


def test_a_name_with_std_in_it_is_no_deviation() -> None:
    assert "two_reductions" not in ir_traits(ir("std_numeric_limits"))
    assert "two_reductions" in ir_traits(ir("row_std"))


def test_blocks_that_fit_at_once_have_nothing_to_stride_over() -> None:
    relu = ir("relu")
    assert BY_NAME["persistent_grid"].fits(Evidence(relu, ir_traits(relu), metrics={"threads": 4e6}))
    assert not BY_NAME["persistent_grid"].fits(Evidence(relu, ir_traits(relu), metrics={"threads": 65_536.0}))


def test_a_measured_bound_rules_out_what_would_not_move_it() -> None:
    relu = ir("relu")
    assert "vector_loads" not in fitting(Evidence(relu, ir_traits(relu), bound="compute"))


def test_spills_and_conflicts_are_answered() -> None:
    relu = ir("relu")
    seen = Evidence(
        relu,
        ir_traits(relu),
        metrics={"k.spill_store_bytes": 8.0, "shared_bank_conflicts": 12.0, "k.registers": 40.0},
    )
    assert {"launch_bounds", "bank_conflict_padding"} <= fitting(seen)
    assert "12 bank conflicts" in BY_NAME["bank_conflict_padding"].fits(seen)


def test_launches_that_the_target_never_makes_are_nothing_to_fuse() -> None:
    plan = LaunchPlan.model_validate({
        "steps": [{"launch": "k", "grid": [1], "block": [1], "when": "n > 4"},
                  {"launch": "j", "grid": [1], "block": [1], "when": "n <= 4"}],
    })  # fmt: skip
    kernel = Kernel(source="", plan=plan)
    relu = ir("relu")
    assert BY_NAME["kernel_fusion"].fits(evidence_of(relu, kernel, None))
    assert not BY_NAME["kernel_fusion"].fits(evidence_of(relu, kernel, None, {"launches": 1.0}))


@pytest.mark.parametrize(
    ("formula", "shapes", "trait", "never"),
    [
        ("c[i,j] = sum_k a[i,k]*b[k,j]", (["m", "n"], ["m", "n"]), "contraction", "elementwise"),
        ("y[i] = sum_j x[i,j]*w[j]", (["m", "n"], ["m"]), "contraction", "reduction"),
        ("y[i] = sum_j x[i,j]*z[i,j]", (["m", "n"], ["m"]), "row_reduction", "contraction"),
        ("y[i] = max_j x[i,j]", (["m", "n"], ["m"]), "row_reduction", "elementwise"),
        ("y[i] = sum_{k<=i} x[k]", (["n"], ["n"]), "scan", "contraction"),
        ("y[i] = sum_{k=0}^{i} x[k]", (["n"], ["n"]), "scan", "reduction"),
        ("y[i] = max_{k=0..i} x[k], for 0 <= i < n", (["n"], ["n"]), "scan", "reduction"),
        ("for 0 <= i < n: y[i] = sum_{k<=i} x[k]", (["n"], ["n"]), "scan", "reduction"),
        ("y[i] = max_{k=0}^{n-1} x[i,k], for 0 <= i <= m-1", (["n", "n"], ["n"]), "reduction", "scan"),
        ("y[i,c] = sum_{j<=i} x[i,j] * x[j,c]", (["n", "n"], ["n", "n"]), "contraction", "scan"),
        ("y[i,j] = exp(x[i,j])", (["m", "n"], ["m", "n"]), "elementwise", "reduction"),
    ],
)
def test_a_formula_tells_the_kind_of_a_problem_with_an_opaque_name(
    formula: str, shapes: tuple[list[str], list[str]], trait: str, never: str
) -> None:
    plain = ir("compute", shapes)
    step = plain.steps[0].model_copy(update={"formula": formula})
    found = ir_traits(plain.model_copy(update={"steps": (step,)}))
    assert trait in found
    assert never not in found


@pytest.mark.parametrize(
    ("formula", "reduces"),
    [
        ("y[b,c] = (x[b,c] - mean[c])/sqrt(var[c] + 1e-5)", False),
        ("y[b,c] = x[b,c] - mean over c of x[b,:]", True),
        ("y[b] = mean_{c} x[b,c]", True),
        ("normalise every row", True),
    ],
)
def test_a_norm_of_given_statistics_is_no_reduction(formula: str, reduces: bool) -> None:
    plain = ir("batch_norm", (["m", "n"], ["m", "n"]))
    step = plain.steps[0].model_copy(update={"formula": formula})
    found = ir_traits(plain.model_copy(update={"steps": (step,)}))
    assert ("reduction" in found) == reduces
    assert ("elementwise" in found) == (not reduces)


@pytest.mark.parametrize(
    ("facts", "fits"),
    [
        ({"shared_bank_conflicts": 8670.0, "shared_load_bytes": 16.3e6, "shared_store_bytes": 3.5e6}, False),
        ({"shared_bank_conflicts": 40_000.0, "shared_load_bytes": 4e6, "shared_store_bytes": 0.0}, True),
        ({"shared_bank_conflicts": 12.0}, True),
        ({"shared_bank_conflicts": 0.0, "shared_load_bytes": 4e6}, False),
        ({}, False),
    ],
)
def test_a_few_bank_conflicts_are_no_reason(facts: dict[str, float], fits: bool) -> None:
    assert (
        bool(BY_NAME["bank_conflict_padding"].fits(evidence_of(ir("transpose"), None, None, facts))) == fits
    )


@pytest.mark.parametrize(
    ("operation", "never"),
    [
        ("conv_transpose3d", "transposing_through_shared"),
        ("max_pool3d", "warp_shuffle_reduction"),
        ("max_pool3d", "two_stage_reduction"),
    ],
)
def test_a_name_with_two_readings_is_taken_for_one(operation: str, never: str) -> None:
    assert not BY_NAME[never].fits(evidence_of(ir(operation), None, None))


@pytest.mark.parametrize(("blocks", "fits"), [(16.0, True), (128.0, False)])
def test_a_product_is_split_where_its_blocks_are_few(blocks: float, fits: bool) -> None:
    at_target = Profile(
        rung="static", bound="unknown", sentence="", metrics={"blocks": blocks, "threads_per_block": 256.0}
    )
    counted = {"blocks": 4.0, "threads": 1024.0}
    assert bool(BY_NAME["split_k"].fits(evidence_of(ir("matmul"), None, at_target, counted))) == fits


@pytest.mark.parametrize(("barriers", "fits"), [(112.0, False), (56.0 * 16, True)])
def test_a_tile_that_is_loaded_once_is_not_buffered_twice(barriers: float, fits: bool) -> None:
    plan = {"steps": [{"launch": "k", "grid": ["1"], "block": [64], "args": []}]}
    kernel = Kernel(source="__shared__ float tile[64];", plan=LaunchPlan.model_validate(plan))
    known = evidence_of(ir("matmul"), kernel, None, {"barriers": barriers, "blocks": 56.0})
    assert bool(BY_NAME["double_buffering"].fits(known)) == fits
