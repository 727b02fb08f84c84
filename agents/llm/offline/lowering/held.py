"""Row programs for bandwidth: a row is read once, in packs, and stays in registers until all its results are out.

GROUP threads share a row: a warp, or a block of its own. Each holds ITEMS packs of VEC elements, all loaded before the
first is used; VEC is 1 where a row is no whole number of packs. Rows that are too long take the plain kernels of `rows`.
"""

from dataclasses import dataclass, field

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, KernelText, product, unflatten
from cuda_harness.agents.llm.offline.lowering.plan import MAX_BLOCKS, Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import NO_INDEX, Reduction, group_helper
from cuda_harness.agents.llm.offline.lowering.rows import RowProgram, lower_rows, row_type
from cuda_harness.agents.llm.offline.lowering.style import Style
from cuda_harness.state.names import C_TYPES, ITEM_BYTES
from cuda_harness.tools.formula.nodes import (
    Access,
    Name,
    Node,
    Num,
    Reduce,
    accesses,
    children,
    walk,
)

HELD_IDEAS = (
    "online_one_pass", "vector_loads", "instruction_parallelism", "warp_shuffle_reduction", "persistent_grid",
    "launch_bounds", "coalescing",
)  # fmt: skip
MOST_ITEMS = 16
"""Packs a thread may hold: 64 registers of 4-byte elements."""


def suits_held(building: Building, program: RowProgram) -> bool:
    """Return whether every element-wise access runs along the row, and no index is used as a number there."""
    arrays = building.problem.arrays
    full = 0
    for member in program.members:
        order = member.outer[: len(program.outer_extents)]
        inner = member.inner or member.outer[len(order) :]
        if not inner:
            continue
        body = member.reduction.body if member.reduction is not None else member.bound.statement.value
        if any(n.name in inner for n in _numbers(body)):
            return False
        kinds: dict[str, str] = {}
        for access in accesses(body):
            kind = _kind(access, order, inner)
            if kinds.setdefault(access.name, kind) != kind:
                return False
            if kind == "other" or (
                kind != "row" and _shape(arrays[access.name].shape, program, kind) is False
            ):
                return False
            full += kind == "full"
    return full > 0


def _shape(shape: tuple[str, ...], program: RowProgram, kind: str) -> bool:
    whole = (*program.outer_extents, *program.inner_extents)
    return shape == (whole if kind == "full" else program.inner_extents)


def _kind(access: Access, outer: tuple[str, ...], inner: tuple[str, ...]) -> str:
    """Return how an access runs: `full` row by row, `inner` the same for each row, `row` one value a row, or `other`."""
    names = tuple(i.name if isinstance(i, Name) else "" for i in access.indices)
    if names == (*outer, *inner):
        return "full"
    if names == inner:
        return "inner"
    free = {n.name for i in access.indices for n in walk(i) if isinstance(n, Name)}
    return "other" if free & set(inner) else "row"


def _numbers(node: Node) -> list[Name]:
    """Return the names that stand in a formula outside of indices."""
    if isinstance(node, Access):
        return []
    own = [node] if isinstance(node, Name) else []
    return own + [n for child in children(node) for n in _numbers(child)]


