"""One executor for all tests of this folder, with a cache of its own kept for the session."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_harness.tools.execute.cpu.executor import CpuExecutor


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of `cpu`, for tests that need another executor beside it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def cpu(builds: Path) -> Iterator[CpuExecutor]:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    executor = CpuExecutor(cache=builds)
    yield executor
    executor.close()
