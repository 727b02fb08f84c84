"""Maps: one output element a thread, in packs where all arrays run in step."""

from cuda_harness.agents.llm.offline.lowering.emit import (
    Emitter,
    product,
    unflatten,
)
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent, striding_grid
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import NO_INDEX, Reduction
from cuda_harness.state.names import C_TYPES, ITEM_BYTES
from cuda_harness.tools.formula.nodes import (
    Access,
    Name,
    Node,
    Reduce,
    accesses,
    walk,
)


def lower_map(building: Building, primitive: Primitive, *, packed: bool = True) -> None:
    """Add a kernel that writes one element of the left side a thread."""
    if packed and in_step(building, primitive):
        _lower_packed(building, primitive)
        return
    building.keep(primitive.target)
    text = building.kernel(f"map_{primitive.target}")
    total = product(primitive.outer_extents)
    emitter = Emitter(text, primitive.bound, {}, primitive.dtype, flat="flat")
    index = {v: text.reserve(v) for v in primitive.outer}
    emitter.index = index
    body = emitter.store(emitter.value(primitive.bound.statement.value))
    used = [v for v in primitive.outer if index[v] in _words(body)]
    lines = unflatten(text, primitive.outer, primitive.bound.extents, "flat", index) if used else []
    size = text.size(total)
    building.add(text, f"""{text.signature()} {{
  const int64_t stride = (int64_t)gridDim.x * BLOCK;
  for (int64_t flat = (int64_t)blockIdx.x * BLOCK + threadIdx.x; flat < {size}; flat += stride) {{
{indent([*lines, body], 2)}
  }}
}}""")  # fmt: skip
    building.launch(text, grid=striding_grid(total, "BLOCK"), block=[building.tune("BLOCK", [256, 128, 512])])


def _words(text: str) -> set[str]:
    import re

    return set(re.findall(r"[A-Za-z_]\w*", text))


def in_step(building: Building, primitive: Primitive) -> bool:
    """Whether every array is read at the very element that is written, and is worth packing."""
    own = tuple(Name(v) for v in primitive.outer)
    shape = primitive.bound.shape
    value = primitive.bound.statement.value
    if not own or any(
        isinstance(n, Name) and n.name in primitive.bound.extents for n in _outside_indices(value)
    ):
        return False
    arrays = building.problem.arrays
    return all(a.indices == own and arrays[a.name].shape == shape for a in accesses(value))


def _outside_indices(node: Node) -> list[Node]:
    from cuda_harness.tools.formula.nodes import children

    if isinstance(node, Access):
        return []
    return [node, *(n for child in children(node) for n in _outside_indices(child))]


