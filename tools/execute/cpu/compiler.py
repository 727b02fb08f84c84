"""The g++ of this machine, and the flags of kernels in each mode."""

import contextlib
import functools
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.process import ProgramMissing, run

Mode = Literal["plain", "check"]
_REMEDY = "install it, for example: apt-get install g++ (or use --executor cuda on a GPU machine)"


@dataclass(frozen=True)
class HostCompiler:
    """A g++ that was tried."""

    path: str
    version: str
    flags: tuple[str, ...]
    """CPU features: fused multiply-add and half conversions where the host has them, as nvcc contracts by default."""

    @property
    def speaks_json(self) -> bool:
        """Whether diagnostics come as JSON; versions from 16 on have another form, and none of our edits by them then."""
        major = re.search(r"(\d+)\.\d+", self.version.rsplit(")", 1)[-1])
        return major is not None and int(major.group(1)) < 16


@functools.cache
def host_compiler() -> HostCompiler:
    """Return the g++ of this machine.

    Raises:
        ExecutorUnavailable: If there is none, or this host is not x86-64.
    """
    if os.uname().machine != "x86_64":
        raise ExecutorUnavailable(
            "cpu",
            f"it runs on x86-64 hosts, this one is {os.uname().machine}",
            remedy="use a GPU machine (--executor cuda)",
        )
    path = shutil.which("g++")
    if path is None:
        raise ExecutorUnavailable("cpu", "g++ is not installed", remedy=_REMEDY)
    try:
        said = run([path, "--version"], timeout_s=20)
    except ProgramMissing as exc:
        raise ExecutorUnavailable("cpu", str(exc), remedy=_REMEDY) from exc
    if not said.ok:
        raise ExecutorUnavailable("cpu", f"g++ --version failed: {said.text()[:200]}", remedy=_REMEDY)
    features = _cpu_features()
    flags = [
        f"-m{name}"
        for name in ("fma", "f16c", "avx2", "bmi", "bmi2", "popcnt", "lzcnt")
        if _feature(name) in features
    ]
    return HostCompiler(path, said.stdout.decode("utf-8", "replace").splitlines()[0], tuple(flags))


def _feature(flag: str) -> str:
    return {"bmi": "bmi1", "lzcnt": "abm"}.get(flag, flag)


def _cpu_features() -> frozenset[str]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def flags_of(mode: Mode, *, fast_math: bool = False) -> list[str]:
    """Return the compile flags of kernels in a mode; the precompiled header is built with exactly these."""
    common = [
        "-std=c++17", "-w", "-Wno-narrowing", "-fPIC", "-fno-exceptions", "-fno-rtti", "-ffp-contract=fast", "-ftls-model=initial-exec",
        "-fno-strict-aliasing", "-fwrapv", "-fno-stack-protector", "-fvisibility=hidden", "-fno-math-errno",
        "-U_FORTIFY_SOURCE", "-fno-semantic-interposition", "-fno-plt", "-ffunction-sections", *host_compiler().flags,
    ]  # fmt: skip
    common += ["-fsanitize=float-cast-overflow"]
    if fast_math:
        common += ["-ffinite-math-only", "-fno-signed-zeros", "-freciprocal-math"]
    if mode == "plain":
        return ["-O2", *common]
    return [
        "-O1", "-fno-tree-sink", "-g1", "-DSIM_CHECK", *common, "-fsanitize=thread,bounds-strict,alignment", "--param=tsan-distinguish-volatile=1",
        "--param=tsan-instrument-func-entry-exit=0", "-fsanitize-coverage=trace-pc",
    ]  # fmt: skip
