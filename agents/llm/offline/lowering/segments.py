"""Scans for many blocks: segments are reduced, the totals of a row's segments are scanned, then each segment starts from its own."""

from cuda_harness.agents.llm.offline.lowering.full import partials
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import group_helper
from cuda_harness.agents.llm.offline.lowering.scan import ScanParts, chunks, scan_parts

SEGMENT_IDEAS = ("lookback_scan", "two_stage_reduction", "instruction_parallelism", "persistent_grid")
_WARPS = "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;"


def lower_segments(building: Building, primitive: Primitive) -> None:
    """Add three kernels: totals of SEGMENT elements each, their exclusive scan along each row, the scan of each segment."""
    building.keep(primitive.target)
    block = building.tune("BLOCK", [256, 128, 512])
    building.tune("SEGMENT", [4096, 2048, 8192])
    text = building.kernel(f"totals_{primitive.target}")
    parts = scan_parts(text, primitive, writes=False)
    segments = f"cdiv({parts.size}, SEGMENT)"
    (totals,) = partials(building, primitive, parts.reduction, f"({parts.rows})*{segments}")
    text.types.update({n: d for n, (d, _) in building.scratch.items()})
    real = parts.reduction.real
    name, helper = group_helper(parts.reduction)
    text.helpers[f"{name}:{primitive.dtype}"] = helper
    out, count, size = text.pointer(totals, written=True), text.size(segments), text.size(parts.size)
    place = [
        f"const int64_t row = blockIdx.x / {count}, begin = blockIdx.x % {count} * SEGMENT;",
        f"const int64_t end = begin + SEGMENT < {size} ? begin + SEGMENT : {size};", *parts.decode,
    ]  # fmt: skip
    add = [
        f"{real} acc = {parts.reduction.first};",
        f"for (int64_t {parts.row} = begin + threadIdx.x; {parts.row} < end; {parts.row} += BLOCK) {{",
        f"  const {real} term = {parts.term};", f"  acc = {parts.reduction.merge('acc', 'term')};", "}",
        f"acc = {name}<BLOCK>(acc);", f"if (threadIdx.x == 0) {out}[blockIdx.x] = acc;",
    ]  # fmt: skip
    building.add(text, f"{text.signature()} {{\n{indent([*place, *add], 1)}\n}}")
    building.launch(text, grid=f"({parts.rows})*{segments}", block=[block])
    _totals(building, primitive, parts, totals, segments)
    _scan(building, primitive, totals, segments)
    building.notes.append(
        "a scan in segments of SEGMENT elements: totals, their scan, and each segment from its own start"
    )


def _totals(building: Building, primitive: Primitive, parts: ScanParts, totals: str, segments: str) -> None:
    """Add the kernel that makes the totals of a row's segments the sum of all that come before."""
    text = building.kernel(f"starts_{primitive.target}")
    pointer, count = text.pointer(totals, written=True), text.size(segments)
    place = f"{pointer}[row * {count} + {parts.row}]"
    before = parts.reduction.merge("carry", parts.reduction.merge("offset", "earlier"))
    body = chunks(parts, "0", count, parts.reduction.first, term=place, store=f"{place} = {before};")
    building.add(text, f"""{text.signature()} {{
  __shared__ {parts.reduction.real} warps[32];
  {_WARPS}
  const int64_t row = blockIdx.x;
{indent(body, 1)}
}}""")  # fmt: skip
    building.launch(text, grid=parts.rows, block=["BLOCK"])


def _scan(building: Building, primitive: Primitive, totals: str, segments: str) -> None:
    text = building.kernel(f"segments_{primitive.target}")
    parts = scan_parts(text, primitive)
    pointer, count, size = text.pointer(totals, written=False), text.size(segments), text.size(parts.size)
    body = [
        f"const int64_t row = blockIdx.x / {count}, begin = blockIdx.x % {count} * SEGMENT;",
        f"const int64_t end = begin + SEGMENT < {size} ? begin + SEGMENT : {size};", *parts.decode,
        *chunks(parts, "begin", "end", f"{pointer}[blockIdx.x]"),
    ]  # fmt: skip
    building.add(text, f"""{text.signature()} {{
  __shared__ {parts.reduction.real} warps[32];
  {_WARPS}
{indent(body, 1)}
}}""")  # fmt: skip
    building.launch(text, grid=f"({parts.rows})*{segments}", block=["BLOCK"])
