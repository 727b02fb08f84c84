"""Maps for bandwidth: several packs a thread, all loads of a thread in flight before its first store."""

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, product
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.style import Style
from cuda_harness.state.names import C_TYPES, ITEM_BYTES
from cuda_harness.tools.formula.nodes import accesses

STREAM_IDEAS = ("vector_loads", "instruction_parallelism", "persistent_grid", "coalescing", "launch_bounds")


def lower_stream(building: Building, primitive: Primitive, style: Style) -> None:
    """Add a map whose arrays run in step: a block moves ITEMS packs a thread, or strides over the work with a bounded grid.

    The elements past the last whole pack are done by the last block, one a thread.
    """
    building.keep(primitive.target)
    text = building.kernel(f"stream_{primitive.target}")
    target, value = primitive.target, primitive.bound.statement.value
    total = product(primitive.outer_extents)
    read = list(dict.fromkeys(a.name for a in accesses(value)))
    arrays = building.problem.arrays
    pointers = {n: text.pointer(n, written=n == target) for n in dict.fromkeys([*read, target])}
    dtypes = {n: text.types.get(n) or arrays[n].dtype for n in pointers}
    single = Emitter(text, primitive.bound, {}, primitive.dtype, flat="flat")
    tail = single.store(single.value(value))
    packs = {n: text.reserve(f"{n}_pack") for n in read}
    loaded = {n: f"{p}[t].v[k]" for n, p in packs.items()}
    several = Emitter(text, primitive.bound, {}, primitive.dtype, loaded=loaded)
    whole = several.result(several.value(value))
    out = text.reserve("out_pack")
    size = text.size(total)

    def pack(name: str) -> str:
        const = "const " if name != target else ""
        return f"reinterpret_cast<{const}Pack<{C_TYPES[dtypes[name]]}>*>({pointers[name]})[place + t * BLOCK]"

    declare = [f"Pack<{C_TYPES[dtypes[n]]}> {p}[ITEMS];" for n, p in packs.items()]
    loads = [f"{p}[t] = {pack(n)};" for n, p in packs.items()]
    compute = [
        f"Pack<{C_TYPES[dtypes[target]]}> {out};", "#pragma unroll",
        f"for (int k = 0; k < VEC; ++k) {out}.v[k] = {whole};",
        f"{pack(target)} = {out};",
    ]  # fmt: skip
    text.helpers["Pack"] = "template <typename T> struct alignas(sizeof(T) * VEC) Pack { T v[VEC]; };"
    persistent = style.has("persistent_grid")
    step = (
        "for (; place < packs; place += (int64_t)gridDim.x * (BLOCK * ITEMS)) "
        if persistent
        else "if (place < packs) "
    )
    bounds = "BLOCK" if style.has("launch_bounds") else ""
    building.add(text, f"""{text.signature(bounds=bounds)} {{
  const int64_t packs = {size} / VEC;
  int64_t place = (int64_t)blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
  {step}{{
{indent(declare, 2)}
    if (place + (ITEMS - 1) * BLOCK < packs) {{
#pragma unroll
      for (int t = 0; t < ITEMS; ++t) {{
{indent(loads, 4)}
      }}
#pragma unroll
      for (int t = 0; t < ITEMS; ++t) {{
{indent(compute, 4)}
      }}
    }} else {{
#pragma unroll
      for (int t = 0; t < ITEMS; ++t) {{
        if (place + t * BLOCK < packs) {{
{indent([*loads, *compute], 5)}
        }}
      }}
    }}
  }}
  const int64_t flat = packs * VEC + threadIdx.x;
  if (blockIdx.x == gridDim.x - 1 && flat < {size}) {tail}
}}""")  # fmt: skip
    widest = max(ITEM_BYTES[d] for d in dtypes.values())
    vec = max(1, 16 // widest)
    building.tune("VEC", [vec])
    ahead = style.has("instruction_parallelism")
    building.tune("ITEMS", [2, 4, 1, 8] if ahead else [1, 2, 4])
    block = building.tune("BLOCK", [256, 512, 128, 1024])
    grid = f"cdiv({total}, BLOCK*VEC*ITEMS)"
    if persistent:
        grid = f"min({grid}, num_sms*{building.tune('WAVES', [8, 4, 16, 32])})"
    building.launch(text, grid=grid, block=[block])
    building.notes.append("a thread loads ITEMS packs of VEC elements before it stores the first")