@dataclass
class _Row:
    """The kernel of one row program while its body is written."""

    building: Building
    text: KernelText
    program: RowProgram
    needed: set[str]
    size: str
    """C text of the row's length."""
    packs: dict[str, str] = field(default_factory=dict)
    """Array -> C expression of element k of pack t."""
    saved: dict[Node, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """Per-element values that a later member uses again, with the index names that they are written in."""
    lines: list[str] = field(default_factory=list)

    def emitter(self, member: Primitive, names: list[str]) -> Emitter:
        """Return the emitter of a member's values of a whole row."""
        return Emitter(self.text, member.bound, dict(zip(member.outer, names, strict=False)), member.dtype)


def lower_held(building: Building, program: RowProgram, needed: set[str], style: Style) -> None:
    """Add the kernel that holds rows in registers, and the plain ones for the rows that it cannot hold."""
    text = building.kernel("held_" + program.members[-1].target)
    for member in program.members:
        if member.target in needed:
            building.keep(member.target)
    text.types.update({n: d for n, (d, _) in building.scratch.items()})
    rows, cols = product(program.outer_extents), product(program.inner_extents)
    row = _Row(building, text, program, needed, text.size(cols))
    row_size = text.size(rows)
    first = program.members[0]
    names = [text.reserve(v) for v in first.outer]
    row.lines += unflatten(
        text, first.outer, first.bound.extents, "row", dict(zip(first.outer, names, strict=True))
    )
    _load(row)
    for number, member in enumerate(program.members):
        _member(row, member, names, program.members[number + 1 :])
    widest = max(ITEM_BYTES[_dtype(row, a)] for a in [*_full(program), *_whole(program)])
    vec = max(1, 16 // widest)
    group = _group(building, program, vec, style)
    width = f"({vec} if ({cols}) % {vec} == 0 else 1)"
    building.tune("GROUP", group)
    building.own_pack(text, "row", width)
    text.macros["ITEMS"] = building.define(
        "ROW_ITEMS", f"max(1, min(cdiv({cols}, GROUP*{width}), {MOST_ITEMS}))"
    )
    bounds = "GROUP > 32 ? GROUP : 128" if style.has("launch_bounds") else ""
    building.add(text, f"""{text.signature(bounds=bounds)} {{
  constexpr int THREADS = GROUP, ROWS = GROUP > 32 ? 1 : 128 / GROUP;  // a warp a row, or a block a row
  const int rank = threadIdx.x % GROUP;
  for (int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / GROUP; row < {row_size}; row += (int64_t)gridDim.x * ROWS) {{
{indent(row.lines, 2)}
  }}
}}""")  # fmt: skip
    per_block = "(1 if GROUP > 32 else 128 // GROUP)"
    grid = f"min(cdiv({rows}, {per_block}), {MAX_BLOCKS})"
    if style.has("persistent_grid"):
        grid = f"min(cdiv({rows}, {per_block}), num_sms*{building.tune('WAVES', [16, 8, 32, 4])})"
    # Rows that leave most of the group idle are better off with a warp each.
    fits = f"(({cols}) <= {MOST_ITEMS}*GROUP*{width})*(({cols})*8 >= GROUP)"
    building.launch(text, grid=grid, block=["GROUP if GROUP > 32 else 128"], when=fits)
    lower_rows(building, program, needed, otherwise=fits)
    building.notes.append("a row stays in the registers of GROUP threads, ITEMS packs of VEC elements each")


def _group(building: Building, program: RowProgram, vec: int, style: Style) -> list[int]:
    """Return threads a row, the usual number for the target's rows first."""
    cols = building.at_target(product(program.inner_extents))
    items = 8 if style.has("instruction_parallelism") else 4
    best = 32
    while best < 1024 and not style.has("warp_shuffle_reduction") and best * vec * items < cols:
        best *= 2
    while best < 1024 and best * vec * MOST_ITEMS < cols:
        best *= 2
    return [
        best,
        *(g for g in (best // 2, best * 2, best * 4) if 32 <= g <= 1024 and g * vec * MOST_ITEMS >= cols),
    ]


def _full(program: RowProgram) -> list[str]:
    """Return the arrays that are read along the row, inputs first met first."""
    found: list[str] = []
    written = {m.target for m in program.members}
    for member in program.members:
        order = member.outer[: len(program.outer_extents)]
        inner = member.inner or member.outer[len(order) :]
        if inner:
            found += [
                a.name for a in accesses(member.bound.statement.value) if _kind(a, order, inner) == "full"
            ]
    return [n for n in dict.fromkeys(found) if n not in written]


def _whole(program: RowProgram) -> list[str]:
    """Return the arrays that are written along the row."""
    return [m.target for m in program.members if len(m.outer) > len(program.outer_extents)]


def _dtype(row: _Row, array: str) -> str:
    return row.text.types.get(array) or row.building.problem.arrays[array].dtype


def _each(body: list[str]) -> list[str]:
    """Return the loop over the packs that a thread holds."""
    return ["#pragma unroll", "for (int t = 0; t < ITEMS; ++t) {", "  const int64_t col = (int64_t)(t * GROUP + rank) * VEC;",
            *("  " + b for b in body), "}"]  # fmt: skip


def _load(row: _Row) -> None:
    loads: list[str] = []
    for name in _full(row.program):
        kind = C_TYPES[_dtype(row, name)]
        own = row.text.reserve(f"{name}_held")
        pointer = row.text.pointer(name, written=False)
        row.lines.append(f"Pack<{kind}> {own}[ITEMS];")
        loads.append(
            f"{own}[t] = *reinterpret_cast<const Pack<{kind}>*>({pointer} + row * {row.size} + col);"
        )
        row.packs[name] = f"{own}[t].v[k]"
    row.lines += _each([f"if (col < {row.size}) {{", *("  " + x for x in loads), "}"])


def _member(row: _Row, member: Primitive, names: list[str], later: list[Primitive]) -> None:
    emitter = row.emitter(member, names)
    if member.reduction is None and len(member.outer) > len(row.program.outer_extents):
        _map(row, member, emitter, later)
        return
    if member.reduction is not None:
        _reduce(row, member, emitter, later)
    own = row.text.reserve(f"{member.target}_row")
    row.lines.append(f"const {row_type(member)} {own} = {emitter.value(member.bound.statement.value)};")
    kind = row.building.problem.arrays[member.target].kind
    if kind != "intermediate" or member.target in row.needed:
        place = emitter.address(Access(member.target, tuple(Name(v) for v in member.outer)))
        row.lines.append(f"if (rank == 0) {emitter.store_to(member.target, own, place)}")
    row.text.locals_[member.target] = own


def _inside(row: _Row, member: Primitive, emitter: Emitter, body: Node) -> tuple[Emitter, list[str]]:
    """Return the emitter of a value of one element, and the loads of what is the same for each row."""
    order = member.outer[: len(row.program.outer_extents)]
    inner = member.inner or member.outer[len(order) :]
    loads: list[str] = []
    loaded = dict(row.packs)
    for name in dict.fromkeys(a.name for a in accesses(body) if _kind(a, order, inner) == "inner"):
        if name in row.text.locals_:
            continue
        own = row.text.reserve(f"{name}_pack")
        kind = C_TYPES[_dtype(row, name)]
        pointer = row.text.pointer(name, written=False)
        loads.append(f"const Pack<{kind}> {own} = *reinterpret_cast<const Pack<{kind}>*>({pointer} + col);")
        loaded[name] = f"{own}.v[k]"
    inside = Emitter(row.text, member.bound, emitter.index, member.dtype, loaded=loaded)
    own_names = (*member.outer, *member.inner)
    inside.replaced.update({n: v for n, (names, v) in row.saved.items() if names == own_names})
    return inside, loads


def _reduce(row: _Row, member: Primitive, emitter: Emitter, later: list[Primitive]) -> None:
    node = member.reduction
    assert node is not None  # noqa: S101 - the caller asked
    reduction = Reduction(node.kind, member.dtype)
    helper, helper_text = group_helper(reduction)
    row.text.helpers[f"{helper}:{member.dtype}"] = helper_text
    inside, loads = _inside(row, member, emitter, node.body)
    term = inside.value(node.body)
    keep: list[str] = []
    if _used_again(node, member, later):
        own = row.text.reserve(f"{member.target}_terms")
        row.lines.append(f"{reduction.real} {own}[ITEMS][VEC];")
        row.saved[node.body] = ((*member.outer, *member.inner), f"{own}[t][k]")
        keep = [f"  {own}[t][k] = term;"]
    result = row.text.reserve(f"{member.target}_{node.kind}")
    value = row.text.reserve("found")
    row.lines.append(f"{reduction.real} {value} = {reduction.first};")
    if reduction.is_arg:
        at = row.text.reserve("found_at")
        row.lines.append(f"int64_t {at} = {NO_INDEX};")
        take = (
            f"  if ({reduction.better('term', 'col + k', value, at)}) {{ {value} = term; {at} = col + k; }}"
        )
        call = f"{helper}<THREADS>({value}, {at})"
    else:
        take = f"  {value} = {reduction.merge(value, 'term')};"
        call = reduction.finish(f"{helper}<THREADS>({value})", row.size)
    one = ["#pragma unroll", "for (int k = 0; k < VEC; ++k) {", f"  const {reduction.real} term = {term};", *keep, take, "}"]  # fmt: skip
    row.lines += _each([f"if (col < {row.size}) {{", *("  " + x for x in (*loads, *one)), "}"])
    row.lines.append(f"const {'int64_t' if reduction.is_arg else reduction.real} {result} = {call};")
    emitter.replaced[node] = result


def _used_again(node: Reduce, member: Primitive, later: list[Primitive]) -> bool:
    """Whether a later member needs the very terms that are reduced, under the same index names."""
    if isinstance(node.body, Access | Name | Num):
        return False
    names = (*member.outer, *member.inner)
    return any(
        node.body in walk(m.bound.statement.value) and (*m.outer, *m.inner) == names for m in later
    )  # fmt: skip


def _map(row: _Row, member: Primitive, emitter: Emitter, later: list[Primitive]) -> None:
    value = member.bound.statement.value
    inside, loads = _inside(row, member, emitter, value)
    target = member.target
    kind = C_TYPES[_dtype(row, target)]
    own = row.text.reserve(f"{target}_out")
    text = inside.result(inside.value(value))
    stored = row.building.problem.arrays[target].kind != "intermediate" or target in row.needed
    again = any(a.name == target for m in later for a in accesses(m.bound.statement.value))
    place = own
    if again:
        row.lines.append(f"Pack<{kind}> {own}[ITEMS];")
        place = f"{own}[t]"
    body = [] if again else [f"Pack<{kind}> {own};"]
    body += [*loads, "#pragma unroll", f"for (int k = 0; k < VEC; ++k) {place}.v[k] = {text};"]
    if stored:
        pointer = row.text.pointer(target, written=True)
        body.append(f"*reinterpret_cast<Pack<{kind}>*>({pointer} + row * {row.size} + col) = {place};")
    row.lines += _each([f"if (col < {row.size}) {{", *("  " + x for x in body), "}"])
    if again:
        row.packs[target] = f"{own}[t].v[k]"
