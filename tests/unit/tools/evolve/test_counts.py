"""What can be said of a kernel without a clock: sizes, compiler facts, one counted run."""

from pathlib import Path

import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import KernelFacts
from cuda_harness.tools.evolve.contest import by_counts
from cuda_harness.tools.evolve.counts import (
    MOST_ELEMENTS,
    count_run,
    counting_sizes,
    counts_at_target,
    executed_counts,
    static_counts,
)
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite

LIBRARY = Path(__file__).resolve().parents[4] / "examples" / "kernels"


def load(bundle: str) -> tuple[Kernel, KernelIR]:
    folder = LIBRARY / bundle
    plan = LaunchPlan.read(folder / "plan.json")
    return Kernel(source=(folder / "kernel.cu").read_text(), plan=plan), KernelIR.read(folder / "ir.json")


def test_the_sizes_are_admitted_small_and_those_of_the_ir_alone() -> None:
    for bundle in ("matmul_tiled", "softmax_online", "fft_rows", "conv2d_direct"):
        _, ir = load(bundle)
        sizes = counting_sizes(ir)
        assert ir.admits(sizes)
        assert sum(len(t.shape) for t in ir.tensors)
        assert all(sizes[d.name] <= d.value for d in ir.dims)
    _, ir = load("copy")
    assert 2 * next(iter(counting_sizes(ir).values())) <= MOST_ELEMENTS


def test_a_fact_that_one_entry_lacks_is_left_out() -> None:
    known = KernelFacts(name="a", registers=30, shared_bytes=8, spill_store_bytes=4, spill_load_bytes=4)
    assert static_counts((known, known)) == {"registers": 30.0, "shared_bytes": 8.0, "spill_bytes": 16.0}
    assert static_counts((known, KernelFacts(name="b", registers=40))) == {"registers": 40.0}
    assert static_counts(()) == {}


def test_a_count_needs_all_its_parts() -> None:
    assert executed_counts({"global_load_bytes": 8.0}) == {}
    assert executed_counts({"barriers": 6.0, "blocks": 3.0}) == {"barriers_per_block": 2.0}


def test_launches_are_those_made_at_the_target() -> None:
    kernel, ir = load("total_sum_two_stage")
    found = counts_at_target(kernel, ir, CpuExecutor(), arch="sm_90a")
    assert found["launches"] == 2.0
    assert found["threads"] >= 256


@pytest.mark.slow
def test_a_tiled_product_reads_less_than_a_naive_one() -> None:
    executor, runner = CpuExecutor(), ReferenceRunner()
    counts = {}
    for bundle in ("matmul_naive", "matmul_tiled"):
        kernel, ir = load(bundle)
        reference = (LIBRARY / bundle / "reference.py").read_text()
        suite = Suite(ir, reference, runner=runner, seed=3)
        counts[bundle] = executed_counts(count_run(kernel, ir, suite, executor, arch="sm_90a", seed=3))
    runner.close()
    contest = by_counts(1, 2, counts["matmul_naive"], counts["matmul_tiled"])
    assert contest.better, contest.reason
    assert "bytes asked of global memory" in contest.reason
