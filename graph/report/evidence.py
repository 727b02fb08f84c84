"""What a run's folder holds, read for showing; a file that is missing or damaged is left out, never guessed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Profile, Timing, Verdict
from cuda_harness.state.suite import SuiteProof
from cuda_harness.tools.archive.run_folder import RunFolder

M = TypeVar("M", bound=BaseModel)
Document = Mapping[str, Any]


@dataclass(frozen=True)
class AttemptEvidence:
    """One attempt as its files tell it; `None` where a file is missing."""

    id: int
    parent: int | None
    strategy: str
    status: str
    failure_class: str | None
    source: str | None
    plan: str | None
    verdict: Verdict | None
    timing: Timing | None
    not_timed: str
    """Why there is no time; empty where there is one or nothing was said."""
    profile: Profile | None


@dataclass(frozen=True)
class Evidence:
    """A finished run: `result.json`, the manifest, and what they point at."""

    folder: RunFolder
    result: Document
    manifest: Document
    ir: KernelIR | None
    proof: SuiteProof | None
    verdict: Verdict | None
    timing: Timing | None
    profile: Profile | None
    attempts: tuple[AttemptEvidence, ...]
    trace: tuple[Document, ...]

    @property
    def shown(self) -> AttemptEvidence | None:
        """The attempt whose kernel is shown: the delivered one, else the one that came furthest."""
        wanted = (self.result.get("kernel") or {}).get("sha256")
        judged = [a for a in self.attempts if a.verdict is not None and a.verdict == self.verdict]
        if wanted is not None and self.verdict is not None:
            judged = [a for a in judged if a.status in {"verified", "undecided"}] or judged
        return judged[-1] if judged else None


def read_evidence(run_dir: Path, *, result: Document | None = None) -> Evidence:
    """Return the evidence of the run in `run_dir`; `result` stands in for `result.json` while the run waits for an answer.

    Raises:
        ConfigError: If there is no run, or it has not ended; the user acts.
    """
    folder = RunFolder.open(run_dir)
    if result is None and not folder.exists("result.json"):
        msg = f"the run in {str(run_dir)!r} has not ended"
        raise ConfigError(msg, remedy=f"go on with it: cuda-harness resume {run_dir}")
    from cuda_harness.tools.trace.recorder import read_trace

    result = _of_known_kinds(_mapping(folder, "result.json") if result is None else result)
    return Evidence(
        folder=folder,
        result=result,
        manifest=_of_known_kinds(_mapping(folder, "manifest.json")),
        ir=_model(KernelIR, _optional(folder, "ir.json")),
        proof=_model(SuiteProof, _optional(folder, "suite/proof.json")),
        verdict=_model(Verdict, result.get("verdict")),
        timing=_model(Timing, result.get("timing")),
        profile=_model(Profile, result.get("profile")),
        attempts=tuple(
            _attempt(folder, row)
            for row in result.get("attempts") or []
            if isinstance(row, Mapping) and isinstance(row.get("id"), int)
        ),
        trace=tuple(read_trace(folder.root)),
    )


_KINDS: dict[str, type] = {
    "attempts": list, "assumptions": list, "branches": list, "stop": dict, "usage": dict, "kernel": dict, "versions": dict,
    "settings": dict,
}  # fmt: skip


def _of_known_kinds(document: Document) -> Document:
    """Return a document without the fields that are not of their kind: the folder may come from anyone."""
    return {k: v for k, v in document.items() if k not in _KINDS or isinstance(v, _KINDS[k])}


def _attempt(folder: RunFolder, row: Document) -> AttemptEvidence:
    number = int(row["id"])
    where = folder.attempt_dir(number)
    timing = _optional(folder, f"{where}/timing.json")
    return AttemptEvidence(
        id=number,
        parent=row["parent"] if isinstance(row.get("parent"), int) else None,
        strategy=str(row.get("strategy") or ""),
        status=str(row.get("status") or ""),
        failure_class=str(row["failure_class"]) if row.get("failure_class") else None,
        source=_text(folder, f"{where}/kernel.cu"),
        plan=_text(folder, f"{where}/plan.json"),
        verdict=_model(Verdict, _optional(folder, f"{where}/verdict.json")),
        timing=_model(Timing, timing),
        not_timed=str(timing.get("reason") or "") if isinstance(timing, Mapping) else "",
        profile=_model(Profile, _optional(folder, f"{where}/profile.json")),
    )


def _mapping(folder: RunFolder, name: str) -> Document:
    found = folder.read_json(name)
    if not isinstance(found, Mapping):
        msg = f"{str(folder.path(name))!r} is not a JSON object"
        raise ConfigError(msg, remedy="the run folder is damaged; start a new run")
    return found


def _optional(folder: RunFolder, name: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return folder.read_json(name) if folder.exists(name) else None
    except ConfigError:
        return None


def _text(folder: RunFolder, name: str) -> str | None:
    try:
        return folder.read_text(name) if folder.exists(name) else None
    except ConfigError:
        return None


def _model(kind: type[M], value: Any) -> M | None:  # noqa: ANN401 - any JSON value
    if not isinstance(value, Mapping):
        return None
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None
