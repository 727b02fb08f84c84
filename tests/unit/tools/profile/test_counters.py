"""Reading ncu's tables, and what it refuses."""

import math

import pytest

from cuda_harness.tools.execute.protocol import LaunchOp, Program, WhileOp, launched
from cuda_harness.tools.profile.counters import (
    METRICS,
    Counters,
    parse_table,
    performance_score,
    unknown_metrics,
    why_none,
)

FIXED = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'
RAW = f"""==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "axpy": 0%....50%....100% - 12 passes
==PROF== Disconnected from process 4711
{FIXED},"dram__bytes.sum.per_second","gpu__time_duration.sum","lts__t_sector_hit_rate.pct"
"","","","","","","","","","","","byte/second","ns","%"
"0","4711","python3.12","127.0.0.1","axpy(float *, const float *, int)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","3,399,121,408,000.50","231,616","33.4"
"1","4711","python3.12","127.0.0.1","fold","1","7","(256, 1, 1)","(1, 1, 1)","0","9.0","912","n/a","0"
"""
LONG = f"""{FIXED},"Section Name","Metric Name","Metric Unit","Metric Value"
"0","4711","python3.12","127.0.0.1","axpy","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes.sum.per_second","byte/second","3399121408000.5"
"0","4711","python3.12","127.0.0.1","axpy","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","231616"
"""


def test_the_raw_page_gives_each_launch_its_counters() -> None:
    found = parse_table(RAW)
    assert [name for name, _ in found] == ["axpy", "fold"]
    assert found[0][1] == {"dram_rate": 3399121408000.5, "time_ns": 231616.0, "l2_hit_pct": 33.4}
    assert found[1][1] == {"dram_rate": 912.0, "l2_hit_pct": 0.0}, "n/a is no number"


def test_the_long_page_says_the_same() -> None:
    assert parse_table(LONG) == [("axpy", {"dram_rate": 3399121408000.5, "time_ns": 231616.0})]


@pytest.mark.parametrize("text", ["", "==ERROR== nothing here\n", FIXED])
def test_no_table_is_no_launch(text: str) -> None:
    assert parse_table(text) == []


def test_the_longest_launch_is_the_one_that_counts() -> None:
    counters = Counters((("a", {"time_ns": 3.0}), ("b", {"time_ns": 9.0}), ("a", {"time_ns": 4.0})))
    assert counters.longest[0] == "b"
    assert [len(v) for v in counters.by_kernel().values()] == [2, 1]


def test_metrics_a_device_does_not_know_are_named() -> None:
    text = f"==ERROR== Failed to find metric {METRICS['tensor_pct']}\n"
    assert unknown_metrics(text, METRICS.values()) == [METRICS["tensor_pct"]]
    assert unknown_metrics("==PROF== metrics collected", METRICS.values()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "counters are forbidden"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "does not work on this machine"),
        ("==ERROR== Something new", "==ERROR== Something new"),
        ("all is well", ""),
    ],
)
def test_the_reason_for_no_counters_is_told(text: str, told: str) -> None:
    assert told in why_none(text)


def test_score_is_the_larger_of_compute_and_bandwidth_use() -> None:
    # 1000 FMA lanes at 1 GHz: 2e12 FLOP/s; 3000 bytes a cycle at 1 GHz: 3e12 B/s.
    base = {
        "ffma_peak": 1000.0, "sm_hz": 1e9, "dram_peak": 3000.0, "dram_hz": 1e9, "ffma": 0.0, "fmul": 0.0, "fadd": 0.0,
        "smsp_hz": 1e9, "dram_rate": 1.5e12,
    }  # fmt: skip
    assert performance_score([base]) == pytest.approx(0.5), "no operation: bandwidth alone"
    assert performance_score([{**base, "ffma": 100.0}]) == pytest.approx(0.5), "10 % compute, 50 % bandwidth"
    assert performance_score([{**base, "ffma": 800.0, "fadd": 100.0}]) == pytest.approx(0.85)
    fast, slow = {**base, "dram_rate": 3e12}, {**base, "dram_rate": 1e12}
    assert performance_score([fast, slow]) == pytest.approx(2 / 3), "counters are averaged over launches"


def test_score_needs_every_counter() -> None:
    assert performance_score([]) is None
    assert performance_score([{"ffma": 1.0}]) is None


def test_launches_of_a_loop_count_once() -> None:
    launch = LaunchOp("step", (1, 1, 1), (32, 1, 1), 0, ())
    program = Program(
        (), (launch, WhileOp("flag", 10, (launch, LaunchOp("test", (1, 1, 1), (1, 1, 1), 0, ()))))
    )
    assert [op.kernel for op in launched(program.ops)] == ["step", "step", "test"]


def test_every_metric_has_one_name() -> None:
    assert len(set(METRICS.values())) == len(METRICS)
    assert all(
        (math.isfinite(len(m)) and m.count(".") >= 1) or m.startswith("launch__") for m in METRICS.values()
    )
