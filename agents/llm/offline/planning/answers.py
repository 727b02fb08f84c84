"""What a user stated in answer to a plan's assumptions: said with the request, or put into the plan; else refused."""

import re
from collections.abc import Mapping
from typing import Any

from cuda_harness.agents.llm.offline.planning.numbers import read_size
from cuda_harness.agents.llm.offline.planning.planner import plan
from cuda_harness.agents.llm.offline.planning.refusal import Refusal

_SAID = ("dtype", "axis")
"""Assumptions whose answer is understood as words of the request."""
_REDUCES = re.compile(r"\b(?:sum|mean|max|min|prod|argmax|argmin)_")


def read_facts(lines: str) -> dict[str, str]:
    """Return what was stated, by assumption, from lines of `what: value`."""
    pairs = (line.partition(":") for line in lines.splitlines() if ":" in line)
    return {what.strip(): value.strip() for what, _, value in pairs}


def plan_with(request: str, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return the IR of a request under the facts; what was stated is no assumption any more.

    Raises:
        Refusal: If the templates cannot follow a fact, or the request is beyond them.
        FormulaError: If a formula of the request is not of the language.
    """
    first = plan(request)["assumptions"] if facts else []
    assumed = {a["what"]: str(a["value"]) for a in first}
    usual = [a["what"] for a in first if a["why"] == "the usual value"]
    changed = [what for what, value in assumed.items() if facts.get(what, value) != value]
    words = [facts[what] for what in changed if what in _SAID]
    words += [f"{what} = {facts[what]}" for what in changed if what in usual]
    data = plan(", ".join([request, *words]))
    data["summary"] = " ".join(request.split())[:400]
    left = {str(a["what"]): str(a["value"]) for a in data["assumptions"]}
    for what, value in facts.items():
        if what in left and left[what] != value:
            _put(data, what, value)
        elif what not in left and what not in assumed:
            msg = f"nothing is assumed about {what!r}"
            raise Refusal(msg)
    data["assumptions"] = [a for a in data["assumptions"] if a["what"] not in facts]
    return data


def _put(data: dict[str, Any], what: str, value: str) -> None:
    """Change the plan as it was stated; raises Refusal."""
    number = 0 if value.strip() == "0" else read_size(value)
    dims = {d["name"]: d for d in data["dims"]}
    name = what.removeprefix("size ")
    if what.startswith("size ") and name in dims and number:
        dims[name]["value"] = number
    elif what == "smallest size" and number is not None and (number or not _reduces(data)):
        for dim in dims.values():
            dim["min"] = number
            dim["value"] = max(dim["value"], number)
    else:
        msg = f"the built-in templates cannot follow {what} = {value!r}"
        raise Refusal(msg)


def _reduces(data: dict[str, Any]) -> bool:
    """Return whether an empty array would need a result of its own."""
    return any(_REDUCES.search(step["formula"]) for step in data["steps"])
