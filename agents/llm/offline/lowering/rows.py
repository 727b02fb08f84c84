"""Row programs: a warp or a block a row runs several reductions and maps in turn, keeping each row's values in registers."""

from dataclasses import dataclass, field

from cuda_harness.agents.llm.offline.lowering.emit import (
    C_REAL,
    CHUNK,
    Emitter,
    KernelText,
    product,
    unflatten,
)
from cuda_harness.agents.llm.offline.lowering.plan import MAX_BLOCKS, Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.agents.llm.offline.lowering.reducers import NO_INDEX, Reduction, group_helper
from cuda_harness.tools.formula.nodes import Access, Name, Reduce, accesses

SHORT_ROW = 1024
"""Up to this length a warp takes a row, beyond it a block."""


@dataclass
class RowProgram:
    """Primitives over the same rows, fused into one kernel."""

    outer_extents: tuple[str, ...]
    inner_extents: tuple[str, ...]
    members: list[Primitive] = field(default_factory=list)

    def takes(self, primitive: Primitive) -> bool:
        """Return whether `primitive` may run in the same pass over a row."""
        if primitive.is_scan:
            return False
        rows = primitive.outer_extents == self.outer_extents
        if primitive.reduction is not None:
            if not rows or primitive.inner_extents != self.inner_extents:
                return False
            order: tuple[str, ...] = (*primitive.outer, *primitive.inner)
        elif primitive.outer_extents == (*self.outer_extents, *self.inner_extents) or rows:
            order = primitive.outer
        else:
            return False
        written = {m.target: len(m.outer) for m in self.members}
        for access in accesses(primitive.bound.statement.value):
            if access.name in written and access.indices != tuple(
                Name(v) for v in order[: written[access.name]]
            ):
                return False
        return True


def lower_rows(
    building: Building, program: RowProgram, needed: set[str], *, short_rows: bool = True, otherwise: str = ""
) -> None:
    """Add one kernel for a row program.

    Args:
        building: The plan.
        program: What to run on each row.
        needed: Intermediates that later statements read; the others never leave the registers.
        short_rows: Also give short rows a variant with a warp each.
        otherwise: Condition under which another kernel has done the work.
    """
    text = building.kernel("rows_" + program.members[-1].target)
    for member in program.members:
        whole = len(member.outer) > len(program.outer_extents)
        if member.target in needed or whole:
            building.keep(member.target)
    text.types.update({n: d for n, (d, _) in building.scratch.items()})
    row_names = [text.reserve(f"{v}") for v in program.members[0].outer]
    rows, cols = product(program.outer_extents), product(program.inner_extents)
    row_size, col_size = text.size(rows), text.size(cols)
    outer_vars = program.members[0].outer
    lines = unflatten(
        text,
        outer_vars,
        program.members[0].bound.extents,
        "row",
        dict(zip(outer_vars, row_names, strict=True)),
    )
    for member in program.members:
        lines += _member(building, text, program, member, row_names, col_size, needed)
    body = indent(lines, 2)
    block = building.tune("BLOCK", [256] if otherwise else [256, 128, 512])
    block_kernel = f"""{text.signature()} {{
  constexpr int THREADS = BLOCK;
  const int rank = threadIdx.x;
  for (int64_t row = blockIdx.x; row < {row_size}; row += gridDim.x) {{
{body}
  }}
}}"""
    if not short_rows:
        building.add(text, block_kernel)
        building.launch(text, grid=f"min({rows}, {MAX_BLOCKS})", block=[block])
        return
    short = text.name + "_short"
    building.names.add(short)
    building.add(text, f"""{text.signature(short)} {{
  constexpr int THREADS = 32;
  const int rank = threadIdx.x % 32;
  for (int64_t row = (int64_t)blockIdx.x * (BLOCK / 32) + threadIdx.x / 32; row < {row_size}; row += (int64_t)gridDim.x * (BLOCK / 32)) {{
{body}
  }}
}}

{block_kernel}""")  # fmt: skip
    building.launch(text, name=short, grid=f"min(cdiv({rows}, BLOCK // 32), {MAX_BLOCKS})", block=[block],
                    when=_unless(otherwise, f"{cols} <= {SHORT_ROW}"))  # fmt: skip
    building.launch(
        text,
        grid=f"min({rows}, {MAX_BLOCKS})",
        block=[block],
        when=_unless(otherwise, f"{cols} > {SHORT_ROW}"),
    )
    building.notes.append(f"rows of up to {SHORT_ROW} elements take a warp each, longer ones a block")


def _unless(otherwise: str, condition: str) -> str:
    return f"0 if {otherwise} else {condition}" if otherwise else condition


