"""Which hosts and compilers the CPU executor takes, and how its cache is used."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.execute.cpu.build import BuildCache, host_compiler


@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_another_processor_is_named_with_what_to_do(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))

    with pytest.raises(ExecutorUnavailable, match=machine) as caught:
        host_compiler.__wrapped__()
    assert "cuda" in caught.value.remedy
    assert caught.value.exit_code == 5


def test_a_missing_compiler_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with pytest.raises(ExecutorUnavailable, match=r"g\+\+") as caught:
        host_compiler.__wrapped__()
    assert "install" in caught.value.remedy


def test_a_half_written_file_is_never_used(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    built = tmp_path / "built"
    built.write_bytes(b"whole")
    path = cache.publish("key", "file", built)
    assert cache.lookup("key", "file") == path

    path.write_bytes(b"who")

    assert cache.lookup("key", "file") is None
    assert cache.lookup("other", "file") is None
