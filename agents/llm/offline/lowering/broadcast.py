"""Maps over arrays of different shapes for bandwidth: packs along the last axis, the other indices worked out once a pack."""

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, KernelText, product
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.style import Style
from cuda_harness.state.names import C_TYPES, ITEM_BYTES
from cuda_harness.tools.formula.nodes import Access, Name, Node, accesses, children, walk


def suits_broadcast(building: Building, primitive: Primitive) -> bool:
    """Return whether every array runs along the last axis of the result or does not depend on it at all."""
    if primitive.reduction is not None or not primitive.outer:
        return False
    last = primitive.outer[-1]
    value = primitive.bound.statement.value
    if any(isinstance(n, Name) and n.name == last for n in _numbers(value)):
        return False
    arrays = building.problem.arrays
    kinds: dict[str, Access] = {}
    for access in accesses(value):
        if _along(access, last) is None or kinds.setdefault(access.name, access) != access:
            return False
        if _along(access, last) and arrays[access.name].shape[-1] != primitive.bound.extents[last]:
            return False
    return any(_along(a, last) for a in kinds.values())


def _along(access: Access, last: str) -> bool | None:
    """Return whether an access runs along the last axis, `None` when it meets it anywhere else."""
    where = [any(isinstance(n, Name) and n.name == last for n in walk(index)) for index in access.indices]
    if not any(where):
        return False
    final = access.indices[-1]
    return True if where[:-1].count(True) == 0 and isinstance(final, Name) else None


def _numbers(node: Node) -> list[Node]:
    if isinstance(node, Access):
        return []
    return [node, *(n for child in children(node) for n in _numbers(child))]


def lower_broadcast(building: Building, primitive: Primitive, style: Style) -> None:
    """Add a map in packs of neighbours along the last axis; single elements where a row is no whole number of packs."""
    building.keep(primitive.target)
    text = building.kernel(f"spread_{primitive.target}")
    target, value, extents = primitive.target, primitive.bound.statement.value, primitive.bound.extents
    last = primitive.outer[-1]
    total = product(primitive.outer_extents)
    index = {v: text.reserve(v) for v in primitive.outer}
    emitter = Emitter(text, primitive.bound, dict(index), primitive.dtype, flat="flat")
    arrays = building.problem.arrays
    dtypes: dict[str, str] = {}
    loads: list[str] = []
    packs: dict[str, str] = {}
    for access in dict.fromkeys(accesses(value)):
        if not _along(access, last):
            continue
        dtypes[access.name] = text.types.get(access.name) or arrays[access.name].dtype
        kind = C_TYPES[dtypes[access.name]]
        own = text.reserve(f"{access.name}_pack")
        pointer = text.pointer(access.name, written=access.name == target)
        loads.append(
            f"const Pack<{kind}> {own} = *reinterpret_cast<const Pack<{kind}>*>(&{pointer}[{emitter.address(access)}]);"
        )
        packs[access.name] = f"{own}.v[k]"
    dtypes[target] = text.types.get(target) or arrays[target].dtype
    inside = Emitter(text, primitive.bound, dict(index), primitive.dtype, flat="flat", loaded=packs)
    result = inside.result(inside.value(value))
    out = text.reserve("out_pack")
    kind = C_TYPES[dtypes[target]]
    pointer = text.pointer(target, written=True)
    vec = max(1, 16 // max(ITEM_BYTES[d] for d in dtypes.values()))
    building.own_pack(text, "spread", f"{vec} if ({extents[last]}) % {vec} == 0 else 1")
    text.macros["NARROW"] = building.define("NARROW", f"1 if ({total}) < 2147483648 else 0")
    size = text.size(total)
    body = [
        *_decode(text, primitive, index), *loads, f"Pack<{kind}> {out};", "#pragma unroll",
        f"for (int k = 0; k < VEC; ++k) {out}.v[k] = {result};",
        f"*reinterpret_cast<Pack<{kind}>*>(&{pointer}[flat]) = {out};",
    ]  # fmt: skip
    bounds = "BLOCK" if style.has("launch_bounds") else ""
    step = "(int64_t)gridDim.x * BLOCK * VEC" if style.has("persistent_grid") else "BLOCK * VEC"
    first = "blockIdx.x" if style.has("persistent_grid") else "blockIdx.x * ITEMS"
    rounds = (
        f"for (int64_t flat = start; flat < {size}; flat += {step}) {{"
        if style.has("persistent_grid")
        else "#pragma unroll\n  for (int t = 0; t < ITEMS; ++t) {\n    const int64_t flat = start + t * BLOCK * VEC;\n    if (flat >= "
        + size
        + ") break;"
    )
    building.add(text, f"""{text.signature(bounds=bounds)} {{
  const int64_t start = ((int64_t){first} * BLOCK + threadIdx.x) * VEC;
  {rounds}
{indent(body, 2)}
  }}
}}""")  # fmt: skip
    block = building.tune("BLOCK", [256, 128, 512])
    width = f"({vec} if ({extents[last]}) % {vec} == 0 else 1)"
    if style.has("persistent_grid"):
        grid = f"min(cdiv({total}, BLOCK*{width}), num_sms*{building.tune('WAVES', [16, 8, 32])})"
    else:
        items = building.tune("ITEMS", [4, 2, 1] if style.has("instruction_parallelism") else [1, 2, 4])
        grid = f"cdiv({total}, BLOCK*{width}*{items})"
    building.launch(text, grid=grid, block=[block])
    building.notes.append(
        "maps move packs along the last axis; what does not run along it is read once a pack"
    )


def _decode(text: KernelText, primitive: Primitive, index: dict[str, str]) -> list[str]:
    """Return C lines for the indices of the element `flat`, by 32-bit division where the array is small enough."""
    lines: list[str] = []
    rest = "flat"
    for place, variable in enumerate(reversed(primitive.outer)):
        own = index[variable]
        if place == len(primitive.outer) - 1:
            lines.append(f"const int64_t {own} = {rest};")
            break
        size = text.size(primitive.bound.extents[variable])
        above = text.reserve(f"{own}_above")
        lines += [
            f"const int64_t {above} = NARROW ? (int64_t)((unsigned){rest} / (unsigned){size}) : {rest} / {size};",
            f"const int64_t {own} = {rest} - {above} * {size};",
        ]
        rest = above
    return lines
