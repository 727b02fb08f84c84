"""Reductions across rows: neighbouring threads own neighbouring columns, a block's rows share the work."""

from cuda_harness.agents.llm.offline.lowering.emit import CHUNK, Emitter, product, unflatten
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import NO_INDEX, Reduction
from cuda_harness.tools.formula.nodes import Name, accesses


def suits_columns(primitive: Primitive) -> bool:
    """Return whether the largest array runs fastest along an axis that is kept."""
    if primitive.reduction is None or primitive.is_scan or not primitive.outer:
        return False
    read = [a for a in accesses(primitive.reduction.body) if a.indices]
    if not read:
        return False
    last = max(read, key=lambda a: len(a.indices)).indices[-1]
    return isinstance(last, Name) and last.name == primitive.outer[-1]


def lower_columns(building: Building, primitive: Primitive) -> None:
    """Add a kernel that reduces along slow axes: a block of 32 columns by DEPTH strands of rows."""
    assert primitive.reduction is not None  # noqa: S101 - the caller asked
    node = primitive.reduction
    building.keep(primitive.target)
    text = building.kernel(f"columns_{primitive.target}")
    reduction = Reduction(node.kind, primitive.dtype)
    total, length = product(primitive.outer_extents), product(primitive.inner_extents)
    index = {v: text.reserve(v) for v in primitive.outer}
    emitter = Emitter(text, primitive.bound, dict(index), primitive.dtype, flat="flat")
    decode = unflatten(text, primitive.outer, primitive.bound.extents, "flat", index)
    inner = {v: text.reserve(v) for v in primitive.inner}
    emitter.index.update(inner)
    inner_lines = unflatten(text, primitive.inner, primitive.bound.extents, "step", inner)
    term = emitter.value(node.body)
    count, size = text.size(length), text.size(total)
    real = reduction.real
    if reduction.is_arg:
        loop = [f"for (int64_t step = threadIdx.y; step < {count}; step += DEPTH) {{", *("  " + d for d in inner_lines),
                f"  const {real} term = {term};",
                f"  if ({reduction.better('term', 'step', 'acc', 'acc_at')}) {{ acc = term; acc_at = step; }}", "}"]  # fmt: skip
    elif reduction.op == "sum":
        loop = [f"for (int64_t start = threadIdx.y; start < {count}; start += DEPTH * {CHUNK}) {{", f"  {real} part = 0;",
                f"  for (int64_t step = start; step < {count} && step < start + DEPTH * {CHUNK}; step += DEPTH) {{",
                *("    " + d for d in inner_lines), f"    part += {term};", "  }", "  acc += part;", "}"]  # fmt: skip
    else:
        loop = [f"for (int64_t step = threadIdx.y; step < {count}; step += DEPTH) {{", *("  " + d for d in inner_lines),
                f"  const {real} term = {term};", f"  acc = {reduction.merge('acc', 'term')};", "}"]  # fmt: skip
    emitter.replaced[node] = "acc_at" if reduction.is_arg else f"({reduction.finish('acc', count)})"
    store = emitter.store(emitter.value(primitive.bound.statement.value))
    if reduction.is_arg:
        shared = f"__shared__ {real} parts[DEPTH][32];\n  __shared__ int64_t parts_at[DEPTH][32];"
        keep = "parts[threadIdx.y][threadIdx.x] = acc;\n  parts_at[threadIdx.y][threadIdx.x] = acc_at;"
        merge = [f"const {real} part = parts[w][threadIdx.x];", "const int64_t part_at = parts_at[w][threadIdx.x];",
                 f"if ({reduction.better('part', 'part_at', 'acc', 'acc_at')}) {{ acc = part; acc_at = part_at; }}"]  # fmt: skip
    else:
        shared, keep = f"__shared__ {real} parts[DEPTH][32];", "parts[threadIdx.y][threadIdx.x] = acc;"
        merge = [f"acc = {reduction.merge('acc', 'parts[w][threadIdx.x]')};"]
    first = [
        f"{real} acc = {reduction.first};",
        *([f"int64_t acc_at = {NO_INDEX};"] if reduction.is_arg else []),
    ]
    building.add(text, f"""{text.signature()} {{
  {shared}
  const int64_t flat = (int64_t)blockIdx.x * 32 + threadIdx.x;
{indent(first, 1)}
  if (flat < {size}) {{
{indent([*decode, *loop], 2)}
  }}
  {keep}
  __syncthreads();
  if (threadIdx.y == 0 && flat < {size}) {{
    for (int w = 1; w < DEPTH; ++w) {{
{indent(merge, 3)}
    }}
{indent([*decode, store], 2)}
  }}
}}""")  # fmt: skip
    depth = building.tune("DEPTH", [16, 8, 32])
    building.launch(text, grid=f"cdiv({total}, 32)", block=[32, depth])
    building.notes.append("reductions across rows read whole rows of 32 columns")
