"""Reductions to one element for bandwidth: packs in flight, a grid that fits the device, the last block merges the parts."""

from dataclasses import dataclass

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, KernelText, product
from cuda_harness.agents.llm.offline.lowering.full import partials
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import NO_INDEX, Reduction, group_helper
from cuda_harness.agents.llm.offline.lowering.style import Style
from cuda_harness.state.names import C_TYPES, ITEM_BYTES
from cuda_harness.tools.formula.nodes import Access, Name, Node, Reduce, accesses, children

GATHER_IDEAS = (
    "two_stage_reduction", "vector_loads", "instruction_parallelism", "persistent_grid", "warp_shuffle_reduction",
    "kernel_fusion", "launch_bounds", "coalescing",
)  # fmt: skip


def suits_gather(building: Building, primitive: Primitive) -> bool:
    """Return whether every array is read in the order of memory, each element once."""
    node = primitive.reduction
    if node is None or primitive.outer or not any(a.indices for a in accesses(node.body)):
        return False
    own = tuple(Name(v) for v in node.variables)
    arrays = building.problem.arrays
    return not any(isinstance(n, Name) and n.name in node.variables for n in _numbers(node.body)) and all(
        not a.indices or (a.indices == own and arrays[a.name].shape == primitive.inner_extents)
        for a in accesses(node.body)
    )


def _numbers(node: Node) -> list[Node]:
    if isinstance(node, Access):
        return []
    return [node, *(n for child in children(node) for n in _numbers(child))]


@dataclass(frozen=True)
class _Parts:
    """Names of what a block leaves behind, and of what the last one merges."""

    reduction: Reduction
    helper: str
    pointers: list[str]


