"""Which skill lowers what: the fast design first, plainer ones when a kernel has failed."""

from collections.abc import Collection
from typing import Any

from cuda_harness.agents.llm.offline.lowering.blocked import BLOCKED_IDEAS, lower_blocked
from cuda_harness.agents.llm.offline.lowering.broadcast import lower_broadcast, suits_broadcast
from cuda_harness.agents.llm.offline.lowering.columns import lower_columns, suits_columns
from cuda_harness.agents.llm.offline.lowering.columns_split import SPLIT_IDEAS, lower_split, suits_split
from cuda_harness.agents.llm.offline.lowering.elementwise import in_step, lower_map, lower_threads
from cuda_harness.agents.llm.offline.lowering.full import lower_full
from cuda_harness.agents.llm.offline.lowering.gather import GATHER_IDEAS, lower_gather, suits_gather
from cuda_harness.agents.llm.offline.lowering.held import HELD_IDEAS, lower_held, suits_held
from cuda_harness.agents.llm.offline.lowering.matmul import contraction_of, lower_matmul
from cuda_harness.agents.llm.offline.lowering.plan import Building
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive, primitives
from cuda_harness.agents.llm.offline.lowering.rows import RowProgram, lower_rows
from cuda_harness.agents.llm.offline.lowering.scan import lower_scan, suits_scan
from cuda_harness.agents.llm.offline.lowering.segments import SEGMENT_IDEAS, lower_segments
from cuda_harness.agents.llm.offline.lowering.stream import STREAM_IDEAS, lower_stream
from cuda_harness.agents.llm.offline.lowering.style import CANONICAL, MEANING, Style
from cuda_harness.agents.llm.offline.lowering.tensor import TENSOR_IDEAS, lower_tensor, suits_tensor
from cuda_harness.agents.llm.offline.lowering.transpose import lower_transpose, transposed_read
from cuda_harness.agents.llm.offline.lowering.turned import TURN_IDEAS, lower_turned
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.formula.binding import Problem
from cuda_harness.tools.formula.nodes import Name, accesses, walk
from cuda_harness.tools.formula.parse import FormulaError

PLAIN = Style()
DESIGNS = ("fused", "step by step", "one thread for each element")
"""From fast to plain; each is right for every size, and shares as little as it can with the one before."""


def lower(ir: KernelIR, design: int = 0, style: Style = PLAIN) -> tuple[str, dict[str, Any]]:
    """Return kernel.cu and plan.json for an IR.

    Args:
        ir: The problem; its formulas say everything.
        design: Index into `DESIGNS`.
        style: The ideas of a branch; they apply to the first design.

    Raises:
        FormulaError: If a formula is not of the language or no skill can lower it.
    """
    building = Building(Problem(ir))
    if design == 0:
        _fused(building, style)
    elif design == 1:
        _step_by_step(building)
    else:
        for bound in building.problem.bound:
            lower_threads(building, Primitive(bound, None, building.problem.type_of(bound)))
    if design == 0 and style.ideas:
        building.notes.insert(0, style.note)
    building.notes.insert(0, f"design: {DESIGNS[design]}")
    return building.source(), building.plan()


def branch(ir: KernelIR, idea: str, parent: Style) -> tuple[str, dict[str, Any]]:
    """Return the parent's kernel with one more idea.

    Raises:
        FormulaError: If the idea changes nothing in it but the order of values that are searched anyway.
    """
    before, earlier = lower(ir, 0, parent)
    source, plan = lower(ir, 0, parent.with_idea(idea))
    if idea in parent.ideas or (source, plan["steps"]) == (before, earlier["steps"]):
        msg = f"{idea.replace('_', ' ')} changes nothing in this kernel"
        raise FormulaError(msg)
    return source, plan


def same_change(ir: KernelIR, idea: str, parent: Style) -> str:
    """Return the idea that makes the same kernel and stands before this one, empty when none does.

    Several ideas often come to one kernel (wide loads and a single pass over rows that stay in registers); only the
    first of them answers, so that no two branches write it.
    """
    own, mine = lower(ir, 0, parent.with_idea(idea))
    for name in CANONICAL[: CANONICAL.index(idea)]:
        if name in parent.ideas:
            continue
        source, plan = lower(ir, 0, parent.with_idea(name))
        if (source, plan["steps"]) == (own, mine["steps"]):
            return name
    return ""


