"""Reductions across rows for bandwidth: packs of neighbouring columns, and the rows shared among blocks as well as strands."""

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, product, unflatten
from cuda_harness.agents.llm.offline.lowering.full import partials
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import Reduction
from cuda_harness.agents.llm.offline.lowering.style import Style
from cuda_harness.state.names import C_TYPES, ITEM_BYTES
from cuda_harness.tools.formula.nodes import Access, Name, Node, accesses, children

SPLIT_IDEAS = (
    "vector_loads", "instruction_parallelism", "two_stage_reduction", "persistent_grid", "coalescing",
    "online_one_pass", "launch_bounds",
)  # fmt: skip


def suits_split(building: Building, primitive: Primitive) -> bool:
    """Return whether every array runs along the columns or does not depend on them, and none of it is an index."""
    node = primitive.reduction
    if node is None or node.kind in {"argmax", "argmin"} or not primitive.outer:
        return False
    last = primitive.outer[-1]
    if any(isinstance(n, Name) and n.name in primitive.bound.extents for n in _numbers(node.body)):
        return False
    kinds: dict[str, bool] = {}
    for access in accesses(node.body):
        names = [i.name if isinstance(i, Name) else "" for i in access.indices]
        if "" in names or (last in names and names[-1] != last):
            return False
        if kinds.setdefault(access.name, last in names) != (last in names):
            return False
    arrays = building.problem.arrays
    return all(arrays[n].shape[-1] == primitive.bound.extents[last] for n, along in kinds.items() if along)


def _numbers(node: Node) -> list[Node]:
    if isinstance(node, Access):
        return []
    return [node, *(n for child in children(node) for n in _numbers(child))]