def lower_gather(building: Building, primitive: Primitive, style: Style) -> None:
    """Add one kernel that reduces everything; a ticket tells the block that finishes last, which merges in a fixed order."""
    node = primitive.reduction
    assert node is not None  # noqa: S101 - the caller asked
    building.keep(primitive.target)
    total = product(primitive.inner_extents)
    vec = max(1, 16 // max(_bytes(building, a.name) for a in accesses(node.body) if a.indices))
    building.tune("VEC", [vec])
    building.tune("ITEMS", [4, 8, 2] if style.has("instruction_parallelism") else [2, 4, 8])
    waves = building.tune("WAVES", [8, 4, 16])
    blocks = f"max(1, min(cdiv({total}, BLOCK*VEC*ITEMS), num_sms*{waves}))"
    reduction = Reduction(node.kind, primitive.dtype)
    scratch = partials(building, primitive, reduction, blocks)
    text = building.kernel(f"gather_{primitive.target}")
    helper, helper_text = group_helper(reduction)
    ticket = f"{text.name}_ticket"
    text.helpers |= {
        f"{helper}:{primitive.dtype}": helper_text,
        "Pack": "template <typename T> struct alignas(sizeof(T) * VEC) Pack { T v[VEC]; };",
        ticket: f"__device__ unsigned int {ticket};  // blocks that are done; the last one sets it back",
    }
    parts = _Parts(reduction, helper, [text.pointer(s, written=True) for s in scratch])
    size = text.size(total)
    body = [
        *_gather(building, text, primitive, node, parts, size),
        *_last(text, primitive, node, parts, size, ticket),
    ]
    bounds = "BLOCK" if style.has("launch_bounds") else ""
    building.add(text, f"{text.signature(bounds=bounds)} {{\n{indent(body, 1)}\n}}")
    building.launch(text, grid=blocks, block=[building.tune("BLOCK", [256, 512, 1024])])
    building.notes.append(
        "a full reduction in one launch: packs in flight, and the last block merges the parts"
    )


def _bytes(building: Building, array: str) -> int:
    return ITEM_BYTES[building.problem.arrays[array].dtype]


def _gather(
    building: Building, text: KernelText, primitive: Primitive, node: Reduce, parts: _Parts, size: str
) -> list[str]:
    """Return the lines after which a block's part is in memory."""
    reduction = parts.reduction
    names = list(dict.fromkeys(a.name for a in accesses(node.body) if a.indices))
    kinds = {n: C_TYPES[text.types.get(n) or building.problem.arrays[n].dtype] for n in names}
    pointers = {n: text.pointer(n, written=False) for n in names}
    packs = {n: text.reserve(f"{n}_pack") for n in names}

    def term(loaded: dict[str, str]) -> str:
        return Emitter(text, primitive.bound, {}, primitive.dtype, loaded=loaded).value(node.body)

    inside = term({n: f"{p}[t].v[k]" for n, p in packs.items()})
    tail = term({n: f"{p}[flat]" for n, p in pointers.items()})
    loads = [
        f"{packs[n]}[t] = reinterpret_cast<const Pack<{kinds[n]}>*>({pointers[n]})[place + t * BLOCK];"
        for n in names
    ]
    add = _take(reduction, inside, "(place + t * BLOCK) * VEC + k", "part")
    one = ["#pragma unroll", "for (int k = 0; k < VEC; ++k) {", *("  " + a for a in add), "}"]
    rounds = [
        *(f"Pack<{kinds[n]}> {p}[ITEMS];" for n, p in packs.items()),
        f"{reduction.real} part = {reduction.first};",
        "#pragma unroll", "for (int t = 0; t < ITEMS; ++t) {", "  if (place + t * BLOCK < packs) {",
        *("    " + x for x in loads), "  }", "}",
        "#pragma unroll", "for (int t = 0; t < ITEMS; ++t) {", "  if (place + t * BLOCK < packs) {",
        *("    " + x for x in one), "  }", "}",
    ]  # fmt: skip
    if not reduction.is_arg:
        rounds.append(f"acc = {reduction.merge('acc', 'part')};")
    else:
        rounds = [r for r in rounds if not r.startswith(f"{reduction.real} part =")]
    lines = [
        f"{reduction.real} acc = {reduction.first};",
        *([f"int64_t acc_at = {NO_INDEX};"] if reduction.is_arg else []),
        f"const int64_t packs = {size} / VEC, stride = (int64_t)gridDim.x * (BLOCK * ITEMS);",
        "for (int64_t place = (int64_t)blockIdx.x * (BLOCK * ITEMS) + threadIdx.x; place < packs; place += stride) {",
        *("  " + r for r in rounds), "}",
        "const int64_t flat = packs * VEC + threadIdx.x;",
        f"if (blockIdx.x == 0 && flat < {size}) {{", *("  " + a for a in _take(reduction, tail, "flat", "acc")), "}",
    ]  # fmt: skip
    if not reduction.is_arg:
        return [*lines, f"acc = {parts.helper}<BLOCK>(acc);", f"if (threadIdx.x == 0) {parts.pointers[0]}[blockIdx.x] = acc;"]  # fmt: skip
    return [
        *lines, f"const int64_t best = {parts.helper}<BLOCK>(acc, acc_at);",
        f"if (acc_at == best && (best != {NO_INDEX} || threadIdx.x == 0)) {{",
        f"  {parts.pointers[0]}[blockIdx.x] = acc;", f"  {parts.pointers[1]}[blockIdx.x] = best;",
        "  __threadfence();  // this thread need not be the one that draws the ticket", "}", "__syncthreads();",
    ]  # fmt: skip


def _take(reduction: Reduction, term: str, at: str, into: str) -> list[str]:
    lines = [f"const {reduction.real} term = {term};"]
    if not reduction.is_arg:
        return [*lines, f"{into} = {reduction.merge(into, 'term')};"]
    return [*lines, f"if ({reduction.better('term', at, 'acc', 'acc_at')}) {{ acc = term; acc_at = {at}; }}"]


def _last(
    text: KernelText, primitive: Primitive, node: Reduce, parts: _Parts, size: str, ticket: str
) -> list[str]:
    """Return the lines by which the block that finishes last merges all parts."""
    reduction = parts.reduction
    emitter = Emitter(text, primitive.bound, {}, primitive.dtype, flat="0")
    values = [f"*(volatile {reduction.real}*)&{parts.pointers[0]}[w]"]
    merge = [f"const {reduction.real} term = {values[0]};"]
    if reduction.is_arg:
        merge += [f"const int64_t term_at = *(volatile int64_t*)&{parts.pointers[1]}[w];",
                  f"if ({reduction.better('term', 'term_at', 'acc', 'acc_at')}) {{ acc = term; acc_at = term_at; }}"]  # fmt: skip
        emitter.replaced[node] = "acc_at"
        whole = f"acc_at = {parts.helper}<BLOCK>(acc, acc_at);"
    else:
        merge.append(f"acc = {reduction.merge('acc', 'term')};")
        emitter.replaced[node] = f"({reduction.finish('acc', size)})"
        whole = f"acc = {parts.helper}<BLOCK>(acc);"
    store = emitter.store(emitter.value(primitive.bound.statement.value))
    return [
        "__shared__ bool last;",
        "if (threadIdx.x == 0) {", "  __threadfence();  // the part is seen by all before the ticket is drawn",
        f"  last = atomicAdd(&{ticket}, 1u) == gridDim.x - 1;", "}", "__syncthreads();", "if (!last) return;",
        "__threadfence();", f"acc = {reduction.first};", *([f"acc_at = {NO_INDEX};"] if reduction.is_arg else []),
        "for (int w = threadIdx.x; w < (int)gridDim.x; w += BLOCK) {", *("  " + m for m in merge), "}", whole,
        "if (threadIdx.x == 0) {", f"  {store}", f"  {ticket} = 0;", "}",
    ]  # fmt: skip