def ideas_for(ir: KernelIR, parent: Style, taken: Collection[str]) -> list[str]:
    """Return the ideas outside `taken` that change the parent's kernel, no two of them in the same way."""
    before, earlier = lower(ir, 0, parent)
    seen = [(before, earlier["steps"])]
    found: list[str] = []
    for name in CANONICAL:
        if name in parent.ideas or (name == "launch_bounds" and not parent.ideas):
            continue  # bounds say something about a kernel that has an idea; alone they would bring another kernel
        source, plan = lower(ir, 0, parent.with_idea(name))
        if (source, plan["steps"]) in seen:
            continue
        seen.append((source, plan["steps"]))
        if name not in taken and name in MEANING:
            found.append(name)
    return found


def _fused(building: Building, style: Style) -> None:
    todo = primitives(building.problem)
    place = 0
    while place < len(todo):
        first = todo[place]
        if _is_row_reduction(first):
            program = RowProgram(first.outer_extents, first.inner_extents)
            while place < len(todo) and program.takes(todo[place]):
                program.members.append(todo[place])
                place += 1
            needed = _read_by(todo[place:])
            if style.has(*HELD_IDEAS) and suits_held(building, program):
                lower_held(building, program, needed, style)
            else:
                lower_rows(building, program, needed)
        else:
            _alone(building, first, packed=True, style=style)
            place += 1


def _step_by_step(building: Building) -> None:
    for primitive in primitives(building.problem):
        if primitive.is_scan or contraction_of(primitive) is not None:
            lower_threads(building, primitive)
        elif _is_row_reduction(primitive):
            program = RowProgram(primitive.outer_extents, primitive.inner_extents, [primitive])
            lower_rows(building, program, {primitive.target}, short_rows=False)
        elif transposed_read(primitive) is not None:
            lower_map(building, primitive, packed=False)
        else:
            _alone(building, primitive, packed=False)


def _alone(building: Building, primitive: Primitive, *, packed: bool, style: Style = PLAIN) -> None:
    contraction = contraction_of(primitive)
    read = transposed_read(primitive)
    if suits_scan(primitive) and style.has(*SEGMENT_IDEAS):
        lower_segments(building, primitive)
    elif suits_scan(primitive):
        lower_scan(building, primitive)
    elif primitive.is_scan:
        lower_threads(building, primitive)
    elif (
        contraction is not None
        and style.has(*TENSOR_IDEAS)
        and suits_tensor(building, primitive, contraction)
    ):
        lower_tensor(building, primitive, contraction)
    elif contraction is not None and style.has(*BLOCKED_IDEAS):
        lower_blocked(building, primitive, contraction)
    elif contraction is not None:
        lower_matmul(building, primitive, contraction)
    elif style.has(*GATHER_IDEAS) and suits_gather(building, primitive):
        lower_gather(building, primitive, style)
    elif primitive.reduction is not None and not primitive.outer:
        lower_full(building, primitive)
    elif suits_columns(primitive) and style.has(*SPLIT_IDEAS) and suits_split(building, primitive):
        lower_split(building, primitive, style)
    elif suits_columns(primitive):
        lower_columns(building, primitive)
    elif primitive.reduction is not None:
        lower_threads(building, primitive)
    elif read is not None and style.has(*TURN_IDEAS):
        lower_turned(building, primitive, read, style)
    elif read is not None:
        lower_transpose(building, primitive, read)
    elif style.has(*STREAM_IDEAS) and in_step(building, primitive):
        lower_stream(building, primitive, style)
    elif style.has(*STREAM_IDEAS) and suits_broadcast(building, primitive):
        lower_broadcast(building, primitive, style)
    else:
        lower_map(building, primitive, packed=packed)


def _is_row_reduction(primitive: Primitive) -> bool:
    if primitive.reduction is None or primitive.is_scan or not primitive.outer:
        return False
    return contraction_of(primitive) is None and not suits_columns(primitive)


def _read_by(rest: list[Primitive]) -> set[str]:
    read: set[str] = set()
    for primitive in rest:
        value = primitive.bound.statement.value
        read |= {a.name for a in accesses(value)} | {n.name for n in walk(value) if isinstance(n, Name)}
    return read
