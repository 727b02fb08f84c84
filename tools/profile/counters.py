"""Hardware counters: which are asked for, and how Nsight Compute counts them, its table is read, what it refuses."""

import csv
import io
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from cuda_harness.state.results import CompileOk, CompileResult
from cuda_harness.tools.execute.protocol import Job, launched
from cuda_harness.tools.process import ProgramMissing, run

PROGRAM = "ncu"
_LOG_BYTES = 4 << 20
MOST_LAUNCHES = 6
"""Launches of one plan that are profiled; each is replayed about a dozen times."""
_THREAD_OPS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

METRICS: dict[str, str] = {
    # CUDABench's Performance-Score
    "ffma_peak": "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
    "sm_hz": "sm__cycles_elapsed.avg.per_second",
    "dram_peak": "dram__bytes.sum.peak_sustained",
    "dram_hz": "dram__cycles_elapsed.avg.per_second",
    "ffma": _THREAD_OPS.format("ffma"),
    "fmul": _THREAD_OPS.format("fmul"),
    "fadd": _THREAD_OPS.format("fadd"),
    "smsp_hz": "smsp__cycles_elapsed.avg.per_second",
    "dram_rate": "dram__bytes.sum.per_second",
    # what bounds it
    "time_ns": "gpu__time_duration.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "dram_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_pct": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "warps_active_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue_active_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "tensor_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "waves": "launch__waves_per_multiprocessor",
    "limit_registers": "launch__occupancy_limit_registers",
    "limit_shared": "launch__occupancy_limit_shared_mem",
    "instructions": "smsp__inst_executed.sum",
    "sectors_per_load": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "stall_long": _STALL.format("long_scoreboard"),
    "stall_short": _STALL.format("short_scoreboard"),
    "stall_barrier": _STALL.format("barrier"),
    "stall_math": _STALL.format("math_pipe_throttle"),
    "stall_wait": _STALL.format("wait"),
    "stall_lg": _STALL.format("lg_throttle"),
}
"""Our short name -> ncu's metric (CUPTI's too, but for those of the launch), in base units (bytes, nanoseconds, hertz, percent). After CudaForge's list."""
NAMES = {metric: short for short, metric in METRICS.items()}
"""ncu's metric -> our short name."""
_PERMISSION = ("ERR_NVGPUCTRPERM", "permission to access NVIDIA GPU Performance Counters")
FORBIDDEN = "counters are forbidden to this user; the administrator allows them (NVreg_RestrictProfilingToAdminUsers=0)"
_REMEDIES = (
    (_PERMISSION, FORBIDDEN),
    (("driver resource was unavailable", "Failed to prepare kernel"), "another profiler or monitor holds the counters"),
    (("LibraryNotLoaded", "not supported"), "the profiler does not work on this machine"),
)  # fmt: skip


@runtime_checkable
class RunsFiles(Protocol):
    """An executor whose jobs can be put behind another program."""

    def write_job(self, job: Job, path: Path) -> CompileResult:
        """Write a job to a file."""
        ...

    def once_command(self, path: Path, answer: Path | None = None) -> list[str]:
        """Return the program that runs the file."""
        ...

    def once_environment(self) -> dict[str, str]:
        """Return its environment."""
        ...


@dataclass(frozen=True)
class Counters:
    """What was counted, launch by launch in plan order, under our short names."""

    launches: tuple[tuple[str, dict[str, float]], ...]
    seconds: float = 0.0
    missing: tuple[str, ...] = ()
    """Metrics this device or version does not know."""
    rung: Literal["ncu", "cupti"] = "ncu"
    """What counted them."""

    @property
    def longest(self) -> tuple[str, dict[str, float]]:
        """Kernel and counters of the launch that took longest."""
        return max(self.launches, key=lambda x: x[1].get("time_ns", 0.0))

    def by_kernel(self) -> dict[str, list[dict[str, float]]]:
        """Return the launches of each kernel."""
        found: dict[str, list[dict[str, float]]] = {}
        for name, values in self.launches:
            found.setdefault(name, []).append(values)
        return found


