"""Shared fixtures: no sockets in unit tests, a cache and a home of their own, GPU tests skipped with a reason."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from pytest_socket import disable_socket, enable_socket

if TYPE_CHECKING:
    from cuda_harness.tools.execute.cpu.executor import CpuExecutor
    from cuda_harness.tools.toolchain.nvrtc import Compiler

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parents[1]


@cache
def gpu_missing() -> str | None:
    """Why there is no GPU to test on, `None` when there is one; asked once, in a child process."""
    import subprocess
    import sys

    probe = "from cuda.core import Device; print(Device(0).name)"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode == 0:
        return None
    return "no usable CUDA device: " + (done.stderr.strip().splitlines() or ["unknown"])[-1][:120]


EVERY = 12
"""A plain run takes every twelfth item of a test marked `corpus`, or every `n`th of one marked `corpus(n)`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--corpus", action="store_true", help="the long way: whole corpora, and what is marked `long`"
    )
    parser.addoption("--corpus-from", type=int, default=0, help="the first item of each sample")


@pytest.fixture
def whole_corpus(request: pytest.FixtureRequest) -> bool:
    """Whether this run was asked for the long way."""
    return bool(request.config.getoption("--corpus"))


def sample_corpora(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what a plain run leaves out, and count it as deselected."""
    seen: dict[str, int] = {}
    left_out = []
    first = int(config.getoption("--corpus-from"))
    for item in items:
        if item.get_closest_marker("long"):
            left_out.append(item)
        elif marked := item.get_closest_marker("corpus"):
            every = marked.args[0] if marked.args else EVERY
            name = item.nodeid.split("[")[0]
            seen[name] = seen.get(name, -1) + 1
            if (seen[name] - first) % every:
                left_out.append(item)
    if left_out:
        dropped = set(map(id, left_out))
        config.hook.pytest_deselected(items=left_out)
        items[:] = [i for i in items if id(i) not in dropped]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--corpus"):
        sample_corpora(config, items)
    for item in items:
        if item.get_closest_marker("gpu") and (why := gpu_missing()):
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def compiler() -> "Iterator[Compiler]":
    """NVRTC behind the user's cache, its workers shared by the session."""
    from cuda_harness.tools.toolchain.nvrtc import Compiler

    made = Compiler()
    yield made
    made.close()


@pytest.fixture(scope="session")
def executor() -> "Iterator[CpuExecutor]":
    """The CPU executor; skipped with a reason where this machine has no g++."""
    from cuda_harness.state.errors import ExecutorUnavailable
    from cuda_harness.tools.execute.cpu.executor import CpuExecutor

    try:
        made = CpuExecutor()
    except ExecutorUnavailable as exc:
        pytest.skip(f"needs g++: {exc}")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Unit tests open no sockets; those marked `network` stay on loopback by their own code."""
    unit = "unit" in Path(str(request.node.path)).relative_to(ROOT / "tests").parts[:1]
    if unit and not request.node.get_closest_marker("network"):
        disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, endpoint or setting of the person who runs the tests reaches them."""
    import os

    for name in list(os.environ):
        if name.startswith(("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "CUDA_HARNESS_")):
            monkeypatch.delenv(name)
