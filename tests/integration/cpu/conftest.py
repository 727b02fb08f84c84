"""One executor for all tests of this folder, with a cache of its own kept for the session."""

import shutil
from collections.abc import Iterator

import pytest

from cuda_harness.tools.execute.cpu.executor import CpuExecutor


@pytest.fixture(scope="session")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CpuExecutor]:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    executor = CpuExecutor(cache=tmp_path_factory.mktemp("cache"))
    yield executor
    executor.close()