def _member(
    building: Building, text: KernelText, program: RowProgram, member: Primitive, row_names: list[str], cols: str, needed: set[str],
) -> list[str]:  # fmt: skip
    outer = dict(zip(member.outer, row_names, strict=False))
    emitter = Emitter(text, member.bound, outer, member.dtype)
    if member.reduction is not None:
        lines = _reduce(text, emitter, member, cols)
        value = emitter.value(member.bound.statement.value)
    elif len(member.outer) == len(program.outer_extents):
        lines, value = [], emitter.value(member.bound.statement.value)
    else:
        return _map(text, emitter, member, program, cols)
    own = text.reserve(f"{member.target}_row")
    lines.append(f"const {row_type(member)} {own} = {value};")
    kind = building.problem.arrays[member.target].kind
    if kind != "intermediate" or member.target in needed:
        place = emitter.address(Access(member.target, tuple(Name(v) for v in member.outer)))
        lines.append(f"if (rank == 0) {emitter.store_to(member.target, own, place)}")
    text.locals_[member.target] = own
    return lines


def row_type(member: Primitive) -> str:
    """Return the C type of a row's value: an index stays an index, everything else is as computed."""
    if member.reduction is not None and member.reduction.kind in {"argmax", "argmin"}:
        return "int64_t"
    return C_REAL[member.dtype]


def _inner_loop(text: KernelText, variables: tuple[str, ...], emitter: Emitter, col: str) -> list[str]:
    names = {v: text.reserve(v) for v in variables}
    emitter.index.update(names)
    if len(variables) == 1:
        emitter.index[variables[0]] = col
        return []
    return unflatten(text, variables, emitter.bound.extents, col, names)


def _reduce(text: KernelText, emitter: Emitter, member: Primitive, cols: str) -> list[str]:
    assert member.reduction is not None  # noqa: S101 - the caller asked
    node: Reduce = member.reduction
    reduction = Reduction(node.kind, member.dtype)
    name, helper = group_helper(reduction)
    text.helpers[f"{name}:{member.dtype}"] = helper
    col = text.reserve("c")
    decode = _inner_loop(text, node.variables, emitter, col)
    term = emitter.value(node.body)
    result = text.reserve(f"{member.target}_{node.kind}")
    if reduction.is_arg:
        value, at = text.reserve("value_at"), text.reserve("at")
        lines = [f"{reduction.real} {value} = {reduction.first};", f"int64_t {at} = {NO_INDEX};",
                 f"for (int64_t {col} = rank; {col} < {cols}; {col} += THREADS) {{", *("  " + d for d in decode),
                 f"  const {reduction.real} term = {term};",
                 f"  if ({reduction.better('term', col, value, at)}) {{ {value} = term; {at} = {col}; }}", "}",
                 f"const int64_t {result} = {name}<THREADS>({value}, {at});"]  # fmt: skip
        emitter.replaced[node] = result
        return lines
    total = text.reserve("sum" if reduction.op == "sum" else "found")
    start = text.reserve("c0")
    if reduction.op == "sum":
        part = text.reserve("piece")
        lines = [f"{reduction.real} {total} = 0;",
                 f"for (int64_t {start} = rank; {start} < {cols}; {start} += THREADS * {CHUNK}) {{",
                 f"  {reduction.real} {part} = 0;",
                 f"  for (int64_t {col} = {start}; {col} < {cols} && {col} < {start} + THREADS * {CHUNK}; {col} += THREADS) {{",
                 *("    " + d for d in decode), f"    {part} += {term};", "  }", f"  {total} += {part};", "}"]  # fmt: skip
    else:
        lines = [f"{reduction.real} {total} = {reduction.first};",
                 f"for (int64_t {col} = rank; {col} < {cols}; {col} += THREADS) {{", *("  " + d for d in decode),
                 f"  const {reduction.real} term = {term};", f"  {total} = {reduction.merge(total, 'term')};", "}"]  # fmt: skip
    lines.append(f"const {reduction.real} {result} = {reduction.finish(f'{name}<THREADS>({total})', cols)};")
    emitter.replaced[node] = result
    return lines


def _map(text: KernelText, emitter: Emitter, member: Primitive, program: RowProgram, cols: str) -> list[str]:
    inner = member.outer[len(program.outer_extents) :]
    col = text.reserve("c")
    decode = _inner_loop(text, inner, emitter, col)
    emitter.flat = f"row * {cols} + {col}"
    store = emitter.store(emitter.value(member.bound.statement.value))
    return [
        f"for (int64_t {col} = rank; {col} < {cols}; {col} += THREADS) {{",
        *("  " + d for d in decode),
        f"  {store}",
        "}",
    ]
