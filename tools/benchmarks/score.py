"""Performance-Score of CUDABench from ncu's counters, exactly; and times of programs, all their kernels counted.

Source of the formula: the benchmark's evaluator (CUDABench, arXiv 2603.02236). It sums each metric over the launches
of one kernel name and divides by their number, scores the kernel with the most FLOP/s when a program has several, and
is the larger of compute efficiency and bandwidth utilisation. Here ncu is asked for base units: without
that, rows come in units of their own and are read as if they had the same.
"""

import csv
import io
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from cuda_harness.tools.benchmarks.gpu import Gpu
from cuda_harness.tools.benchmarks.scripts import Data
from cuda_harness.tools.execute.cuda.lock import LockTimeout
from cuda_harness.tools.process import ProgramMissing, allowed_environment, run

PEAK_FFMA = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"
SM_RATE = "sm__cycles_elapsed.avg.per_second"
PEAK_BYTES = "dram__bytes.sum.peak_sustained"
DRAM_RATE = "dram__cycles_elapsed.avg.per_second"
TRAFFIC = "dram__bytes.sum.per_second"
FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed"
FMUL = "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"
SMSP_RATE = "smsp__cycles_elapsed.avg.per_second"
DURATION = "gpu__time_duration.sum"
METRICS = (PEAK_FFMA, SM_RATE, PEAK_BYTES, DRAM_RATE, TRAFFIC, FADD, FMUL, FFMA, SMSP_RATE)
_TINY = 1e-9
NCU_SECONDS = 300.0


@dataclass(frozen=True)
class Score:
    """Figures of one program under ncu; times in microseconds over all launches of all kernels."""

    score: float
    bandwidth_utilization: float
    compute_efficiency: float
    kernel: str
    """The kernel that the benchmark's rule scores."""
    time_us: float | None


@dataclass(frozen=True)
class NotScored:
    """No figures, and why."""

    reason: str


def read_ncu(text: str) -> tuple[dict[str, dict[str, float]], float | None] | str:
    """Return each kernel's metrics (mean over its launches) and the whole time in us, or why they cannot be read."""
    start = next((i for i, line in enumerate(text.splitlines()) if "Kernel Name" in line), None)
    if start is None:
        return "ncu reported no kernel"
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    launches: dict[str, set[str]] = defaultdict(set)
    time_ns, timed = 0.0, False
    for row in csv.DictReader(io.StringIO("\n".join(text.splitlines()[start:]))):
        name, metric = row.get("Kernel Name"), row.get("Metric Name")
        if not name or not metric:
            continue
        try:
            value = float((row.get("Metric Value") or "").replace(",", ""))
        except ValueError:
            continue
        launches[name].add(row.get("ID") or "")
        if metric == DURATION:
            time_ns, timed = time_ns + value, True
        else:
            sums[name][metric] += value
    if not launches:
        return "ncu reported no kernel"
    means = {n: {m: v / len(launches[n]) for m, v in metrics.items()} for n, metrics in sums.items()}
    return means, time_ns / 1000 if timed else None


def performance_score(kernels: Mapping[str, Mapping[str, float]]) -> Score | NotScored:
    """Return the benchmark's score over a program's kernels."""
    lacking = sorted({m for k in kernels.values() for m in METRICS if m not in k})
    if lacking or not kernels:
        return NotScored(f"ncu gave no {', '.join(lacking) or 'kernel'}")
    rates = {n: _flops(m) for n, m in kernels.items()}
    chosen = max(rates, key=lambda n: rates[n] if any(r > 0 for r in rates.values()) else kernels[n][TRAFFIC])
    m, flops = kernels[chosen], rates[chosen]
    peak_work = 2 * m[PEAK_FFMA] * m[SM_RATE]
    peak_traffic = m[PEAK_BYTES] * m[DRAM_RATE]
    if peak_traffic <= 0 or peak_work <= 0:
        return NotScored("ncu gave a peak of zero")
    bandwidth = m[TRAFFIC] / peak_traffic
    if abs(flops) < _TINY:
        return Score(bandwidth, bandwidth, 0.0, chosen, None)
    intensity = flops / m[TRAFFIC] if m[TRAFFIC] > 0 else float("inf")
    limit = min(peak_work, intensity * peak_traffic)
    return Score(flops / limit, bandwidth, flops / peak_work, chosen, None)


def _flops(metrics: Mapping[str, float]) -> float:
    return (2 * metrics[FFMA] + metrics[FMUL] + metrics[FADD]) * metrics[SMSP_RATE]


def measure(binary: Path, folder: Path, *, on: Gpu | None = None) -> Score | NotScored:
    """Return score and time of a program run under ncu in `folder`, which holds its inputs."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return NotScored("ncu is not installed")
    argv = [ncu, "--csv", "--print-units", "base", "--metrics", ",".join((*METRICS, DURATION)), str(binary)]
    environment = allowed_environment(on.environment if on is not None else None)
    try:
        with on.lock(alone=True) if on is not None else nullcontext():
            done = run(argv, timeout_s=NCU_SECONDS, cwd=folder, env=environment, max_output=64 << 20)
    except (ProgramMissing, LockTimeout) as exc:
        return NotScored(str(exc))
    text = done.stdout.decode("utf-8", "replace")
    if not done.ok:
        why = (
            "no permission for the counters"
            if "ERR_NVGPUCTRPERM" in text
            else (done.text().strip() or "no message")
        )
        return NotScored(f"ncu failed: {why[-300:]}")
    read = read_ncu(text)
    if isinstance(read, str):
        return NotScored(read)
    kernels, time_us = read
    found = performance_score(kernels)
    if isinstance(found, NotScored):
        return found
    return Score(found.score, found.bandwidth_utilization, found.compute_efficiency, found.kernel, time_us)


def measure_on(binary: Path, data: Data | str, on: Gpu | None) -> Score | NotScored:
    """Return score and time of a program on a task's inputs, in a folder of its own."""
    if isinstance(data, str):
        return NotScored(data)
    with tempfile.TemporaryDirectory(prefix="cuda-harness-ncu-") as name:
        folder = Path(name)
        (folder / "data").mkdir()
        for relative, content in data.inputs.items():
            (folder / relative).write_bytes(content)
        return measure(binary, folder, on=on)
