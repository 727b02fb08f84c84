"""`--ask`: the IR's assumptions put to the user before a kernel is written; answers become stated facts."""

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from cuda_harness.agents.context import RunContext
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.harness import QuestionView, StateUpdate, node
from cuda_harness.state.ir import Assumption, KernelIR

SCHEMA = "cuda-harness/question/1"
MOST_CHARS = 2_000
STATED = "stated by the user"

Answer = Mapping[str, str]
"""What was assumed -> what it shall be; what is left out is accepted as it is."""


@node
def put_question(state: QuestionView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return the user's facts; waits for them. Nothing is asked where nothing was assumed.

    LangGraph runs the node again from its top when the answer comes, so nothing happens before the interrupt.
    """
    if state.ir is None or not state.ir.assumptions:
        return {"ask": False}
    answer: Answer = interrupt(question_of(state.ir, state.request))["answer"]
    confirmed, facts = apply_answer(state.ir, answer)
    services = runtime.context.services(state.run_dir)
    services.folder.write_json("answer.json", {"schema": SCHEMA, "answer": dict(answer)})
    services.emit("question_answered", facts=len(facts), accepted=len(state.ir.assumptions) - len(facts))
    if facts:
        return {"ask": False, "facts": facts}
    services.folder.write_text("ir.json", confirmed.to_json())
    return {"ask": False, "ir": confirmed}


def question_of(ir: KernelIR, request: str) -> dict[str, Any]:
    """Return the question as a document: what was understood, and each assumption with its readings."""
    return {
        "schema": SCHEMA,
        "request": request,
        "understood": ir.summary,
        "sizes": ir.target_dims,
        "assumptions": [a.model_dump(mode="json") for a in ir.assumptions],
    }


def check_answer(assumptions: list[dict[str, Any]], answer: Mapping[str, object]) -> dict[str, str]:
    """Return the answer as text by assumption.

    Raises:
        ConfigError: If it names something that was not assumed, or is too long; the user acts.
    """
    known = [str(a["what"]) for a in assumptions]
    unknown = sorted(set(answer) - set(known))
    if unknown:
        msg = f"nothing was assumed about {unknown[0]!r}"
        raise ConfigError(msg, remedy=f"answer to: {'; '.join(known) or 'nothing'}")
    found = {name: " ".join(str(value).split()) for name, value in answer.items()}
    if sum(map(len, found.values())) > MOST_CHARS:
        msg = f"an answer has more than {MOST_CHARS} characters"
        raise ConfigError(msg, remedy="say it shorter, or put it into the request")
    return found


def apply_answer(ir: KernelIR, answer: Answer) -> tuple[KernelIR, tuple[str, ...]]:
    """Return the IR with every assumption confirmed, and the facts that differ from what was assumed.

    With a fact that differs the IR is not right any more: the Planner is asked again.
    """
    facts = [f"{a.what}: {answer[a.what].strip()}" for a in ir.assumptions if _differs(a, answer)]
    if facts:
        kept = [f"{a.what}: {a.value}" for a in ir.assumptions if a.value and not _differs(a, answer)]
        return ir, (*facts, *kept)
    confirmed = tuple(a.model_copy(update={"why": STATED}) for a in ir.assumptions)
    return ir.model_copy(update={"assumptions": confirmed}), ()


def _differs(assumption: Assumption, answer: Answer) -> bool:
    said = answer.get(assumption.what, "").strip()
    return bool(said) and said != assumption.value.strip()
