"""Transposes for bandwidth: larger tiles, several rows a thread, all loads of a thread in flight before its first store."""

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, product, unflatten
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.style import Style
from cuda_harness.state.names import C_TYPES, ITEM_BYTES
from cuda_harness.tools.formula.nodes import Access, Name

TURN_IDEAS = (
    "transposing_through_shared", "bank_conflict_padding", "vector_loads", "instruction_parallelism", "shared_tiling",
    "coalescing", "launch_bounds",
)  # fmt: skip


def lower_turned(building: Building, primitive: Primitive, read: Access, style: Style) -> None:
    """Add a kernel that turns EDGE x EDGE tiles with 32-bit tile arithmetic; neighbouring blocks write neighbouring tiles.

    Args:
        building: The plan.
        primitive: The statement, whose output's fastest axis is another one than the input's.
        read: The access that is turned; others are read where the output is written.
        style: What sets the usual tile.
    """
    building.keep(primitive.target)
    text = building.kernel(f"turn_{primitive.target}")
    extents = primitive.bound.extents
    across = next(i.name for i in reversed(read.indices) if isinstance(i, Name))
    along = primitive.outer[-1]
    batch = tuple(v for v in primitive.outer if v not in {across, along})
    index = {v: text.reserve(v) for v in primitive.outer}
    i_along, i_across = index[along], index[across]
    size_across, size_along = text.size(extents[across]), text.size(extents[along])
    kind = C_TYPES[text.types.get(read.name) or building.problem.arrays[read.name].dtype]
    emitter = Emitter(text, primitive.bound, index, primitive.dtype)
    source = f"{text.pointer(read.name, written=False)}[{emitter.address(read)}]"
    tile = {read.name: "tile[threadIdx.x + c][threadIdx.y + r]"}
    emitter.replaced[read] = Emitter(text, primitive.bound, index, primitive.dtype, loaded=tile).value(read)
    store = emitter.store(emitter.value(primitive.bound.statement.value))
    decode = unflatten(text, batch, extents, "batch", index) if batch else []
    lines = [f"const unsigned tiles_across = ({size_across} + EDGE - 1) / EDGE, tiles_along = ({size_along} + EDGE - 1) / EDGE;",
             "const unsigned place = blockIdx.x % (tiles_across * tiles_along);" if batch else "const unsigned place = blockIdx.x;",
             *(["const int64_t batch = blockIdx.x / (tiles_across * tiles_along);"] if batch else []), *decode,
             "const int64_t first_across = (int64_t)(place / tiles_along) * EDGE, first_along = (int64_t)(place % tiles_along) * EDGE;"]  # fmt: skip
    bounds = "32 * STRANDS" if style.has("launch_bounds") else ""
    building.add(text, f"""{text.signature(bounds=bounds)} {{
  __shared__ {kind} tile[EDGE][EDGE + 1];
{indent(lines, 1)}
  {kind} held[EDGE / STRANDS][EDGE / 32];
#pragma unroll
  for (int r = 0; r < EDGE; r += STRANDS) {{
#pragma unroll
    for (int c = 0; c < EDGE; c += 32) {{
      const int64_t {i_along} = first_along + threadIdx.y + r, {i_across} = first_across + threadIdx.x + c;
      if ({i_along} < {size_along} && {i_across} < {size_across}) held[r / STRANDS][c / 32] = {source};
    }}
  }}
#pragma unroll
  for (int r = 0; r < EDGE; r += STRANDS) {{
#pragma unroll
    for (int c = 0; c < EDGE; c += 32) {{
      const int64_t {i_along} = first_along + threadIdx.y + r, {i_across} = first_across + threadIdx.x + c;
      if ({i_along} < {size_along} && {i_across} < {size_across}) tile[threadIdx.y + r][threadIdx.x + c] = held[r / STRANDS][c / 32];
    }}
  }}
  __syncthreads();
#pragma unroll
  for (int r = 0; r < EDGE; r += STRANDS) {{
#pragma unroll
    for (int c = 0; c < EDGE; c += 32) {{
      const int64_t {i_along} = first_along + threadIdx.x + c, {i_across} = first_across + threadIdx.y + r;
      if ({i_along} < {size_along} && {i_across} < {size_across}) {store}
    }}
  }}
}}""")  # fmt: skip
    narrow = ITEM_BYTES[building.problem.arrays[read.name].dtype] <= 2
    building.tune(
        "EDGE", [64, 32] if narrow or style.has("instruction_parallelism", "shared_tiling") else [32, 64]
    )
    strands = building.tune("STRANDS", [4, 8, 16])
    grid = f"cdiv({extents[across]}, EDGE)*cdiv({extents[along]}, EDGE)"
    if batch:
        grid += f"*({product([extents[v] for v in batch])})"
    building.launch(text, grid=grid, block=[32, strands])
    building.notes.append(
        "tiles of EDGE x EDGE go through registers into padded shared memory and out turned"
    )