def lower_split(building: Building, primitive: Primitive, style: Style) -> None:
    """Add two kernels: SPLIT blocks reduce parts of the rows of each stripe of columns, then one thread a column merges them."""
    node = primitive.reduction
    assert node is not None  # noqa: S101 - the caller asked
    building.keep(primitive.target)
    reduction = Reduction(node.kind, primitive.dtype)
    real, extents = reduction.real, primitive.bound.extents
    total, length = product(primitive.outer_extents), product(primitive.inner_extents)
    last = extents[primitive.outer[-1]]
    (parts,) = partials(building, primitive, reduction, f"SPLIT*({total})")
    text = building.kernel(f"stripes_{primitive.target}")
    out = text.pointer(parts, written=True)
    index = {v: text.reserve(v) for v in (*primitive.outer, *primitive.inner)}
    emitter = Emitter(text, primitive.bound, dict(index), primitive.dtype)
    decode = unflatten(text, primitive.outer, extents, "flat", index)
    rows = unflatten(text, primitive.inner, extents, "step", index)
    packs: dict[str, str] = {}
    loads: list[str] = []
    for access in dict.fromkeys(accesses(node.body)):
        final = access.indices[-1] if access.indices else None
        if isinstance(final, Name) and final.name == primitive.outer[-1]:
            kind = C_TYPES[text.types.get(access.name) or building.problem.arrays[access.name].dtype]
            own = text.reserve(f"{access.name}_pack")
            pointer = text.pointer(access.name, written=False)
            loads.append(
                f"const Pack<{kind}> {own} = *reinterpret_cast<const Pack<{kind}>*>(&{pointer}[{emitter.address(access)}]);"
            )
            packs[access.name] = f"{own}.v[k]"
    widest = max(ITEM_BYTES[building.problem.arrays[n].dtype] for n in packs)
    vec = max(1, 16 // widest)
    width = f"({vec} if ({last}) % {vec} == 0 else 1)"
    building.own_pack(text, "stripe", width)
    term = Emitter(text, primitive.bound, dict(index), primitive.dtype, loaded=packs).value(node.body)
    count, size = text.size(length), text.size(total)
    stripes = text.size(f"cdiv({total}, 32*{width})")
    merge = reduction.merge("acc[k]", "parts[w][k][threadIdx.x]")
    bounds = "32 * DEPTH" if style.has("launch_bounds") else ""
    building.add(text, f"""{text.signature(bounds=bounds)} {{
  __shared__ {real} parts[DEPTH][VEC][32];  // neighbouring lanes meet neighbouring banks
  const int64_t flat = ((int64_t)(blockIdx.x % {stripes}) * 32 + threadIdx.x) * VEC;
  const int split = blockIdx.x / {stripes};
  {real} acc[VEC];
  for (int k = 0; k < VEC; ++k) acc[k] = {reduction.first};
  if (flat < {size}) {{
{indent(decode, 2)}
#pragma unroll 4
    for (int64_t step = (int64_t)split * DEPTH + threadIdx.y; step < {count}; step += DEPTH * SPLIT) {{
{indent([*rows, *loads], 3)}
#pragma unroll
      for (int k = 0; k < VEC; ++k) {{
        const {real} term = {term};
        acc[k] = {reduction.merge("acc[k]", "term")};
      }}
    }}
  }}
  for (int k = 0; k < VEC; ++k) parts[threadIdx.y][k][threadIdx.x] = acc[k];
  __syncthreads();
  if (threadIdx.y == 0 && flat < {size}) {{
    for (int w = 1; w < DEPTH; ++w) {{
      for (int k = 0; k < VEC; ++k) acc[k] = {merge};
    }}
    for (int k = 0; k < VEC; ++k) {out}[split * {size} + flat + k] = acc[k];
  }}
}}""")  # fmt: skip
    depth = building.tune("DEPTH", [16, 8, 4])
    building.tune("SPLIT", _splits(building, total, length, vec))
    building.launch(text, grid=f"cdiv({total}, 32*{width})*SPLIT", block=[32, depth])
    _merge(building, primitive, reduction, parts)
    building.notes.append("stripes of 32 packs of columns, SPLIT blocks a stripe, merged in a second launch")


def _splits(building: Building, total: str, length: str, vec: int) -> list[int]:
    """Return blocks a stripe, first what gives a large device some two thousand blocks' worth of warps."""
    stripes = max(1, building.at_target(f"cdiv({total}, {32 * vec})"))
    rows = building.at_target(length)
    best = 1
    while best * stripes < 1024 and best * 64 < rows:
        best *= 2
    return [best, *(s for s in (best * 2, best // 2) if s >= 1)]


def _merge(building: Building, primitive: Primitive, reduction: Reduction, parts: str) -> None:
    node = primitive.reduction
    assert node is not None  # noqa: S101 - the caller asked
    extents = primitive.bound.extents
    text = building.kernel(f"merge_{primitive.target}")
    index = {v: text.reserve(v) for v in primitive.outer}
    emitter = Emitter(text, primitive.bound, dict(index), primitive.dtype, flat="flat")
    pointer = text.pointer(parts, written=False)
    size = text.size(product(primitive.outer_extents))
    count = text.size(product(primitive.inner_extents)) if reduction.kind == "mean" else ""
    emitter.replaced[node] = f"({reduction.finish('acc', count)})"
    store = emitter.store(emitter.value(primitive.bound.statement.value))
    decode = unflatten(text, primitive.outer, extents, "flat", index)
    building.add(text, f"""{text.signature()} {{
  const int64_t flat = (int64_t)blockIdx.x * 128 + threadIdx.x;
  if (flat < {size}) {{
{indent(decode, 2)}
    {reduction.real} acc = {pointer}[flat];
#pragma unroll
    for (int split = 1; split < SPLIT; ++split) acc = {reduction.merge("acc", f"{pointer}[split * {size} + flat]")};
    {store}
  }}
}}""")  # fmt: skip
    building.launch(text, grid=f"cdiv({product(primitive.outer_extents)}, 128)", block=[128])