@dataclass(frozen=True)
class NoCounters:
    """Why there are none."""

    reason: str
    detail: str = field(default="")

    is_final: bool = False
    """Whether no other program could count here either."""


NO_LAUNCH = NoCounters("the plan launches no kernel at these sizes", is_final=True)
NO_CUBIN = NoCounters("the kernel does not compile at these sizes", is_final=True)


def find_ncu(executor: object) -> str | NoCounters:
    """Return the path of ncu for an executor's children, or why it is of no use here."""
    if not isinstance(executor, RunsFiles):
        return NoCounters("this executor does not run jobs behind a profiler")
    found = shutil.which(PROGRAM, path=executor.once_environment().get("PATH"))
    return found or NoCounters("ncu (Nsight Compute) is not installed")


def count(
    executor: object, job: Job, *, limit_s: float = 60.0, program: str | None = None
) -> Counters | NoCounters:
    """Return the counters of one run of a job's plan, each launch profiled once.

    Args:
        executor: One that writes jobs to files (`RunsFiles`).
        job: The plan with the contents of one call.
        limit_s: Wall seconds for ncu and its child; then both are ended.
        program: Path of ncu; `None`: looked up.
    """
    found = program or find_ncu(executor)
    if isinstance(found, NoCounters):
        return found
    assert isinstance(executor, RunsFiles)  # noqa: S101 - it was found
    kernels = [op.kernel for op in launched(job.program.ops)]
    if not kernels:
        return NO_LAUNCH
    began = time.monotonic()
    metrics = dict(METRICS)
    with tempfile.TemporaryDirectory(prefix="cuda-harness-ncu-") as folder:
        path = Path(folder) / "job"
        compiled = executor.write_job(job, path)
        if not isinstance(compiled, CompileOk):
            return NO_CUBIN
        for _ in range(3):
            left = limit_s - (time.monotonic() - began)
            if left < 2:
                return NoCounters(f"ncu did not end within {limit_s:.0f} s")
            text, ended = _run(found, executor, path, kernels, metrics.values(), left)
            unknown = unknown_metrics(text, metrics.values())
            if not unknown or not set(unknown) < set(metrics.values()):
                break
            metrics = {n: m for n, m in metrics.items() if m not in unknown}
    launches = parse_table(text)
    if launches:
        missing = tuple(m for m in METRICS.values() if m not in metrics.values())
        return Counters(tuple(launches), time.monotonic() - began, missing)
    reason = why_none(text) or ended
    return NoCounters(reason, text[-600:], is_final=reason == FORBIDDEN)


def _run(
    program: str, executor: RunsFiles, path: Path, kernels: Sequence[str], metrics: Iterable[str], seconds: float
) -> tuple[str, str]:  # fmt: skip
    """Return ncu's log, and how it ended in words."""
    log = path.with_suffix(".log")
    names = "|".join(sorted(set(kernels)))
    argv = [
        program, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--target-processes", "all",
        "--kernel-name-base", "function", "--kernel-name", f"regex:^({names})$", "--launch-count", str(min(len(kernels), MOST_LAUNCHES)),
        "--metrics", ",".join(metrics), "--log-file", str(log), *executor.once_command(path, path.with_suffix(".answer")),
    ]  # fmt: skip
    try:
        ended = run(
            argv, timeout_s=seconds, env=executor.once_environment(), max_output=1 << 16, cwd=path.parent
        )
    except ProgramMissing as exc:
        return "", f"ncu does not start: {exc}"
    try:
        text = log.read_bytes()[:_LOG_BYTES].decode("utf-8", "replace")
    except OSError:
        text = ""
    words = (
        f"ncu ended with {ended.returncode}"
        if ended.status == "exited"
        else f"ncu did not end within {seconds:.0f} s"
    )
    said = "\n".join(part.decode("utf-8", "replace") for part in (ended.stdout, ended.stderr))
    return f"{text}\n{said}", words


