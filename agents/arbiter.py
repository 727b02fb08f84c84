"""The arbiter: which of two references departs from the IR, when they disagree with each other or with its formulas."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cuda_harness.agents.ask import ReplyKey, ask, render, shown_ir
from cuda_harness.agents.reply import Reply, ReplyFault, pick_json
from cuda_harness.state.serde import parse_python

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services
    from cuda_harness.state.ir import KernelIR

Wrong = Literal["reference", "loops", "both", "ir", "none"]
_WRONG: tuple[Wrong, ...] = ("reference", "loops", "both", "ir", "none")


@dataclass(frozen=True)
class Ruling:
    """Who is wrong, and why; `ir`: its text is; `none`: an edge rule makes formulas and references both right."""

    wrong: Wrong
    reason: str


def judge_disagreement(
    services: "Services",
    *,
    request: str,
    ir: "KernelIR",
    case: Mapping[str, Any],
    reference: str,
    loops: str,
    ordinal: int,
) -> Ruling:
    """Return the arbiter's ruling on the smallest differing case.

    Args:
        services: The run's tools.
        request: What the user asked for.
        ir: What both references were written from.
        case: The differing element: dims, scalars, output, index, all values.
        reference: Source of the vectorised reference.
        loops: Source of the reference in loops.
        ordinal: How often the arbiter was asked before.
    """
    prompt = render(
        services, "roles/arbiter", request=request, failure=dict(case), reference=without_comments(reference),
        loops=without_comments(loops),
        ir=shown_ir(ir, readings=True),
    )  # fmt: skip
    parse = parse_ruling if case.get("references_agree") else _without_excuse
    ruling = ask(services, "arbiter", prompt, parse, key=ReplyKey("arbiter", ordinal=ordinal))
    services.emit("disagreement_judged", wrong=ruling.wrong, reason=ruling.reason[:300])
    return ruling


class _Silent(ast.NodeTransformer):
    """Takes away statements that are only text."""

    def visit_Expr(self, statement: ast.Expr) -> ast.stmt:
        only_text = isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
        return ast.Pass() if only_text else statement


def without_comments(source: str) -> str:
    """Return Python source without comments and bare texts: an author's words shall not plead his case."""
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    tree = _Silent().visit(tree)
    return ast.unparse(tree) + "\n"


def parse_ruling(reply: Reply) -> Ruling:
    """Return the ruling in a reply; raises ReplyFault."""
    data = pick_json(reply, ("wrong", "reason"))
    wrong = next((w for w in _WRONG if w == data.get("wrong")), None)
    reason = data.get("reason")
    if wrong is None or not isinstance(reason, str) or not reason.strip():
        msg = f'"wrong" must be one of {", ".join(_WRONG)}, and "reason" a sentence'
        raise ReplyFault(msg)
    return Ruling(wrong, reason.strip()[:2_000])


def _without_excuse(reply: Reply) -> Ruling:
    """Return the ruling on two references that differ: one of them, or the IR, must be wrong."""
    ruling = parse_ruling(reply)
    if ruling.wrong == "none":
        msg = '"wrong" cannot be "none" here: the references differ from each other'
        raise ReplyFault(msg)
    return ruling
