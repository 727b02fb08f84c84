"""Every kernel of the library is accepted by the whole ladder on the CPU executor, whatever its folder is called."""

import shutil
from pathlib import Path

import pytest
from tests.adversarial.corpus import LIBRARY, library, name

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.ladder import verify_bundle

pytestmark = pytest.mark.corpus(16)
SEED = 20_251


@pytest.mark.parametrize("folder", library(), ids=name)
def test_library_kernel_is_accepted(folder: Path, executor: CpuExecutor, compiler: Compiler) -> None:
    verdict = verify_bundle(
        folder, executor=executor, compiler=compiler, target="sm_90a", seed=SEED, max_seconds=180
    )

    assert verdict.accepted, verdict.failure
    tiny = verdict.stage("tiny")
    assert tiny is not None
    assert tiny.status == "passed", tiny.detail


@pytest.mark.parametrize("bundle", ["row_sum", "radix_sort"])
def test_verdict_does_not_depend_on_name_or_place(
    bundle: str, tmp_path: Path, executor: CpuExecutor, compiler: Compiler
) -> None:
    moved = tmp_path / "race wrong mismatch"
    shutil.copytree(LIBRARY / bundle, moved)

    verdicts = [
        verify_bundle(f, executor=executor, compiler=compiler, target="sm_90a", seed=SEED, max_seconds=180)
        for f in (LIBRARY / bundle, moved)
    ]

    assert [v.outcome for v in verdicts] == ["accepted", "accepted"]
    assert verdicts[0].sha256 == verdicts[1].sha256
