"""Running sums and other scans along a row: a block a row, chunk after chunk, with a carry."""

from dataclasses import dataclass

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, KernelText, product, unflatten
from cuda_harness.agents.llm.offline.lowering.plan import MAX_BLOCKS, Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import Reduction
from cuda_harness.tools.formula.nodes import Name, substitute


def suits_scan(primitive: Primitive) -> bool:
    """Return whether a primitive is a plain scan along one axis of the left side."""
    node = primitive.reduction
    if node is None or node.bound is None or node != primitive.bound.statement.value:
        return False
    return node.kind in {"sum", "prod", "max", "min"} and node.bound[1] in primitive.outer and (
        node.bound[0] == "<=" or node.kind in {"sum", "prod"}
    )  # fmt: skip


@dataclass(frozen=True)
class ScanParts:
    """The C text that plain and segmented scans are made of."""

    reduction: Reduction
    row: str
    """Index variable along which the scan goes, as a C name."""
    rows: str
    """Number of rows, as an expression of the plan."""
    size: str
    """Length of a row, as an expression of the plan."""
    decode: list[str]
    term: str
    store: str
    exclusive: bool


def scan_parts(text: KernelText, primitive: Primitive, *, writes: bool = True) -> ScanParts:
    """Return the parts of a scan's kernel, its parameters declared; without `writes` it has no output."""
    node = primitive.reduction
    assert node is not None  # noqa: S101 - the caller asked
    assert node.bound is not None  # noqa: S101 - the caller asked
    along = node.bound[1]
    rows = tuple(v for v in primitive.outer if v != along)
    extents = primitive.bound.extents
    reduction = Reduction(node.kind, primitive.dtype)
    index = {v: text.reserve(v) for v in primitive.outer}
    emitter = Emitter(text, primitive.bound, index, primitive.dtype)
    exclusive = node.bound[0] == "<"
    stored = reduction.merge("carry", reduction.merge("offset", "earlier" if exclusive else "value"))
    term = emitter.value(substitute(node.body, {node.variables[0]: Name(along)}))
    return ScanParts(
        reduction, index[along], product([extents[v] for v in rows]), extents[along],
        unflatten(text, rows, extents, "row", index) if rows else [], term, emitter.store(f"({stored})") if writes else "", exclusive,
    )  # fmt: skip


def chunks(
    parts: ScanParts, begin: str, end: str, carry: str, *, term: str = "", store: str = ""
) -> list[str]:
    """Return the loop that scans one stretch of a row, a chunk of BLOCK elements after the other, starting from `carry`.

    Hillis and Steele within a warp, then over the totals of the warps.
    """
    reduction, i = parts.reduction, parts.row
    real = reduction.real
    wide = reduction.dtype == "int64"
    up, before = (
        f"(int64_t)__shfl_up_sync(0xffffffffu, (long long)value, {d})" if wide else f"__shfl_up_sync(0xffffffffu, value, {d})"
        for d in ("d", "1")
    )  # fmt: skip
    earlier = [f"  {real} earlier = {before};", f"  if (lane == 0) earlier = {reduction.first};"]
    return [
        f"{real} carry = {carry};",
        f"for (int64_t first = {begin}; first < {end}; first += BLOCK) {{",
        f"  const int64_t {i} = first + threadIdx.x;",
        f"  {real} value = {reduction.first};",
        f"  if ({i} < {end}) value = {term or parts.term};",
        "  for (int d = 1; d < 32; d *= 2) {",
        f"    const {real} other = {up};",
        f"    if (lane >= d) value = {reduction.merge('other', 'value')};",
        "  }",
        "  __syncthreads();  // the totals of the last chunk may still be read",
        "  if (lane == 31) warps[warp] = value;",
        "  __syncthreads();",
        f"  {real} offset = {reduction.first}, all = {reduction.first};",
        "  for (int w = 0; w < BLOCK / 32; ++w) {",
        "    if (w == warp) offset = all;",
        f"    all = {reduction.merge('all', 'warps[w]')};",
        "  }",
        *(earlier if parts.exclusive or store else []),
        f"  if ({i} < {end}) {store or parts.store}",
        f"  carry = {reduction.merge('carry', 'all')};",
        "}",
    ]


def lower_scan(building: Building, primitive: Primitive) -> None:
    """Add a kernel that scans each row, a block a row."""
    building.keep(primitive.target)
    text = building.kernel(f"scan_{primitive.target}")
    parts = scan_parts(text, primitive)
    body = [*parts.decode, *chunks(parts, "0", text.size(parts.size), parts.reduction.first)]
    rows = text.size(parts.rows)
    building.add(text, f"""{text.signature()} {{
  __shared__ {parts.reduction.real} warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64_t row = blockIdx.x; row < {rows}; row += gridDim.x) {{
{indent(body, 2)}
  }}
}}""")  # fmt: skip
    building.launch(
        text, grid=f"min({parts.rows}, {MAX_BLOCKS})", block=[building.tune("BLOCK", [256, 128, 512])]
    )
    building.notes.append("a scan goes along each row in chunks of BLOCK, with a carry")