def _lower_packed(building: Building, primitive: Primitive) -> None:
    """Add a kernel that moves VEC elements at once: whole packs first, the tail one by one."""
    building.keep(primitive.target)
    text = building.kernel(f"map_{primitive.target}")
    target = primitive.target
    total = product(primitive.outer_extents)
    value = primitive.bound.statement.value
    read = list(dict.fromkeys(a.name for a in accesses(value)))
    arrays = building.problem.arrays
    pointers = {n: text.pointer(n, written=n == target) for n in dict.fromkeys([*read, target])}
    ctype = {n: C_TYPES[text.types.get(n) or arrays[n].dtype] for n in pointers}
    single = Emitter(text, primitive.bound, {}, primitive.dtype, flat="flat")
    tail = single.store(single.value(value))
    packs = {n: text.reserve(f"{n}_pack") for n in read}
    several = Emitter(
        text, primitive.bound, {}, primitive.dtype, loaded={n: f"{p}.v[k]" for n, p in packs.items()}
    )
    whole = several.result(several.value(value))
    out = text.reserve("out_pack")
    loads = [
        f"const Pack<{ctype[n]}> {p} = *reinterpret_cast<const Pack<{ctype[n]}>*>({pointers[n]} + base);"
        for n, p in packs.items()
    ]
    size = text.size(total)
    text.helpers["Pack"] = "template <typename T> struct alignas(sizeof(T) * VEC) Pack { T v[VEC]; };"
    building.add(text, f"""{text.signature()} {{
  const int64_t stride = (int64_t)gridDim.x * BLOCK * VEC;
  for (int64_t base = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * VEC; base < {size}; base += stride) {{
    if (base + VEC <= {size}) {{
{indent(loads, 3)}
      Pack<{ctype[target]}> {out};
#pragma unroll
      for (int k = 0; k < VEC; ++k) {out}.v[k] = {whole};
      *reinterpret_cast<Pack<{ctype[target]}>*>({pointers[target]} + base) = {out};
    }} else {{
      for (int64_t flat = base; flat < {size}; ++flat) {tail}
    }}
  }}
}}""")  # fmt: skip
    widest = max(ITEM_BYTES[text.types.get(n) or arrays[n].dtype] for n in pointers)
    vec = max(1, 16 // widest)
    building.tune("VEC", [vec, *(v for v in (1, vec // 2) if 0 < v < vec)])
    block = building.tune("BLOCK", [256, 128, 512])
    building.launch(text, grid=striding_grid(total, "BLOCK*VEC"), block=[block])
    building.notes.append("maps move whole packs of VEC elements, the tail one by one")


def lower_threads(building: Building, primitive: Primitive) -> None:
    """Add a kernel with one thread for each element of the left side, which runs its reductions in loops of its own."""
    building.keep(primitive.target)
    text = building.kernel(f"each_{primitive.target}")
    total = product(primitive.outer_extents)
    index = {v: text.reserve(v) for v in primitive.outer}
    emitter = Emitter(text, primitive.bound, dict(index), primitive.dtype, flat="flat")
    size = text.size(total)
    lines = unflatten(text, primitive.outer, primitive.bound.extents, "flat", index)
    for node in walk(primitive.bound.statement.value):
        if isinstance(node, Reduce):
            emitter.replaced[node] = thread_loops(emitter, node, lines)
    lines.append(emitter.store(emitter.value(primitive.bound.statement.value)))
    building.add(text, f"""{text.signature()} {{
  const int64_t stride = (int64_t)gridDim.x * BLOCK;
  for (int64_t flat = (int64_t)blockIdx.x * BLOCK + threadIdx.x; flat < {size}; flat += stride) {{
{indent(lines, 2)}
  }}
}}""")  # fmt: skip
    building.launch(text, grid=striding_grid(total, "BLOCK"), block=[building.tune("BLOCK", [128, 64, 256])])


def thread_loops(emitter: Emitter, node: Reduce, lines: list[str]) -> str:
    """Add the loops of one reduction by one thread to `lines`, and return the variable that holds its result.

    A sum is kept as a running value and its rounding error (Neumaier 1974), so one long chain loses nothing.
    """
    reduction = Reduction(node.kind, emitter.dtype)
    text = emitter.text
    own = text.reserve("result")
    at = text.reserve("result_at")
    error = text.reserve("lost")
    sums = reduction.op == "sum" and emitter.dtype != "int64"
    lines.append(f"{reduction.real} {own} = {reduction.first};")
    if reduction.is_arg:
        lines.append(f"int64_t {at} = {NO_INDEX};")
    if sums:
        lines.append(f"{reduction.real} {error} = 0;")
    sizes = []
    for variable in node.variables:
        emitter.index[variable] = text.reserve(variable)
        size = text.size(emitter.bound.extents[variable])
        sizes.append(size)
        i = emitter.index[variable]
        end = f"{i} < {size}"
        if node.bound is not None:
            end = f"{i} {node.bound[0]} {emitter.index[node.bound[1]]}"
        lines.append(f"for (int64_t {i} = 0; {end}; ++{i}) {{")
    term = emitter.value(node.body)
    if reduction.is_arg:
        place = ""
        for variable, size in zip(node.variables, sizes, strict=True):
            place = f"({place}) * {size} + {emitter.index[variable]}" if place else emitter.index[variable]
        lines += [f"  const {reduction.real} term = {term};",
                  f"  if ({reduction.better('term', place, own, at)}) {{ {own} = term; {at} = {place}; }}"]  # fmt: skip
    elif sums:
        suffix = "f" if emitter.dtype == "float32" else ""
        lines += [f"  const {reduction.real} term = {term}, sum = {own} + term;",
                  f"  {error} += fabs{suffix}({own}) >= fabs{suffix}(term) ? ({own} - sum) + term : (term - sum) + {own};",
                  f"  {own} = sum;"]  # fmt: skip
    else:
        lines += [f"  const {reduction.real} term = {term};", f"  {own} = {reduction.merge(own, 'term')};"]
    lines += ["}"] * len(node.variables)
    if reduction.is_arg:
        return at
    if sums:
        lines.append(f"{own} += {error};")
    return f"({reduction.finish(own, ' * '.join(sizes))})"
