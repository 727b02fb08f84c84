"""Strategies name skills, and their preconditions follow the evidence."""

import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.tools.evolve.strategies import BY_NAME, STRATEGIES
from cuda_harness.tools.evolve.traits import Evidence, evidence_of, ir_traits, source_traits


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
