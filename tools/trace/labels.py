"""Tags and metadata that make a run of the graph easy to find: role, attempt, strategy, stage results, files."""

from collections.abc import Mapping
from typing import Any

Run = Mapping[str, Any]
_SELF_NAMED = frozenset({"attempt", "stage", "strategy", "branch"})


def labels(run: Run) -> tuple[list[str], dict[str, Any]]:
    """Return tags (`role:coder`, `attempt:3`, `strategy:repair`, `stage:tiny`) and metadata to add to a finished run.

    A model run is labelled by what it was asked for, a node by what it returned. Files are named relative to the
    run's folder.
    """
    metadata = _metadata(run)
    tags, extra = _from_metadata(metadata)
    outputs = run.get("outputs")
    node = metadata.get("langgraph_node")
    if node is not None and run.get("run_type") == "tool":
        tags.insert(0, f"role:{node}")
    if node is not None and run.get("name") == node and isinstance(outputs, Mapping):
        tags.append(f"role:{node}")
        attempts = outputs.get("attempts")
        for attempt in attempts.values() if isinstance(attempts, Mapping) else ():
            if isinstance(attempt, Mapping) and attempt.get("id") is not None:
                tags += [f"attempt:{attempt['id']}", f"strategy:{attempt.get('strategy') or 'first'}"]
                extra.setdefault("attempts", []).append(_attempt(attempt))
        if isinstance(outputs.get("decision"), Mapping):
            extra["decision"] = {k: v for k, v in outputs["decision"].items() if v not in (None, "")}
    return list(dict.fromkeys(tags)), extra


def _metadata(run: Run) -> Mapping[str, Any]:
    extra = run.get("extra")
    found = extra.get("metadata") if isinstance(extra, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _from_metadata(metadata: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the labels of a model call or a tool, which say themselves what they are about."""
    tags = [f"{name}:{metadata[name]}" for name in sorted(_SELF_NAMED) if metadata.get(name) is not None]
    role = metadata.get("role")
    if role is None:
        return tags, {}
    tags.insert(0, f"role:{role}")
    ordinal = metadata.get("ordinal")
    if role == "coder" and ordinal is not None:
        return [*tags, f"attempt:{ordinal}"], {"attempt": ordinal}
    return tags, {}


def _attempt(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """Return what one attempt came to, and where its files lie."""
    number = int(attempt["id"])
    found: dict[str, Any] = {
        "id": number,
        "files": f"attempts/{number:03d}/",
        "sha256": attempt.get("sha256"),
    }
    verdict = attempt.get("verdict")
    if isinstance(verdict, Mapping):
        stages = verdict.get("stages")
        found["outcome"] = verdict.get("outcome")
        found["stages"] = {
            s["name"]: s["status"] for s in stages or () if isinstance(s, Mapping) and "name" in s
        }
        failure = verdict.get("failure")
        if isinstance(failure, Mapping):
            found["failure"] = failure.get("class") or failure.get("class_")
    timing = attempt.get("timing")
    if isinstance(timing, Mapping) and timing.get("median_us") is not None:
        found["median_us"] = timing["median_us"]
    return found
