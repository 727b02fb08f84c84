"""Ceilings from times, and how long they are kept."""

import json
from pathlib import Path

import pytest

from cuda_harness.tools.profile.ceilings import SOURCE, Ceilings, from_times, programs, read_kept
from cuda_harness.tools.profile.session import Session, Timed
from cuda_harness.tools.profile.stats import Interval
from cuda_harness.tools.toolchain.nvrtc import Compiler

FACTS = {"name": "d", "uuid": "GPU-1", "l2_bytes": 50 << 20}
LIMITS = Ceilings(bandwidth_bytes_per_s=4e12, launch_us=2.0, uuid="GPU-1")


def timed(name: str, us: float) -> Timed:
    return Timed(name, (us, us * 1.01, us * 0.99), Interval(us, us, us), ())


def session(*found: Timed) -> Session:
    return Session(found, ({"sm_mhz": 1980, "memory_mhz": 3201, "reasons": 0},), 1.0)


def test_bandwidth_counts_bytes_read_and_written() -> None:
    found = {
        n: timed(n, us) for n, us in {"copy": 500.0, "read": 230.0, "write": 300.0, "launch": 2.0}.items()
    }
    made = from_times(
        found, session(*found.values()), size=1 << 30, sms=132, facts=FACTS, today=lambda: "2026-01-01"
    )
    assert made.bandwidth_bytes_per_s == pytest.approx(2 * (1 << 30) / 500e-6)
    assert made.most_bytes_per_s == pytest.approx((1 << 30) / 230e-6), (
        "reading alone is the best direction here"
    )
    assert (made.flops_per_s, made.tensor_flops_per_s) == (None, None), "what was not measured is not known"
    assert (made.sm_mhz, made.memory_mhz, made.date) == (1980, 3201, "2026-01-01")


def test_a_kept_result_ages_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"time": 1000.0, "ceilings": LIMITS.model_dump()}))
    assert read_kept(path, now=2000.0) == LIMITS
    assert read_kept(path, now=1000.0 + 31 * 86_400) is None
    assert read_kept(path, now=500.0) is None, "a clock that was set back"
    path.write_text(json.dumps({"time": 1000.0, "ceilings": {**LIMITS.model_dump(), "version": 0}}))
    assert read_kept(path, now=2000.0) is None
    for text in ("", "[]", '{"time": "x"}', '{"time": 1, "ceilings": {"launch_us": -1}}'):
        path.write_text(text)
        assert read_kept(path, now=2000.0) is None
    assert read_kept(tmp_path / "none.json") is None


def test_every_plan_names_a_kernel_of_the_source_and_the_source_compiles(compiler: Compiler) -> None:
    done = compiler.compile(SOURCE, arch="sm_90a")
    assert done.status == "ok", done
    known = {k.name for k in done.kernels}
    for program in programs(1 << 20, 132).values():
        names = {b.name for b in program.buffers}
        for op in program.ops:
            assert op.kernel in known  # type: ignore[union-attr]
            assert {a.buffer for a in op.args if hasattr(a, "buffer")} <= names  # type: ignore[union-attr]
