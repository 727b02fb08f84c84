"""A request to an IR: formulas first, words else."""

from typing import Any

from cuda_harness.agents.llm.offline.planning.words import plan_words


def plan(request: str) -> dict[str, Any]:
    """Return the IR of a request; raises Refusal."""
    return plan_words(request)
