"""Transposes: tiles through shared memory, so that both sides move along their fastest axis."""

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, product, unflatten
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.tools.formula.nodes import Access, Name, accesses


def transposed_read(primitive: Primitive) -> Access | None:
    """Return the one access whose fastest axis is another one than the output's, `None` when this is no transpose."""
    if primitive.reduction is not None or len(primitive.outer) < 2:
        return None
    fastest = primitive.outer[-1]
    found: list[Access] = []
    for access in accesses(primitive.bound.statement.value):
        names = [i.name if isinstance(i, Name) else "" for i in access.indices]
        if not names or names[-1] == fastest or fastest not in names:
            continue
        if sorted(names) != sorted(primitive.outer):
            return None
        found.append(access)
    return found[0] if len(set(found)) == 1 else None


def lower_transpose(building: Building, primitive: Primitive, read: Access) -> None:
    """Add a kernel that turns 32 x 32 tiles; the tile's rows are one element longer, against bank conflicts."""
    building.keep(primitive.target)
    text = building.kernel(f"transpose_{primitive.target}")
    extents = primitive.bound.extents
    across = next(i.name for i in reversed(read.indices) if isinstance(i, Name))
    along = primitive.outer[-1]
    batch = tuple(v for v in primitive.outer if v not in {across, along})
    index = {v: text.reserve(v) for v in primitive.outer}
    size_across, size_along = text.size(extents[across]), text.size(extents[along])
    tiles_across, tiles_along = (
        text.size(f"cdiv({extents[across]}, 32)"),
        text.size(f"cdiv({extents[along]}, 32)"),
    )
    emitter = Emitter(text, primitive.bound, index, primitive.dtype)
    value = emitter.value(read)
    emitter.replaced[read] = "tile[threadIdx.x][threadIdx.y + s]"
    store = emitter.store(emitter.value(primitive.bound.statement.value))
    decode = unflatten(text, batch, extents, "batch", index) if batch else []
    lines = [f"const int64_t place = blockIdx.x % ({tiles_across} * {tiles_along});",
             *([f"const int64_t batch = blockIdx.x / ({tiles_across} * {tiles_along});"] if batch else []), *decode,
             f"const int64_t first_across = place / {tiles_along} * 32, first_along = place % {tiles_along} * 32;"]  # fmt: skip
    building.add(text, f"""{text.signature()} {{
  __shared__ {emitter.real} tile[32][33];
{indent(lines, 1)}
  for (int s = 0; s < 32; s += STRANDS) {{
    const int64_t {index[along]} = first_along + threadIdx.y + s, {index[across]} = first_across + threadIdx.x;
    if ({index[along]} < {size_along} && {index[across]} < {size_across}) tile[threadIdx.y + s][threadIdx.x] = {value};
  }}
  __syncthreads();
  for (int s = 0; s < 32; s += STRANDS) {{
    const int64_t {index[along]} = first_along + threadIdx.x, {index[across]} = first_across + threadIdx.y + s;
    if ({index[along]} < {size_along} && {index[across]} < {size_across}) {store}
  }}
}}""")  # fmt: skip
    strands = building.tune("STRANDS", [8, 16, 4])
    grid = f"cdiv({extents[across]}, 32)*cdiv({extents[along]}, 32)"
    if batch:
        grid += f"*({product([extents[v] for v in batch])})"
    building.launch(text, grid=grid, block=[32, strands])
    building.notes.append("transposes go through 32 x 32 tiles in shared memory")
