"""Ceilings, A against A, tuned streaming kernels and a table of the library.

`python -m tests.gpu.timing_report OUT [SECONDS] [PARTS]`; PARTS: aa, streams, library (default: all), separated by commas. Writes OUT/timing.json and OUT/timing.md after every part, so that an interrupted report keeps what it has.
"""

import contextlib
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Timing, TimingNotMeasured
from cuda_harness.tools.execute.cuda.executor import CudaExecutor
from cuda_harness.tools.execute.protocol import Buffer, LaunchOp, PointerArg, Program, ValueArg
from cuda_harness.tools.profile.ceilings import Ceilings, ceilings
from cuda_harness.tools.profile.compare import judge_samples
from cuda_harness.tools.profile.explain import explain
from cuda_harness.tools.profile.library import torch_times
from cuda_harness.tools.profile.operators import candidates
from cuda_harness.tools.profile.session import Contender, Session, measure
from cuda_harness.tools.profile.timing import time_kernel
from cuda_harness.tools.profile.tuning import Tuning, tune
from cuda_harness.tools.profile.workload import Workload, workload
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.verify.bundle import load_bundle

LIBRARY = Path(__file__).resolve().parents[2] / "examples" / "kernels"
STREAMING = (
    "copy",
    "axpy",
    "relu_vec4",
    "row_sum_vec4",
    "row_sum",
    "transpose_padded",
    "softmax_held",
    "softmax_online",
)
ONE_DIM, TWO_DIMS = 1 << 26, (16384, 4096)
"""256 MiB for each float32 tensor: more than four times the L2 of an H200."""
TRIALS, ROUNDS = 100, 60
DOUBLE = (
    'extern "C" __global__ void k(float *y, const float *x, int n) '
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * 2.0f; }"
)


class Report:
    """What was measured so far, on disk."""

    def __init__(self, out: Path, seconds: float) -> None:
        self.out, self.until = out, time.monotonic() + seconds
        self.found: dict[str, Any] = {}
        self.parts: dict[str, list[str]] = {}

    @property
    def left(self) -> float:
        return self.until - time.monotonic()

    def part(self, name: str, work: Callable[[], tuple[Any, list[str]]]) -> None:
        began = time.monotonic()
        try:
            self.found[name], self.parts[name] = work()
        except Exception as exc:  # noqa: BLE001 - the other parts are still worth their figures
            self.found[name] = {"error": f"{type(exc).__name__}: {exc}"[:500]}
            self.parts[name] = [f"not measured: {type(exc).__name__}: {exc}"[:500]]
        self.parts[name].append(f"\n({time.monotonic() - began:.1f} s)\n")
        self.save()
        print(name, "\n".join(self.parts[name])[:3000], flush=True)

    def save(self) -> None:
        (self.out / "timing.json").write_text(json.dumps(self.found, indent=1, default=str))
        text = "\n".join(f"### {n}\n\n" + "\n".join(lines) for n, lines in self.parts.items())
        (self.out / "timing.md").write_text(text)


def sized(ir: KernelIR, *, large: bool) -> KernelIR:
    """Return the IR with streaming sizes as its target."""
    free = [d.name for d in ir.dims if not d.fixed]
    values = dict(zip(free, (ONE_DIM,) if len(free) == 1 else TWO_DIMS, strict=False)) if large else {}
    dims = tuple(d.model_copy(update={"value": values.get(d.name, d.value)}) for d in ir.dims)
    return ir.model_copy(update={"dims": dims})


def the_ceilings(gpu: CudaExecutor) -> tuple[Any, list[str]]:
    found = ceilings(gpu, refresh=True)
    if not isinstance(found, Ceilings):
        return {"error": str(found)}, [f"not measured: {found}"]
    lines = [
        f"{found.device}, {found.date}, SM clock {found.sm_mhz} MHz, memory clock {found.memory_mhz} MHz",
        "",
        f"copy {found.bandwidth_bytes_per_s / 1e12:.3f} TB/s; best direction {found.most_bytes_per_s / 1e12:.3f} TB/s "
        f"({ {n: round(v / 1e12, 3) for n, v in found.details.items()} }); FMA {(found.flops_per_s or 0) / 1e12:.1f} TFLOP/s; "
        f"tensor (warp-wide half) {(found.tensor_flops_per_s or 0) / 1e12:.0f} TFLOP/s; empty kernel {found.launch_us:.2f} us",
    ]
    return found.model_dump(), lines


