"""The ideas a branch may try: what each needs to make sense, and what it may gain.

A strategy has the name of its skill (`prompts/skills/NAME.md`). `fits` says why it applies to the evidence, or
nothing when it does not; `gain` is the speed-up that it brings where it works, by the sources its skill names.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cuda_harness.tools.evolve.traits import Evidence, IrTrait, SourceTrait

Fits = Callable[[Evidence], str]
"""Why the idea applies, empty when it does not."""


@dataclass(frozen=True)
class Strategy:
    """One idea."""

    name: str
    description: str
    """What to change, in one line: the Coder reads it."""
    gain: float
    """Expected speed-up where it applies, before anything was tried in this run."""
    moves: str
    """The measurable quantity that should move, and in which direction."""
    fits: Fits
    related: tuple[str, ...] = ()
    """Skills worth showing beside its own."""


def _when(
    needs: tuple[IrTrait, ...] = (),
    without: tuple[SourceTrait, ...] = (),
    has: tuple[SourceTrait, ...] = (),
    bound: tuple[str, ...] = (),
) -> Fits:
    """Return a precondition: any of `needs`, all of `has`, none of `without`; another measured bound rules it out."""

    def fits(e: Evidence) -> str:
        kinds = [t for t in needs if t in e.ir_traits]
        if needs and not kinds:
            return ""
        if any(t in e.source_traits for t in without) or any(t not in e.source_traits for t in has):
            return ""
        if bound and e.bound not in {*bound, "unknown"}:
            return ""
        reasons = []
        if kinds:
            reasons.append(f"kind of problem: {kinds[0].replace('_', ' ')}")
        if has:
            reasons.append(f"the kernel uses {', '.join(has)}")
        if without:
            reasons.append(f"it uses no {', '.join(t.replace('_', ' ') for t in without)} yet")
        if bound and e.bound != "unknown":
            reasons.append(f"it is bound by {e.bound}")
        return "; ".join(reasons) or "it applies to any kernel"

    return fits


_WARP_BYTES, _CONFLICTS = 128, 0.1
"""What a warp's access of shared memory moves at once; conflicts for each such access from which on they matter."""


def _spilling(e: Evidence) -> str:
    if e.spills:
        return "registers spill to memory"
    if e.bound == "occupancy" and "bounds" not in e.source_traits:
        return "occupancy bounds it, and no launch bounds are given"
    registers = e.metric("registers")
    if registers is not None and registers > 96 and "bounds" not in e.source_traits:
        return f"a thread takes {registers:.0f} registers, and no launch bounds are given"
    return ""


def _conflicting(e: Evidence) -> str:
    """A tile that is padded already has a few left, at its borders: they are not worth a branch."""
    counted = e.metric("shared_bank_conflicts") or 0.0
    moved = (e.metric("shared_load_bytes") or 0.0) + (e.metric("shared_store_bytes") or 0.0)
    passes = moved / _WARP_BYTES
    if counted <= _CONFLICTS * passes or not counted:
        return ""
    among = f" in about {passes:.0f} accesses" if passes else ""
    return f"{counted:.0f} bank conflicts{among} were counted in shared memory"


def _scattered(e: Evidence) -> str:
    moved = e.metric("global_sector_bytes") or _sectors(e)
    wanted = e.metric("global_load_bytes")
    if moved is not None and wanted and moved > 1.5 * wanted:
        return f"{moved / wanted:.1f} bytes cross the memory for each byte that is asked for"
    return ""


def _sectors(e: Evidence) -> float | None:
    sectors = e.metric("global_load_sectors")
    return None if sectors is None else 32 * sectors


def _tensor_cores(e: Evidence) -> str:
    halves = {"float16", "bfloat16", "int8", "float8_e4m3", "float8_e5m2"}
    if "contraction" not in e.ir_traits or "mma" in e.source_traits:
        return ""
    types = {t.dtype for t in e.ir.inputs}
    if types <= halves:
        return f"operands are {', '.join(sorted(types))}, which tensor cores multiply"
    if e.ir.numerics.precision != "strict" and types <= halves | {"float32"}:
        return f"the request allows {e.ir.numerics.precision.removeprefix('allow_')} products"
    return ""


def _striding(e: Evidence) -> str:
    """Blocks that fit at once anyway have nothing to stride over."""
    fits = _when(
        ("elementwise", "row_reduction", "full_reduction"),
        without=("persistent",),
        bound=("launch", "latency", "memory"),
    )(e)
    threads, blocks, each = e.metric("threads"), e.metric("blocks"), e.metric("threads_per_block")
    if blocks is not None and each is not None:
        threads = blocks * each
    return "" if threads is not None and threads <= _RESIDENT else fits


def _splitting(e: Evidence) -> str:
    """Blocks that fill the multiprocessors already gain nothing by being more."""
    fits = _when(
        ("contraction",), without=("several_launches", "mma"), bound=("latency", "occupancy", "compute")
    )(e)
    blocks = e.metric("blocks")
    return "" if blocks is not None and blocks >= _FILLING else fits


def _buffering(e: Evidence) -> str:
    """A block that has one tile, loaded once, has no next one to load meanwhile."""
    fits = _when(
        ("contraction",), has=("shared",), without=("async",), bound=("latency", "memory", "compute")
    )(e)
    barriers = e.metric("barriers_per_block")
    return "" if barriers is not None and barriers <= _ONE_TILE else fits


