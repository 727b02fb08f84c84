"""In which order the operations that a request names are applied."""

import re

from cuda_harness.agents.llm.offline.planning.build import REDUCING
from cuda_harness.agents.llm.offline.planning.details import Details
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.stages import Stage, markers

_OF = re.compile(r"\b(?:of|on|to|from|after|over|in|for|between)\b")
_THEN = re.compile(
    r"\b(?:then|followed|afterwards|after that|finally|next|subsequently|before|and|with|plus|passed|through|into|apply|applies|applying|take|takes|taking)\b|[,;+]"
)
_SENTENCE = re.compile(r"[.:;]|\bfollowed by\b|\bthen\b")


def order_stages(text: str, stages: list[Stage], details: Details) -> list[Stage]:
    """Return the stages in the order of application.

    `A of B` applies B first; `A then B`, `A and B`, `A with B` apply A first. An adjective (`squared difference`)
    is applied after its noun. Two operations side by side in any other way are refused.
    """
    placed = list(markers(text))
    groups: list[list[Stage]] = []
    end = 0
    for number, start, stop in placed:
        stage = stages[number]
        if stage.kind == "product" and stage.name == "matmul" and "elementwise" in details.flags:
            stage = Stage("binary", "*", stage.text)
        gap = text[end:start]
        end = stop
        if not groups:
            groups.append([stage])
            continue
        last = groups[-1][-1]
        again = (stage.kind, stage.name) in {(s.kind, s.name) for g in groups for s in g}
        if again and re.search(r"[.:;(]", gap):
            continue  # a title or a second sentence names the same operation again
        relation = _relation(gap, last, stage)
        if relation == "beside":
            parts = last.parts or (last,)
            groups[-1][-1] = Stage("multi", "multi", f"{last.text} and {stage.text}", parts=(*parts, stage))
        elif relation == "of":
            groups[-1].append(stage)
        elif relation == "then":
            groups.append([stage])
        else:
            msg = f"it is not clear in which order {last.text!r} and {stage.text!r} are applied; say 'first ... then ...'"
            raise Refusal(msg)
    order = [s for group in groups for s in reversed(group)]
    return _merged(order)


def _relation(gap: str, last: Stage, stage: Stage) -> str:
    of = list(_OF.finditer(gap))
    then = list(_THEN.finditer(gap))
    if (
        last.kind in REDUCING | {"both", "multi"}
        and stage.kind in REDUCING | {"both"}
        and then
        and not of
        and re.fullmatch(r"[\s,]*(?:and)?(?: the)?\s*", gap)
    ):
        return "beside"
    if _SENTENCE.search(gap):
        return "then"
    if of and (not then or of[-1].start() > then[-1].start() or re.search(r"\bapplied (?:to|on)\b", gap)):
        return "of"
    if then:
        return "then"
    if not gap.strip(" ") or re.fullmatch(r"[\s()]*", gap):
        if last.kind == "unary" and (
            last.text.endswith("ed") or last.text in {"absolute", "negative", "squared"}
        ):
            return "of"
        if last.kind in {"reduce", "both"} and stage.kind == "unary" and stage.name in {"abs", "square"}:
            return "of"
        if last.kind in {"product", "bias"} and stage.kind in {"bias", "unary"}:
            return "then"
        return "unclear"
    return "of" if of else "unclear"


def _merged(order: list[Stage]) -> list[Stage]:
    """Return the stages with what belongs together in one: a linear layer and its bias, the logarithm of a softmax."""
    found: list[Stage] = []
    linear = any(s.kind == "product" and s.name == "linear" for s in order)
    for stage in order:
        if stage.kind == "bias" and linear:
            continue
        if stage.name == "log" and found and found[-1].name == "softmax":
            found[-1] = Stage("soft", "log_softmax", f"{stage.text} of {found[-1].text}")
            continue
        found.append(stage)
    return found
