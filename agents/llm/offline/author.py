"""The built-in templates as an author: a prompt in, a reply in the form that a model would give.

Deterministic: no chance, no clock, no network. It is a program over a grammar and a library of kernel skills, and is
never counted as a language model's result.
"""

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cuda_harness.agents.llm.offline.planning.refusal import CAN, HOW_TO_NAME_A_MODEL, Refusal, refusal_text
from cuda_harness.agents.llm.offline.prompt import Question, read_prompt
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.formula.parse import FormulaError

if TYPE_CHECKING:
    from cuda_harness.agents.llm.offline.chat import OfflineChatModel
    from cuda_harness.state.settings import Settings


def make(argument: str, *, role: str, settings: "Settings") -> "OfflineChatModel":
    """Return the chat model of `--model offline`.

    Raises:
        ConfigError: If the spec carries an argument; there is nothing to choose.
    """
    del role, settings
    if argument:
        msg = f"the built-in templates take no argument, not {argument!r}"
        raise ConfigError(msg, remedy="write --model offline")
    from cuda_harness.agents.llm.offline.chat import OfflineChatModel

    return OfflineChatModel()


_WRITTEN_BEFORE = "again, token for token"
"""Part of the message that the same kernel was written before."""


def answer(system: str, human: str) -> str:
    """Return the Markdown reply to a prompt of any role."""
    question = read_prompt(system, human)
    writers = {
        "planner": _plan, "reference": _reference, "loops": _loops, "coder": _code, "arbiter": _arbitrate,
        "evolver": _evolve,
    }  # fmt: skip
    writer = writers.get(question.role)
    if writer is None:
        return _refused(
            f"the role {question.role or 'without a header'!r} is not played by the built-in templates"
        )
    try:
        return writer(question)
    except Refusal as exc:
        return _refused(refusal_text(exc.reason))
    except FormulaError as exc:
        return _refused(refusal_text(str(exc)))


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return _block("json", json.dumps(value, indent=1, ensure_ascii=False))


def _refused(reason: str) -> str:
    """Return a refusal, as every model's is read, and the list of what can be done."""
    return _json({"refused": reason, "can": list(CAN)})


def _plan(question: Question) -> str:
    from cuda_harness.agents.llm.offline.planning.answers import plan_with, read_facts

    facts = read_facts(question.sections.get("Stated since", ""))
    return _json(plan_with(question.sections.get("Request", ""), facts))


def _ir(question: Question) -> KernelIR:
    data = question.json("IR")
    try:
        return KernelIR.model_validate(data)
    except ValidationError as exc:
        msg = "the prompt holds no IR that can be read"
        raise Refusal(msg) from exc


def _reference(question: Question) -> str:
    from cuda_harness.agents.llm.offline.truth.domains import input_specs
    from cuda_harness.agents.llm.offline.truth.vectorised import vectorised_reference

    ir = _ir(question)
    python = vectorised_reference(ir)
    return _json({"inputs": input_specs(ir), "properties": []}) + "\n" + _block("python", python)


def _loops(question: Question) -> str:
    from cuda_harness.agents.llm.offline.truth.loops import loop_reference

    return _block("python", loop_reference(_ir(question)))


def _code(question: Question) -> str:
    from cuda_harness.agents.llm.offline.lowering.schedule import DESIGNS, lower
    from cuda_harness.agents.llm.offline.lowering.style import style_of

    ir = _ir(question)
    idea = question.sections.get("What to do", "")
    if idea:
        return _branch(question, ir, idea)
    last = question.json("Last plan")
    if isinstance(last, dict) and style_of(str(last.get("notes", ""))).ideas:
        return _json({"not_applicable": "the templates have one way to write this idea, and it failed"})
    design = _design(question)
    if design >= len(DESIGNS):
        msg = "every design that the templates have for this IR has been tried"
        raise Refusal(msg)
    source, plan = lower(ir, design)
    return _json(plan) + "\n" + _block("cuda", source)


def _branch(question: Question, ir: KernelIR, idea: str) -> str:
    """Write the last kernel anew with one more idea, or say why the idea does not apply."""
    from cuda_harness.agents.llm.offline.lowering.schedule import branch, same_change
    from cuda_harness.agents.llm.offline.lowering.style import read_idea, style_of

    name = read_idea(idea)
    if not name:
        return _json({"not_applicable": f"the idea {idea[:80]!r} is not among the templates'"})
    last = question.json("Last plan")
    style = style_of(str(last.get("notes", "")) if isinstance(last, dict) else "")
    if _WRITTEN_BEFORE in question.text:
        return _json({"not_applicable": "it comes to a kernel that was written before"})
    try:
        source, plan = branch(ir, name, style)
    except FormulaError as exc:
        return _json({"not_applicable": str(exc)})
    other = same_change(ir, name, style)
    if other:
        return _json({"not_applicable": f"it comes to the same kernel as {other.replace('_', ' ')}"})
    return _json(plan) + "\n" + _block("cuda", source)


def _design(question: Question) -> int:
    """Return the next design: the one after the last kernel's, so that no failing kernel is written twice."""
    last = question.json("Last plan")
    tried = question.sections.get("History", "").strip()
    if not isinstance(last, dict):
        return min(tried.count("\n") + 1, 2) if tried else 0
    from cuda_harness.agents.llm.offline.lowering.schedule import DESIGNS

    notes = str(last.get("notes", ""))
    known = [n for n, name in enumerate(DESIGNS) if f"design: {name}" in notes]
    return (known[0] if known else -1) + 1


def _arbitrate(question: Question) -> str:
    """Say who is wrong when two references disagree: both come from one formula, so neither author can judge."""
    del question
    reason = (
        "the built-in templates derive both references from the same formula and cannot judge between them"
    )
    return _json({"wrong": "ir", "reason": reason})


def _evolve(question: Question) -> str:
    """Propose the ideas that change the present kernel and were not tried, the plainest gain first."""
    from cuda_harness.agents.llm.offline.lowering.schedule import ideas_for
    from cuda_harness.agents.llm.offline.lowering.style import MEANING, style_of

    ir = _ir(question)
    present = question.json("Plan")
    notes = str(present.get("notes", "")) if isinstance(present, dict) else ""
    taken = set(question.sections.get("Names taken", "").split())
    asked = re.search(r"at most (\d+)\s+idea", question.text)
    names = ideas_for(ir, style_of(notes), taken)[: int(asked[1]) if asked else 1]
    if not names:
        return _json({"stop": "the built-in templates have no further idea for this kernel"})
    ideas = [{"name": n, "idea": MEANING[n][0], "expectation": MEANING[n][1]} for n in names]
    return _json({"ideas": ideas})


__all__ = ["CAN", "HOW_TO_NAME_A_MODEL", "answer", "make"]