def _fusable(e: Evidence) -> str:
    if e.launches > 1 and not e.ir_traits & {"scan", "full_reduction"}:
        return f"the plan has {e.launches} launches, and memory is crossed between them"
    return ""


_ONE_TILE = 2
"""Barriers of a block that loads a tile once: after loading it, and before what is joined at the end."""
_FILLING = 66
"""Blocks that keep half of an H100's multiprocessors busy, each with one."""
_RESIDENT = 132 * 2048
"""Threads that an H100 holds at once; most other devices hold fewer, and have the idea proposed more rarely than they might."""
_MATRIX: tuple[IrTrait, ...] = ("contraction",)
_REDUCING: tuple[IrTrait, ...] = ("row_reduction", "full_reduction")

STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        "coalescing", "let neighbouring threads of a warp read and write neighbouring addresses", 2.0,
        "sectors per request fall", _scattered, ("transposing_through_shared",),
    ),
    Strategy(
        "vector_loads", "load and store 16 bytes per thread and access, with a scalar path for tails and unaligned rows", 1.2,
        "memory instructions fall to a quarter", _when(("elementwise", "pooling", "row_reduction", "full_reduction"), without=("vector",), bound=("memory", "latency")),
        ("coalescing",),
    ),
    Strategy(
        "shared_tiling", "stage tiles that several threads need in shared memory, and read each from global memory once", 4.0,
        "global load bytes fall by the tile's edge", _when(("contraction", "stencil"), without=("shared",)), ("bank_conflict_padding",),
    ),
    Strategy(
        "register_blocking", "let each thread compute a small block of outputs from registers", 2.0,
        "shared loads per operation fall", _when(_MATRIX, has=("shared",), without=("mma",), bound=("compute", "memory", "latency")),
        ("shared_tiling", "vector_loads"),
    ),
    Strategy(
        "warp_shuffle_reduction", "reduce within a warp by shuffles, with one shared slot per warp", 1.3,
        "barriers and shared accesses fall", _when(_REDUCING, without=("shuffle",)), ("instruction_parallelism",),
    ),
    Strategy(
        "online_one_pass", "compute maximum and sum, or mean and variance, in one pass over the data", 1.5,
        "global load bytes fall by one pass", _when(("two_reductions",), has=("row_loops",), bound=("memory", "latency")),
        ("warp_shuffle_reduction",),
    ),
    Strategy(
        "privatised_atomics", "count into private shared copies and add each to global memory once", 4.0,
        "global atomics fall", _when(("scatter",), has=("atomic",), without=("shared",)), ("two_stage_reduction",),
    ),
    Strategy(
        "two_stage_reduction", "let many blocks reduce parts, then one launch or the last block finish", 3.0,
        "blocks in flight rise", _when(("full_reduction",), without=("several_launches", "ticket")), ("warp_shuffle_reduction", "vector_loads"),
    ),
    Strategy(
        "split_k", "split the inner dimension over blocks and add the parts", 1.5,
        "blocks in flight rise", _splitting, ("two_stage_reduction",),
    ),
    Strategy(
        "double_buffering", "load the next tile by asynchronous copies while the present one is used", 1.3,
        "stalls on memory fall", _buffering, ("shared_tiling",),
    ),
    Strategy(
        "tensor_cores", "multiply by warp-wide matrix instructions with float accumulators", 4.0,
        "matrix pipe use rises", _tensor_cores, ("shared_tiling", "double_buffering"),
    ),
    Strategy(
        "launch_bounds", "give launch bounds and shorten live ranges so that registers fit without spills", 1.2,
        "registers and spilled bytes fall", _spilling, ("instruction_parallelism",),
    ),
    Strategy(
        "persistent_grid", "launch as many blocks as fit at once and let each stride over the work", 1.1,
        "launch and tail overhead fall", _striding,
        ("instruction_parallelism",),
    ),
    Strategy(
        "kernel_fusion", "join launches so that what lies between them never goes to memory", 1.8,
        "launches and global bytes fall", _fusable, ("online_one_pass",),
    ),
    Strategy(
        "bank_conflict_padding", "pad or swizzle shared tiles so that the lanes of a warp hit different banks", 1.2,
        "bank conflicts fall to none", _conflicting, ("shared_tiling",),
    ),
    Strategy(
        "instruction_parallelism", "let each thread handle several independent elements, with separate accumulators", 1.15,
        "independent instructions per thread rise", _when(("elementwise", "pooling", "row_reduction", "full_reduction", "stencil", "scatter"), without=("unrolled",), bound=("latency", "memory", "compute")),
        ("vector_loads",),
    ),
    Strategy(
        "lookback_scan", "scan in one pass: each block takes its prefix from its predecessors by decoupled look-back", 1.6,
        "global bytes fall to one read and one write", _when(("scan",), without=("lookback",), bound=("memory", "launch", "latency")), ("warp_shuffle_reduction",),
    ),
    Strategy(
        "transposing_through_shared", "pass tiles through shared memory so that reads and writes are both coalesced", 3.0,
        "sectors per request fall", _when(("transpose",), without=("shared",)), ("bank_conflict_padding", "coalescing"),
    ),
)  # fmt: skip
"""In the order in which ties are broken; each name is also a skill's."""

BY_NAME: dict[str, Strategy] = {s.name: s for s in STRATEGIES}
