"""One executor for all tests of this folder: the session's own, behind the user's cache."""

from pathlib import Path

import pytest

from cuda_harness.tools.execute.cpu.cache import BuildCache
from cuda_harness.tools.execute.cpu.executor import CpuExecutor


@pytest.fixture(scope="session")
def builds() -> Path:
    """The cache of `cpu`, for tests that need another executor beside it."""
    return BuildCache().root.parent


@pytest.fixture(scope="session")
def cpu(executor: CpuExecutor) -> CpuExecutor:
    return executor


@pytest.fixture
def own_builds(builds: Path, cpu: CpuExecutor, tmp_path: Path) -> Path:
    """A cache in which nothing is under way; what `cpu` has built is linked into it."""
    assert cpu.name == "cpu"
    own = BuildCache(tmp_path).root
    for built in (builds / "cpu").iterdir():
        if not built.name.startswith("build-"):
            (own / built.name).symlink_to(built)
    return tmp_path
