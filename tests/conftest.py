"""Shared fixtures: no sockets in unit tests, a cache and a home of their own, GPU tests skipped with a reason."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pytest_socket import disable_socket, enable_socket

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and (why := gpu_missing()):
            item.add_marker(pytest.mark.skip(reason=why))


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