def parse_table(text: str) -> list[tuple[str, dict[str, float]]]:
    """Return kernel and counters of each launch from ncu's CSV, whichever of its two layouts.

    The `raw` page has a row for each launch, a column for each metric and a row of units below the head; the default
    page has a row for each metric. Lines of ncu's own (`==PROF==`) stand anywhere. Values are numbers of base units,
    with or without thousands separators; `n/a` is left out.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    body = [line for line in lines[start:] if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(body))))
    if rows and "Metric Name" in rows[0]:
        return _long(rows)
    return [(_function(r), _values(r)) for r in rows if (r.get("ID") or "").strip().isdigit()]


def _values(row: Mapping[str, str | None]) -> dict[str, float]:
    found = {}
    for metric, value in row.items():
        number = _number(value)
        if metric in NAMES and number is not None:
            found[NAMES[metric]] = number
    return found


def _long(rows: Sequence[Mapping[str, str | None]]) -> list[tuple[str, dict[str, float]]]:
    found: dict[str, tuple[str, dict[str, float]]] = {}
    for row in rows:
        key = (row.get("ID") or "").strip()
        if not key.isdigit():
            continue
        launch = found.setdefault(key, (_function(row), {}))
        launch[1].update(_values({str(row.get("Metric Name")): row.get("Metric Value")}))
    return list(found.values())


def _function(row: Mapping[str, str | None]) -> str:
    """Return the kernel's bare name; ncu may print its parameters as well."""
    return re.split(r"[(<]", (row.get("Kernel Name") or "").strip(), maxsplit=1)[0].strip()


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def unknown_metrics(text: str, asked: Iterable[str]) -> list[str]:
    """Return which of the metrics asked for ncu says it does not know."""
    told = " ".join(line for line in text.splitlines() if "metric" in line.lower() and "==" in line)
    if not re.search(r"[Ff]ailed to find|[Uu]nknown|[Ii]nvalid|not (?:exist|available|found)", told):
        return []
    return [m for m in asked if re.search(rf"(?<![\w.]){re.escape(m)}(?![\w.])", told) or _base(m, told)]


def _base(metric: str, told: str) -> bool:
    return bool(re.search(rf"(?<![\w.]){re.escape(metric.split('.', maxsplit=1)[0])}(?![\w.])", told))


def why_none(text: str) -> str:
    """Return why ncu counted nothing, from its own words; empty when they say nothing known."""
    for marks, told in _REMEDIES:
        if any(m in text for m in marks):
            return told
    errors = [line.strip() for line in text.splitlines() if "==ERROR==" in line or "==WARNING==" in line]
    return errors[0][:300] if errors else ""


def performance_score(launches: Sequence[Mapping[str, float]]) -> float | None:
    """Return CUDABench's Performance-Score of one kernel from all its launches, `None` when a counter is missing.

    As its code computes it: counters averaged over the launches; the larger of compute and bandwidth utilisation,
    written as achieved over attainable rate, and bandwidth utilisation alone when no float32 operation ran. Base
    units throughout, which its own reading of the table does not ensure.
    """
    needed = ("ffma_peak", "sm_hz", "dram_peak", "dram_hz", "ffma", "fmul", "fadd", "smsp_hz", "dram_rate")
    if not launches or any(n not in one for one in launches for n in needed):
        return None
    mean = {n: sum(one[n] for one in launches) / len(launches) for n in needed}
    peak_work = 2 * mean["ffma_peak"] * mean["sm_hz"]
    peak_traffic = mean["dram_peak"] * mean["dram_hz"]
    flops = (2 * mean["ffma"] + mean["fmul"] + mean["fadd"]) * mean["smsp_hz"]
    if peak_traffic <= 0 or peak_work <= 0:
        return None
    if flops < 1e-9:
        return mean["dram_rate"] / peak_traffic
    if mean["dram_rate"] <= 0:
        return flops / peak_work
    intensity = flops / mean["dram_rate"]
    return flops / min(peak_work, intensity * peak_traffic)
