"""What device code may not contain, read from the parsed source; hints for the run-time checks, which decide."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Launch, LaunchPlan, PlanStep, Repeat, While
from cuda_harness.state.names import FLOATS
from cuda_harness.state.results import InstructionMix
from cuda_harness.tools.toolchain.directives import Remark
from cuda_harness.tools.toolchain.source import SourceFacts

_ADDING = frozenset({"atomicAdd", "atomicSub", "atomicAdd_block", "atomicAdd_system"})
_DECLARING = frozenset({"declaration", "parameter_declaration", "optional_parameter_declaration"})
_FLOAT_WORDS = frozenset(
    {"float", "double", "half", "__half", "__nv_bfloat16", "half2", "__half2", "float2", "float4"}
)
_ORDERING = frozenset(
    {
        "volatile",
        "__threadfence",
        "__threadfence_system",
        "__threadfence_block",
        "atomic_ref",
        "atomic",
        "barrier",
    }
)
_NARROW_WORDS = re.compile(r"half|fp16|float16|bf16|bfloat|tf32|tensorfloat|fp8|e4m3|e5m2|16[ -]bit")
_CLOCKS = frozenset({"clock", "clock64", "__globaltimer", "globaltimer"})


@dataclass(frozen=True)
class PolicyFinding:
    """A refusal at a line, or a hint when `refused` is false."""

    refused: bool
    line: int | None
    message: str


def review(facts: SourceFacts, plan: LaunchPlan) -> list[PolicyFinding]:
    """Return refusals first, then hints."""
    found = [PolicyFinding(True, v.line, v.text) for v in facts.violations]
    own = sorted(
        n for n in facts.identifiers if n.startswith(("sim_", "__tsan_", "__ubsan_", "CUDA_HARNESS"))
    )
    if own:
        found.append(PolicyFinding(True, None, f"the name {own[0]!r} belongs to the harness; choose another"))
    for symbol in facts.globals:
        if symbol.space in {"device", "static"}:
            found.append(
                PolicyFinding(
                    False,
                    symbol.line,
                    f"device state {symbol.name!r} outlives a call; repeated calls are checked",
                )
            )
    clocks = sorted(facts.identifiers & _CLOCKS)
    if clocks:
        found.append(
            PolicyFinding(False, None, f"reads a clock ({clocks[0]}); results must not depend on it")
        )
    launched = set(launched_kernels(plan.steps))
    unused = [k.name for k in facts.kernels if k.name not in launched]
    if unused:
        found.append(PolicyFinding(False, None, f"kernel {unused[0]!r} is never launched by the plan"))
    return found


def launched_kernels(steps: tuple[PlanStep, ...]) -> list[str]:
    """Return the kernels that a plan names, in order."""
    return [launch.launch for launch in launches(steps)]


def launches(steps: tuple[PlanStep, ...]) -> Iterator[Launch]:
    """Yield the launches of a plan, those inside loops once."""
    for step in steps:
        if isinstance(step, Launch):
            yield step
        elif isinstance(step, (Repeat, While)):
            yield from launches(step.steps)


def order_may_matter(mixes: tuple[InstructionMix, ...], plan: LaunchPlan, facts: SourceFacts) -> bool:
    """Return whether something in a kernel explains results that depend on the order of threads; true where unknown."""
    launched = set(launched_kernels(plan.steps))
    counted = [m for m in mixes if m.kernel in launched]
    return not counted or any(m.atomics for m in counted) or bool(facts.identifiers & _ORDERING or facts.asm)


def lowered_precision(
    ir: KernelIR, plan: LaunchPlan, mixes: tuple[InstructionMix, ...]
) -> tuple[str, dict[str, Any]] | None:
    """Return where a kernel computes in fewer bits than `strict` float32 data allow, with the instruction as evidence.

    Silent where the IR itself has narrower types or speaks of them: there such arithmetic may be what is asked for.
    """
    declared = (
        {t.dtype for t in ir.tensors} | {i.dtype for i in ir.intermediates} | {s.dtype for s in ir.scalars}
    )
    types = declared & FLOATS
    words = " ".join(
        (ir.name, ir.summary, *(f"{s.op} {s.formula}" for s in ir.steps), *ir.edge_rules)
    ).lower()
    if (
        ir.numerics.precision != "strict"
        or ir.numerics.fast_math
        or not types
        or types - {"float32", "float64"}
    ):
        return None
    if _NARROW_WORDS.search(words):
        return None
    launched = set(launched_kernels(plan.steps))
    for mix in mixes:
        if mix.kernel in launched and mix.low_precision:
            found = mix.low_precision[0]
            where = f"line {found.line}: " if found.line else ""
            text = (
                f"{where}{mix.kernel!r} computes by {found.instruction} ({found.count} in its code), fewer bits than the IR's "
                f"`strict` {'/'.join(sorted(types))} arithmetic allows"
            )
            evidence: dict[str, Any] = {"instruction": found.instruction, "count": found.count}
            return text, {**evidence, "line": found.line} if found.line else evidence
    return None


def float_atomics(source: str, facts: SourceFacts) -> list[Remark]:
    """Return where floats are summed by atomics: the result depends on the order of threads.

    Types are those of kernel parameters and of arrays declared in the text; an address of unknown type is left out.
    """
    if not facts.identifiers & _ADDING:
        return []
    floats = {p.name for k in facts.kernels for p in k.parameters if p.dtype in FLOATS}
    data = source.encode("utf-8", "replace")
    nodes = list(_nodes(_parser().parse(data).root_node))

    def text(node: Any) -> str:  # noqa: ANN401 - tree_sitter.Node
        return data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    for node in nodes:
        kind = node.child_by_field_name("type") if node.type in _DECLARING else None
        if kind is not None and text(kind) in _FLOAT_WORDS:
            floats |= {text(n) for n in _nodes(node) if n.type == "identifier"}
    found = []
    for node in nodes:
        called = node.child_by_field_name("function") if node.type == "call_expression" else None
        if called is None or text(called) not in _ADDING:
            continue
        arguments = node.child_by_field_name("arguments")
        address = arguments.named_children[0] if arguments is not None and arguments.named_children else None
        name = (
            next((text(n) for n in _nodes(address) if n.type == "identifier"), "")
            if address is not None
            else ""
        )
        if name in floats:
            line = node.start_point[0] + 1
            found.append(
                Remark(line, f"{text(called)} on the floats of {name!r} sums in the order of threads")
            )
    return found


@cache
def _parser() -> Any:  # noqa: ANN401 - tree_sitter has no public protocol
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _nodes(root: Any) -> Iterator[Any]:  # noqa: ANN401 - tree_sitter.Node
    """Yield `root` and what is below it, in the order of the text."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))
