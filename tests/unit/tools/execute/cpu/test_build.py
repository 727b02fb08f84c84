"""Which hosts and compilers the CPU executor takes, and how its cache is used."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.execute.cpu import build
from cuda_harness.tools.execute.cpu import cache as cached
from cuda_harness.tools.execute.cpu.cache import BuildCache
from cuda_harness.tools.execute.cpu.compiler import HostCompiler, host_compiler
from cuda_harness.tools.execute.cpu.executor import CpuExecutor


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


@pytest.mark.parametrize(
    ("version", "speaks"),
    [
        ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", True),
        ("g++-14 (Debian 14.2.0-19) 14.2.0", True),
        ("g++ (GCC) 16.1.0", False),
        ("g++", False),
    ],
)
def test_diagnostics_are_asked_for_in_a_form_that_the_compiler_has(version: str, speaks: bool) -> None:
    assert HostCompiler("/usr/bin/g++", version, ()).speaks_json == speaks


def test_a_half_written_file_is_never_used(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    built = tmp_path / "built"
    built.write_bytes(b"whole")
    path = cache.publish("key", "file", built)
    assert cache.lookup("key", "file") == path

    path.write_bytes(b"who")

    assert cache.lookup("key", "file") is None
    assert cache.lookup("other", "file") is None


def test_what_a_killed_builder_left_is_removed_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    mine = BuildCache(tmp_path).scratch()
    (left := mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{int(ended.stdout)}-"))).mkdir()
    (elsewhere := mine.with_name(f"build-00000000-{int(ended.stdout)}-x")).mkdir()
    (left / "kernel.so").write_bytes(b"half")

    BuildCache(tmp_path)

    assert mine.is_dir()
    assert not left.exists()
    assert elsewhere.is_dir()


def test_a_full_cache_drops_its_oldest_entries_and_no_build_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "_KEEP_BYTES", 2_500)
    monkeypatch.setattr(cached, "_TRIM_EVERY", 1)
    cache = BuildCache(tmp_path)
    under_way = cache.scratch()
    for number in range(4):
        (tmp_path / "built").write_bytes(b"x" * 1_000)
        cache.publish(f"key{number}", "file", tmp_path / "built")
        os.utime(cache.root / f"key{number}", (1_000 + number, 1_000 + number))
    cache.trim()

    assert sorted(p.name for p in cache.root.glob("key*")) == ["key2", "key3"]
    assert under_way.is_dir()


def test_two_builders_of_one_kernel_at_once_both_get_it(executor: CpuExecutor) -> None:
    source = 'extern "C" __global__ void k(float* y) { y[0] = 41.5f; }\n'
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: executor.build(source, {}, "plain", fast_math=False), range(4)))

    assert len(set(built)) == 1
    (path,) = set(built)
    assert isinstance(path, Path)
    assert path.read_bytes()[:4] == b"\x7fELF"
    assert not list(path.parent.glob(".*"))


def test_a_part_of_the_runner_that_does_not_compile_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = tmp_path / "native"
    shutil.copytree(cached.NATIVE, native)
    (native / "runner.cpp").write_text("int main() { return missing_name; }\n")
    monkeypatch.setattr(build, "NATIVE", native)
    monkeypatch.setattr(build, "key_of", lambda *parts: "-".join(parts))
    cache = BuildCache(tmp_path / "cache")

    with pytest.raises(ExecutorUnavailable, match="missing_name") as caught:
        build.runner(cache, "plain")

    assert "plain runner" in str(caught.value)
    assert not list(cache.root.glob("build-*"))
