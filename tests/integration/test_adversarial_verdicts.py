"""Wrong bundles are rejected for the right reason, look-alikes are accepted, on the CPU executor."""

from pathlib import Path

import pytest
from tests.adversarial.corpus import case, honest, name, wrong

from cuda_harness.state.results import Verdict
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.ladder import verify_bundle

pytestmark = pytest.mark.corpus
SEED = 40_507
ON_CPU = [f for f in wrong() if not case(f)["gpu_only"]]


def judged(folder: Path, executor: CpuExecutor, compiler: Compiler) -> Verdict:
    return verify_bundle(
        folder, executor=executor, compiler=compiler, target="sm_90a", seed=SEED, max_seconds=180
    )


@pytest.mark.parametrize("folder", ON_CPU, ids=name)
def test_wrong_bundle_is_rejected(folder: Path, executor: CpuExecutor, compiler: Compiler) -> None:
    expect = case(folder)["expect"]

    verdict = judged(folder, executor, compiler)

    assert verdict.outcome == "rejected", verdict.failure
    assert verdict.failure is not None
    assert verdict.failure.class_ in expect["class"], verdict.failure
    assert verdict.failure.stage in expect["stage"], verdict.failure
    assert verdict.failure.message


@pytest.mark.parametrize("folder", honest(), ids=name)
def test_look_alike_is_accepted(folder: Path, executor: CpuExecutor, compiler: Compiler) -> None:
    verdict = judged(folder, executor, compiler)

    assert verdict.accepted, verdict.failure
