"""Reductions to one element: blocks leave partial results, one block merges them in a fixed order."""

from cuda_harness.agents.llm.offline.lowering.emit import C_REAL, CHUNK, Emitter, product, unflatten
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import NO_INDEX, Reduction, group_helper

PARTS = 1024
"""The most partial results: enough blocks to fill a GPU, few enough for one block to merge."""


def lower_full(building: Building, primitive: Primitive) -> None:
    """Add two kernels that reduce everything to one element, without atomics."""
    assert primitive.reduction is not None  # noqa: S101 - the caller asked
    node = primitive.reduction
    building.keep(primitive.target)
    reduction = Reduction(node.kind, primitive.dtype)
    total = product(primitive.inner_extents)
    parts = f"max(1, min(cdiv({total}, BLOCK*8), {PARTS}))"
    text = building.kernel(f"partial_{primitive.target}")
    name, helper = group_helper(reduction)
    text.helpers[f"{name}:{primitive.dtype}"] = helper
    names = {v: text.reserve(v) for v in primitive.inner}
    emitter = Emitter(text, primitive.bound, dict(names), primitive.dtype)
    decode = unflatten(text, primitive.inner, primitive.bound.extents, "flat", names)
    term = emitter.value(node.body)
    size = text.size(total)
    scratch = partials(building, primitive, reduction, parts)
    text.types.update({n: d for n, (d, _) in building.scratch.items()})
    pointers = [text.pointer(s, written=True) for s in scratch]
    real = reduction.real
    head = "const int64_t stride = (int64_t)gridDim.x * BLOCK, start = (int64_t)blockIdx.x * BLOCK + threadIdx.x;"
    if reduction.is_arg:
        loop = [f"{real} value = {reduction.first};", f"int64_t at = {NO_INDEX};",
                f"for (int64_t flat = start; flat < {size}; flat += stride) {{", *("  " + d for d in decode),
                f"  const {real} term = {term};",
                f"  if ({reduction.better('term', 'flat', 'value', 'at')}) {{ value = term; at = flat; }}", "}",
                f"at = {name}<BLOCK>(value, at);",
                f"if (threadIdx.x == 0) {pointers[1]}[blockIdx.x] = at;",
                f"if (threadIdx.x == 0 && at < {size}) {{", "  const int64_t flat = at;", *("  " + d for d in decode),
                f"  {pointers[0]}[blockIdx.x] = {term};", "} else if (threadIdx.x == 0) {",
                f"  {pointers[0]}[blockIdx.x] = {reduction.first};", "}"]  # fmt: skip
    elif reduction.op == "sum":
        loop = [f"{real} acc = 0;", f"for (int64_t base = start; base < {size}; base += stride * {CHUNK}) {{",
                f"  {real} part = 0;",
                f"  for (int64_t flat = base; flat < {size} && flat < base + stride * {CHUNK}; flat += stride) {{",
                *("    " + d for d in decode), f"    part += {term};", "  }", "  acc += part;", "}",
                f"acc = {name}<BLOCK>(acc);", f"if (threadIdx.x == 0) {pointers[0]}[blockIdx.x] = acc;"]  # fmt: skip
    else:
        loop = [f"{real} acc = {reduction.first};", f"for (int64_t flat = start; flat < {size}; flat += stride) {{",
                *("  " + d for d in decode), f"  const {real} term = {term};", f"  acc = {reduction.merge('acc', 'term')};",
                "}", f"acc = {name}<BLOCK>(acc);", f"if (threadIdx.x == 0) {pointers[0]}[blockIdx.x] = acc;"]  # fmt: skip
    building.add(text, f"{text.signature()} {{\n  {head}\n{indent(loop, 1)}\n}}")
    block = building.tune("BLOCK", [256, 128, 512])
    building.launch(text, grid=parts, block=[block])
    _merge(building, primitive, reduction, scratch, parts, total)
    building.notes.append(
        "a full reduction leaves one partial result a block and merges them in a second launch"
    )


def partials(building: Building, primitive: Primitive, reduction: Reduction, parts: str) -> list[str]:
    """Declare the scratch buffers of the partial results, and of their places where an index is wanted."""
    taken = {*building.problem.arrays, *building.problem.scalars, *building.problem.dims, *building.scratch}

    def fresh(wanted: str) -> str:
        while wanted in taken:
            wanted += "_"
        taken.add(wanted)
        return wanted

    value = fresh(f"{primitive.target}_parts")
    building.scratch[value] = (primitive.dtype, [parts])
    if not reduction.is_arg:
        return [value]
    place = fresh(f"{primitive.target}_places")
    building.scratch[place] = ("int64", [parts])
    return [value, place]


def _merge(
    building: Building, primitive: Primitive, reduction: Reduction, scratch: list[str], parts: str, total: str
) -> None:
    node = primitive.reduction
    assert node is not None  # noqa: S101 - the caller asked
    text = building.kernel(f"merge_{primitive.target}")
    name, helper = group_helper(reduction)
    text.helpers[f"{name}:{primitive.dtype}"] = helper
    pointers = [text.pointer(s, written=False) for s in scratch]
    count = text.size(parts)
    emitter = Emitter(text, primitive.bound, {}, primitive.dtype, flat="0")
    real = C_REAL[primitive.dtype]
    if reduction.is_arg:
        lines = [f"{real} value = {reduction.first};", f"int64_t at = {NO_INDEX};",
                 f"for (int64_t part = threadIdx.x; part < {count}; part += BLOCK) {{",
                 f"  const {real} term = {pointers[0]}[part];", f"  const int64_t term_at = {pointers[1]}[part];",
                 f"  if ({reduction.better('term', 'term_at', 'value', 'at')}) {{ value = term; at = term_at; }}", "}",
                 f"at = {name}<BLOCK>(value, at);"]  # fmt: skip
        emitter.replaced[node] = "at"
    else:
        lines = [f"{real} acc = {reduction.first};",
                 f"for (int64_t part = threadIdx.x; part < {count}; part += BLOCK) acc = {reduction.merge('acc', f'{pointers[0]}[part]')};",
                 f"acc = {name}<BLOCK>(acc);"]  # fmt: skip
        of = text.size(total) if reduction.kind == "mean" else ""
        emitter.replaced[node] = f"({reduction.finish('acc', of)})"
    lines.append(f"if (threadIdx.x == 0) {emitter.store(emitter.value(primitive.bound.statement.value))}")
    building.add(text, f"{text.signature()} {{\n{indent(lines, 1)}\n}}")
    building.launch(text, grid="1", block=["BLOCK"])
