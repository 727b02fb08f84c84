"""Running sums and other scans along a row: a block a row, chunk after chunk, with a carry."""

from cuda_harness.agents.llm.offline.language.nodes import Name, substitute
from cuda_harness.agents.llm.offline.lowering.emit import Emitter, product, unflatten
from cuda_harness.agents.llm.offline.lowering.plan import MAX_BLOCKS, Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import Reduction


def suits_scan(primitive: Primitive) -> bool:
    """Return whether a primitive is a plain scan along one axis of the left side."""
    node = primitive.reduction
    if node is None or node.bound is None or node != primitive.bound.statement.value:
        return False
    return node.kind in {"sum", "prod", "max", "min"} and node.bound[1] in primitive.outer and (
        node.bound[0] == "<=" or node.kind in {"sum", "prod"}
    )  # fmt: skip


def lower_scan(building: Building, primitive: Primitive) -> None:
    """Add a kernel that scans each row in chunks of BLOCK elements (Hillis and Steele within a warp, then over warps)."""
    node = primitive.reduction
    assert node is not None  # noqa: S101 - the caller asked
    assert node.bound is not None  # noqa: S101 - the caller asked
    along = node.bound[1]
    rows = tuple(v for v in primitive.outer if v != along)
    extents = primitive.bound.extents
    building.keep(primitive.target)
    text = building.kernel(f"scan_{primitive.target}")
    reduction = Reduction(node.kind, primitive.dtype)
    index = {v: text.reserve(v) for v in primitive.outer}
    emitter = Emitter(text, primitive.bound, index, primitive.dtype)
    decode = unflatten(text, rows, extents, "row", index) if rows else []
    size = text.size(extents[along])
    total = product([extents[v] for v in rows])
    row_count = text.size(total)
    term = emitter.value(substitute(node.body, {node.variables[0]: Name(along)}))
    real = reduction.real
    up = "__shfl_up_sync(0xffffffffu, value, d)"
    if primitive.dtype == "int64":
        up = "(int64_t)__shfl_up_sync(0xffffffffu, (long long)value, d)"
    before = "__shfl_up_sync(0xffffffffu, value, 1)" if primitive.dtype != "int64" else \
        "(int64_t)__shfl_up_sync(0xffffffffu, (long long)value, 1)"  # fmt: skip
    last = reduction.merge("carry", reduction.merge("offset", "value"))
    stored = last
    exclusive: list[str] = []
    if node.bound[0] == "<":
        exclusive = [f"{real} earlier = {before};", f"if (lane == 0) earlier = {reduction.first};"]
        stored = reduction.merge("carry", reduction.merge("offset", "earlier"))
    i = index[along]
    store = emitter.store(f"({stored})")
    building.add(text, f"""{text.signature()} {{
  __shared__ {real} warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64_t row = blockIdx.x; row < {row_count}; row += gridDim.x) {{
{indent(decode, 2)}
    {real} carry = {reduction.first};
    for (int64_t first = 0; first < {size}; first += BLOCK) {{
      const int64_t {i} = first + threadIdx.x;
      {real} value = {reduction.first};
      if ({i} < {size}) value = {term};
      for (int d = 1; d < 32; d *= 2) {{
        const {real} other = {up};
        if (lane >= d) value = {reduction.merge("other", "value")};
      }}
      __syncthreads();  // the totals of the last chunk may still be read
      if (lane == 31) warps[warp] = value;
      __syncthreads();
      {real} offset = {reduction.first}, all = {reduction.first};
      for (int w = 0; w < BLOCK / 32; ++w) {{
        if (w == warp) offset = all;
        all = {reduction.merge("all", "warps[w]")};
      }}
{indent(exclusive, 3)}
      if ({i} < {size}) {store}
      carry = {reduction.merge("carry", "all")};
    }}
  }}
}}""")  # fmt: skip
    building.launch(text, grid=f"min({total}, {MAX_BLOCKS})", block=[building.tune("BLOCK", [256, 128, 512])])
    building.notes.append("a scan goes along each row in chunks of BLOCK, with a carry")