def a_against_a(gpu: CudaExecutor, *, n: int, limit_s: float) -> tuple[Any, list[str]]:
    """Tell two copies of one kernel apart: blocks of rounds of one process are the trials."""
    launch = LaunchOp(
        "k", (n // 256, 1, 1), (256, 1, 1), 0, (PointerArg("y"), PointerArg("x"), ValueArg("int32", n))
    )
    program = Program((Buffer("x", "float32", n, "in"), Buffer("y", "float32", n, "out")), (launch,))
    contents = [{"x": np.random.default_rng(k).standard_normal(n).astype(np.float32)} for k in range(3)]
    done = measure(
        gpu, [Contender("a", DOUBLE, program), Contender("b", DOUBLE, program)], contents, arch=gpu.facts()["arch"],
        seed=secrets.randbits(30), precision=0.0, least=TRIALS * ROUNDS, most=TRIALS * ROUNDS, limit_s=limit_s, outputs=False,
    )  # fmt: skip
    if not isinstance(done, Session):
        return {"error": str(done)}, [f"not measured: {done}"]
    a, b = (t.samples_us for t in done.timed)
    blocks = [
        judge_samples(a[i : i + ROUNDS], b[i : i + ROUNDS]) for i in range(0, len(a) - ROUNDS + 1, ROUNDS)
    ]
    told = sum(c.significant for c in blocks)
    ratios = [c.ratio for c in blocks]
    found = {
        "trials": len(blocks), "told_apart": told, "rounds": ROUNDS, "elements": n, "median_us": done.timed[0].median.value,
        "ratio_low": min(ratios), "ratio_high": max(ratios), "by_interval_alone": sum(c.ci95[0] > 1 or c.ci95[1] < 1 for c in blocks),
        "throttled": done.throttled, "seconds": done.seconds,
    }  # fmt: skip
    lines = [
        f"{n} float32 elements, {found['median_us']:.2f} us: {told} of {len(blocks)} trials of {ROUNDS} rounds told two copies "
        f"of one kernel apart (by the bare interval: {found['by_interval_alone']}); ratios {min(ratios):.4f} to {max(ratios):.4f}"
    ]
    return found, lines


def row_of(name: str, timing: Timing | TimingNotMeasured, extra: str = "") -> str:
    if isinstance(timing, TimingNotMeasured):
        return f"| {name} | {'rejected' if timing.rejected else 'not measured'}: {timing.reason[:160]} | | | | | | | {extra} |"
    graph = f"{timing.graph_us:.2f}" if timing.graph_us else ""
    warm = f"{timing.warm_us:.2f}" if timing.warm_us else ""
    low, high = timing.ci95_us
    return (
        f"| {name} | {timing.median_us:.2f} | {low:.2f} to {high:.2f} | {warm} | {graph} | {timing.floor_us or 0:.2f} ({timing.floor_of}) | "
        f"{timing.sol_fraction or 0:.3f} | {timing.gb_s or 0:.0f} | {extra} |"
    )


HEAD = ["| kernel | cold us | 95 % | warm us | graph us | floor us | of the floor | GB/s | notes |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip


class Prepared:
    """Contents and truths of bundles, made ahead by a few workers while the GPU is busy with others."""

    def __init__(self, names: list[tuple[str, bool]], workers: int, waiting: int) -> None:
        """Begin; at most `waiting` bundles are made or wait at any time, since each may hold several GiB."""
        self._pool = ThreadPoolExecutor(workers)
        self._references: dict[str, ReferenceRunner] = {}
        self._taken: str | None = None
        self._slots = threading.BoundedSemaphore(waiting)
        self._made = {key: self._pool.submit(self._make, *key) for key in names}

    def _make(self, name: str, large: bool) -> tuple[Kernel, Suite, Workload]:
        self._slots.acquire()
        bundle = load_bundle(LIBRARY / name)
        assert bundle.kernel is not None
        ir = sized(bundle.ir, large=large)
        references = ReferenceRunner()
        self._references[name] = references
        suite = Suite(ir, bundle.reference, runner=references, seed=secrets.randbits(40), specs=bundle.specs)
        suite.answers([*suite.cases("tiny"), *suite.cases("shapes")[:6]])  # what tuning and PyTorch ask for
        return bundle.kernel, suite, workload(ir, suite=suite)

    def take(self, name: str, *, large: bool, timeout_s: float) -> tuple[Kernel, Suite, Workload]:
        if self._taken in self._references:
            self._references.pop(self._taken).close()
        self._taken = name
        try:
            return self._made.pop((name, large)).result(timeout_s)
        finally:
            with contextlib.suppress(ValueError):
                self._slots.release()

    def close(self) -> None:
        for waiting in self._made.values():
            waiting.cancel()
        for _ in self._made:
            with contextlib.suppress(ValueError):
                self._slots.release()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for references in self._references.values():
            references.close()


def stream(
    name: str, gpu: CudaExecutor, made: Prepared, limits: Ceilings | None, left: float
) -> tuple[dict[str, Any], str]:
    kernel, suite, work = made.take(name, large=True, timeout_s=left)
    began = time.monotonic()
    tuned = tune(kernel, work, gpu, suite=suite, limit_s=3.0, use_cache=False)
    chosen = tuned.kernel if isinstance(tuned, Tuning) else kernel
    timing = time_kernel(chosen, work, gpu, limits=limits, limit_s=3.0)
    note = f"{tuned.tunables} of {tuned.total}" if isinstance(tuned, Tuning) else str(tuned.reason)
    if isinstance(timing, Timing):
        note += "; " + "; ".join(timing.notes)
    found = {
        "kernel": name, "dims": work.dims, "timing": timing.model_dump(), "seconds": time.monotonic() - began,
        "tuning": {"trials": [t.__dict__ for t in tuned.trials], "changed": tuned.changed, "comparison": str(tuned.comparison), "notes": tuned.notes}
        if isinstance(tuned, Tuning) else str(tuned),
    }  # fmt: skip
    return found, row_of(name, timing, note)


def streams(
    report: Report, gpu: CudaExecutor, made: Prepared, limits: Ceilings | None
) -> tuple[Any, list[str]]:
    rows, lines = [], list(HEAD)
    for name in STREAMING:
        if report.left < 8:
            continue
        try:
            found, line = stream(name, gpu, made, limits, report.left)
        except Exception as exc:  # noqa: BLE001 - the next kernel is still worth its time
            found, line = (
                {"kernel": name, "error": repr(exc)},
                f"| {name} | failed: {type(exc).__name__}: {exc} | | | | | | | |",
            )
        rows.append(found)
        lines.append(line)
        report.found["streams"], report.parts["streams"] = rows, lines
        report.save()
    return rows, lines


def library(
    report: Report, gpu: CudaExecutor, made: Prepared, names: list[str], limits: Ceilings | None
) -> tuple[Any, list[str]]:
    """Time every bundle first, then what PyTorch needs for those that map to one of its operators."""
    rows: list[dict[str, Any]] = []
    timings: list[Timing | TimingNotMeasured] = []
    mapped: list[tuple[int, Suite, Workload]] = []
    left_out = []

    def lines() -> list[str]:
        return HEAD + [row_of(r["kernel"], t, told(r)) for r, t in zip(rows, timings, strict=True)]

    def save() -> None:
        report.found["library"], report.parts["library"] = rows, lines()
        report.save()

    for name in names:
        if report.left < 5:
            left_out.append(name)
            continue
        bound = ""
        try:
            kernel, suite, work = made.take(name, large=False, timeout_s=report.left)
            timing = time_kernel(kernel, work, gpu, limits=limits, limit_s=0.7, precision=0.01)
            if isinstance(timing, Timing):
                bound = explain(kernel, work, gpu, timing=timing, limits=limits, counters=False).bound
                if candidates(work.ir):
                    mapped.append((len(rows), suite, work))
        except Exception as exc:  # noqa: BLE001 - the next kernel is still worth its time
            timing = TimingNotMeasured(reason=f"{type(exc).__name__}: {exc}"[:300])
        rows.append({"kernel": name, "timing": timing.model_dump(), "torch": [], "bound": bound})
        timings.append(timing)
        save()

    def beside(at: int, suite: Suite, work: Workload) -> None:
        if report.left > 25:
            found = torch_times(work, suite, gpu, compiled=False, limit_s=min(60.0, report.left - 5))
            rows[at]["torch"] = [x.model_dump() for x in found]
            save()

    with ThreadPoolExecutor(3) as pool:  # each takes seconds to start and milliseconds to be timed
        list(pool.map(lambda m: beside(*m), mapped))
    return rows, [*lines(), f"\nnot reached: {', '.join(left_out) or 'none'}"]


def told(row: dict[str, Any]) -> str:
    """Return bound, PyTorch's time and notes of a row."""
    said = [f"{row['bound']}-bound"] if row["bound"] else []
    said += [
        f"PyTorch eager {x['median_us']:.2f} us" if x["median_us"] else f"PyTorch: {x['reason'][:80]}" for x in row["torch"]
    ]  # fmt: skip
    return "; ".join([*said, *row["timing"].get("notes", [])])[:240]


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    report = Report(out, float(sys.argv[2]) if len(sys.argv) > 2 else 115.0)
    parts = set((sys.argv[3] if len(sys.argv) > 3 else "aa,streams,library").split(","))
    bundles = sorted(p.name for p in LIBRARY.iterdir() if (p / "ir.json").is_file())
    gpu = CudaExecutor(0)
    report.part("ceilings", lambda: the_ceilings(gpu))
    measured = report.found["ceilings"]
    limits = Ceilings.model_validate(measured) if "error" not in measured else None
    if "aa" in parts:
        report.part("A against A, 4 Mi elements", lambda: a_against_a(gpu, n=1 << 22, limit_s=20.0))
        report.part("A against A, 64 Ki elements", lambda: a_against_a(gpu, n=1 << 16, limit_s=15.0))
    if "streams" in parts:
        # One large bundle is made while another is timed: its reference alone holds inputs and outputs in float64 three times.
        with contextlib.closing(Prepared([(n, True) for n in STREAMING], workers=1, waiting=2)) as made:
            report.part("streams", lambda: streams(report, gpu, made, limits))
    if "library" in parts:
        with contextlib.closing(Prepared([(n, False) for n in bundles], workers=4, waiting=6)) as made:
            report.part("library", lambda: library(report, gpu, made, bundles, limits))
    gpu.close()
    sys.stdout.flush()
    os._exit(0)  # workers that still draw are of no use any more


if __name__ == "__main__":
    main()
