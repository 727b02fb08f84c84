"""What bounds a kernel, from whatever was measured: counters, else time against the device's ceilings, else facts alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Bound, InstructionMix, KernelFacts, Profile, Timing
from cuda_harness.tools.execute.protocol import LaunchOp, Program, launched
from cuda_harness.tools.profile.ceilings import Ceilings
from cuda_harness.tools.profile.counters import Counters, performance_score
from cuda_harness.tools.profile.facts import mix_metrics, static_metrics, theoretical_occupancy, widest_load
from cuda_harness.tools.profile.floor import rate_for

BUSY_PCT = 60.0
"""A unit this busy bounds the kernel (the threshold of NVIDIA's own guide for a well-used unit)."""
FEW_WARPS_PCT = 33.0
NEARLY = 0.85
"""A streaming kernel at this share of the measured bandwidth has little left to gain."""
LAUNCH_FACTOR = 2.0
"""A plan within this many empty kernels is bound by its launches."""
_STALLS = {
    "stall_long": "waiting for global or local memory",
    "stall_short": "waiting for shared memory or special functions",
    "stall_barrier": "waiting at barriers",
    "stall_math": "waiting for an arithmetic pipe",
    "stall_wait": "waiting for a fixed latency of the instruction before",
    "stall_lg": "waiting for the queue of the load/store unit",
}


@dataclass(frozen=True)
class Known:
    """What is known of one kernel at its target size."""

    ir: KernelIR | None
    kernels: Sequence[KernelFacts] = ()
    mixes: Sequence[InstructionMix] = ()
    program: Program | None = None
    timing: Timing | None = None
    limits: Ceilings | None = None
    counters: Counters | None = None
    reason: str = ""
    """Why there are no counters, or none of ncu's."""
    num_sms: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def live(self) -> list[KernelFacts]:
        """Facts of the kernels that run at the target; of all where the program is not known."""
        if self.program is None:
            return list(self.kernels)
        names = {op.kernel for op in launched(self.program.ops)}
        return [k for k in self.kernels if k.name in names]


@dataclass(frozen=True)
class _Finding:
    bound: Bound
    evidence: tuple[str, ...]
    advice: str = ""


def profile_of(known: Known) -> Profile:
    """Return the profile on the highest rung that the figures allow."""
    metrics = static_metrics(known.kernels, known.ir) | mix_metrics(known.mixes) | _launch_metrics(known)
    occupancy = theoretical_occupancy(known.program, known.kernels)
    if occupancy is not None:
        metrics["occupancy"] = occupancy
    rung: Literal["ncu", "cupti", "cubin", "static"] = "cubin" if known.kernels else "static"
    finding: _Finding | None = None
    score = None
    if known.counters is not None and known.counters.launches:
        rung = known.counters.rung
        name, values = known.counters.longest
        metrics |= {f"{name}.{k}": v for k, v in values.items()}
        score = _best_score(known.counters)
        finding = _from_counters(name, values, known)
    elif known.timing is not None and known.limits is not None:
        finding = _from_time(known, occupancy)
    timing = known.timing
    headroom = (
        max(1.0, timing.median_us / timing.floor_us) if timing is not None and timing.floor_us else None
    )
    bound: Bound = finding.bound if finding is not None else "unknown"
    evidence = finding.evidence if finding is not None else ()
    return Profile(
        rung=rung, bound=bound, sentence=_sentence(known, metrics, finding, headroom), metrics=metrics, evidence=evidence,
        headroom=headroom, roofline=roofline(known), performance_score=score, reason=known.reason if rung != "ncu" else "",
    )  # fmt: skip


def static_profile(
    kernels: Sequence[KernelFacts], ir: KernelIR | None, *, mixes: Sequence[InstructionMix] = (),
    program: Program | None = None,
) -> Profile:  # fmt: skip
    """Return what compiler facts and the IR's cost tell; the bound is `unknown`, since nothing was measured.

    Metrics: `KERNEL.registers`, `KERNEL.shared_bytes` ... per entry as ptxas reports them, and of the whole
    problem at the target size `flops`, `bytes` and `flops_per_byte`. A fact that is not known has no entry.
    """
    return profile_of(Known(ir, kernels, mixes, program, reason="nothing was measured on a GPU"))


def _launch_metrics(known: Known) -> dict[str, float]:
    if known.program is None:
        return {}
    launches = [op for op in known.program.ops if isinstance(op, LaunchOp)]
    found = {"launches": float(len(launches))}
    if launches:
        blocks = [op.grid[0] * op.grid[1] * op.grid[2] for op in launches]
        found["blocks"] = float(max(blocks))
        found["threads_per_block"] = float(max(op.block[0] * op.block[1] * op.block[2] for op in launches))
    return found


def roofline(known: Known) -> dict[str, float]:
    """Return the kernel's place under the device's roof: operations a byte, and rates reached and possible."""
    found: dict[str, float] = {}
    timing, limits = known.timing, known.limits
    if timing is not None and timing.gb_s:
        found["gb_s"] = timing.gb_s
    if timing is not None and timing.gflop_s:
        found["gflop_s"] = timing.gflop_s
    if timing is not None and timing.flops and timing.compulsory_bytes:
        found["flops_per_byte"] = timing.flops / timing.compulsory_bytes
    if limits is not None:
        found["peak_gb_s"] = limits.bandwidth_bytes_per_s / 1e9
        rate = rate_for(known.ir, limits) if known.ir is not None else limits.flops_per_s
        if rate:
            found["peak_gflop_s"] = rate / 1e9
            found["ridge_flops_per_byte"] = rate / limits.bandwidth_bytes_per_s
    return found


# ---- findings ----
def _from_counters(name: str, values: Mapping[str, float], known: Known) -> _Finding:
    launch = _launch_bound(known)
    if launch is not None:
        return launch
    dram, l2, sm = (values.get(n, 0.0) for n in ("dram_pct", "l2_pct", "sm_pct"))
    tensor = values.get("tensor_pct", 0.0)
    memory = max(dram, l2)
    told = [f"{name}: DRAM {dram:.0f} %, L2 {l2:.0f} %, SM {sm:.0f} % of peak"]
    if memory >= BUSY_PCT and memory >= max(sm, tensor):
        return _Finding("memory", (*told, *_memory_details(values)), _memory_advice(values, known))
    if max(sm, tensor) >= BUSY_PCT:
        what = "tensor cores" if tensor >= BUSY_PCT else "the multiprocessors' pipes"
        return _Finding(
            "compute",
            (*told, f"tensor cores {tensor:.0f} %"),
            f"{what} are busy: fewer instructions for the same result",
        )
    warps = values.get("warps_active_pct")
    waves = values.get("waves")
    if warps is not None and warps < FEW_WARPS_PCT:
        told.append(f"{warps:.0f} % of the warps are active")
        return _Finding("occupancy", tuple(told), _occupancy_advice(values, waves))
    stall, cycles = max(((n, values.get(n, 0.0)) for n in _STALLS), key=lambda x: x[1])
    if cycles > 0:
        told.append(f"{cycles:.1f} cycles a warp are spent {_STALLS[stall]} for each instruction issued")
    return _Finding(
        "latency",
        tuple(told),
        "more independent work in flight for each thread: unroll, several elements a thread, loads ahead of their use",
    )


def _share(known: Known) -> float:
    """Return compulsory bytes a second over the measured bandwidth; 0 where not known."""
    roof = roofline(known)
    return roof["gb_s"] / roof["peak_gb_s"] if {"gb_s", "peak_gb_s"} <= set(roof) else 0.0


def _memory_details(values: Mapping[str, float]) -> list[str]:
    found = []
    if "dram_read_bytes" in values and "dram_write_bytes" in values:
        found.append(
            f"{values['dram_read_bytes']:.0f} bytes read and {values['dram_write_bytes']:.0f} written"
        )
    if "sectors_per_load" in values:
        found.append(f"{values['sectors_per_load']:.1f} sectors for each load of a warp")
    return found


def _memory_advice(values: Mapping[str, float], known: Known) -> str:
    if values.get("sectors_per_load", 0.0) > 16.5:
        return "a warp's loads are scattered: neighbouring threads must read neighbouring addresses"
    width = widest_load(known.mixes)
    if width is not None and width <= 4 and _share(known) < NEARLY:
        return f"global loads are at most {width} bytes wide: vectors of 16 bytes (float4) need a quarter of the instructions"
    if _share(known) >= NEARLY:
        return "it streams at nearly the bandwidth: only fewer bytes (fusion, narrower types) make it faster"
    return (
        "move fewer bytes: fuse passes, keep what is read twice in registers or shared memory, narrower types"
    )


def _occupancy_advice(values: Mapping[str, float], waves: float | None) -> str:
    if waves is not None and waves < 1.0:
        return f"the grid fills {waves:.2f} of the device: more blocks, or split the work of a block"
    by = {"registers": values.get("limit_registers"), "shared memory": values.get("limit_shared")}
    least = min(
        (k for k in by if by[k] is not None),
        key=lambda k: by[k] or 0.0,
        default="block size, registers or shared memory",
    )
    return f"{least} keep blocks from being resident together"


def _from_time(known: Known, occupancy: float | None) -> _Finding:
    launch = _launch_bound(known)
    if launch is not None:
        return launch
    roof = roofline(known)
    moved = roof["gb_s"] / roof["peak_gb_s"] if {"gb_s", "peak_gb_s"} <= set(roof) else None
    rate = roof["gflop_s"] / roof["peak_gflop_s"] if {"gflop_s", "peak_gflop_s"} <= set(roof) else None
    told = []
    if moved is not None:
        told.append(
            f"compulsory bytes move at {roof['gb_s']:.0f} of {roof['peak_gb_s']:.0f} GB/s ({moved:.0%})"
        )
    if rate is not None:
        told.append(
            f"operations run at {roof['gflop_s']:.0f} of {roof['peak_gflop_s']:.0f} GFLOP/s ({rate:.0%})"
        )
    if (moved or 0.0) >= BUSY_PCT / 100 and (moved or 0.0) >= (rate or 0.0):
        return _Finding("memory", tuple(told), _memory_advice({}, known))
    if (rate or 0.0) >= BUSY_PCT / 100:
        return _Finding(
            "compute",
            tuple(told),
            "fewer instructions for the same result, or the tensor cores where the numerics allow",
        )
    blocks = _launch_metrics(known).get("blocks")
    if blocks is not None and known.num_sms and blocks < known.num_sms:
        told.append(f"{blocks:.0f} blocks on {known.num_sms} multiprocessors")
        return _Finding(
            "occupancy", tuple(told), "the grid is too small: more blocks, or split the work of a block"
        )
    if occupancy is not None and occupancy < FEW_WARPS_PCT / 100:
        told.append(f"at most {occupancy:.0%} of the warps can be resident")
        return _Finding("occupancy", tuple(told), "fewer registers or less shared memory a block")
    return _Finding(
        "latency",
        tuple(told),
        _latency_advice(known),
    )


def _latency_advice(known: Known) -> str:
    width = widest_load(known.mixes)
    if width is not None and width <= 4:
        return f"more bytes in flight: loads are at most {width} bytes wide, vectors of 16 bytes and several a thread hide latency"
    return "more independent loads in flight, coalesced access, or fewer passes over the data"


def _launch_bound(known: Known) -> _Finding | None:
    timing, limits = known.timing, known.limits
    if timing is None or limits is None:
        return None
    launches = max(1.0, _launch_metrics(known).get("launches", 1.0))
    told = f"{timing.median_us:.1f} us for {launches:.0f} launch(es); an empty kernel takes {limits.launch_us:.1f} us"
    gap = (
        timing.graph_us is not None
        and launches > 1
        and timing.graph_us < 0.6 * min(timing.median_us, timing.warm_us or timing.median_us)
    )
    if timing.median_us > LAUNCH_FACTOR * limits.launch_us and not gap:
        return None
    if gap:
        told += f"; replayed from a graph the plan takes {timing.graph_us:.1f} us"
    advice = (
        "fewer launches: fuse kernels"
        if launches > 1
        else "one launch is the floor: fuse it with its neighbours, or time a larger problem"
    )
    return _Finding("launch", (told,), advice)


def _best_score(counters: Counters) -> float | None:
    """Return the score of the kernel with the highest rate of operations, as CUDABench picks it."""
    scored = []
    for launches in counters.by_kernel().values():
        score = performance_score(launches)
        if score is not None:
            one = launches[0]
            scored.append(((2 * one["ffma"] + one["fmul"] + one["fadd"]) * one["smsp_hz"], score))
    return max(scored)[1] if scored else None


def _sentence(
    known: Known, metrics: Mapping[str, float], finding: _Finding | None, headroom: float | None
) -> str:
    spilled = [k.name for k in known.live if (k.spill_store_bytes or 0) + (k.spill_load_bytes or 0) > 0]
    parts = [f"registers spill to memory in {', '.join(spilled)}"] if spilled else []
    if finding is not None:
        first = (
            f"{finding.bound}-bound: {finding.evidence[0]}" if finding.evidence else f"{finding.bound}-bound"
        )
        room = f"at most {headroom:.2f} times faster by the measured ceilings" if headroom is not None else ""
        return "; ".join(p for p in (first, *finding.evidence[1:2], *parts, room, finding.advice) if p)
    most = max((k.registers for k in known.live if k.registers is not None), default=None)
    if most is not None:
        parts.append(f"up to {most} registers a thread")
    if "flops_per_byte" in metrics:
        parts.append(f"{metrics['flops_per_byte']:.2g} operations for each byte that must move")
    return "; ".join([*parts, "what bounds it was not measured"])
