"""What is exported: a kernel with its IR and the evidence that speaks for it."""

import json
from dataclasses import dataclass
from pathlib import Path

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Verdict
from cuda_harness.tools.verify.bundle import load_bundle


@dataclass(frozen=True)
class Subject:
    """One kernel, and the verdict that was reached on exactly these files."""

    ir: KernelIR
    kernel: Kernel
    verdict: Verdict | None
    """`None`: there is none, or it judged other files."""

    @property
    def verified(self) -> bool:
        """Whether an accepting verdict covers these very files."""
        return self.verdict is not None and self.verdict.accepted

    @property
    def why_unverified(self) -> str:
        """One clause; empty when verified."""
        if self.verified:
            return ""
        if self.verdict is None:
            return "no verdict covers these files"
        failure = self.verdict.failure
        return f"the verdict is {self.verdict.outcome}" + (
            f" ({failure.stage}: {failure.class_})" if failure else ""
        )


def load_subject(path: Path, *, allow_unverified: bool) -> Subject:
    """Return what lies in a run's folder (its best kernel) or in a bundle's.

    Raises:
        ConfigError: If there is no kernel, its plan cannot be read, or it is unverified and that was not allowed.
    """
    folder = path
    if (path / "manifest.json").is_file():
        folder = path / "best"
        if not folder.is_dir():
            msg = f"the run {str(path)!r} left no kernel behind"
            raise ConfigError(msg, remedy="see `cuda-harness show`, and resume the run")
    bundle = load_bundle(folder)
    kernel = bundle.kernel
    if kernel is None:
        msg = f"the plan of {str(folder)!r} cannot be read: {bundle.plan}"
        raise ConfigError(msg, remedy="mend plan.json")
    verdict = _verdict(folder, bundle.hashes) or (_run_verdict(path, kernel) if folder != path else None)
    subject = Subject(bundle.ir, kernel, verdict)
    if not subject.verified and not allow_unverified:
        msg = f"{str(path)!r} is not verified: {subject.why_unverified}"
        raise ConfigError(
            msg,
            remedy="verify it with `cuda-harness verify BUNDLE --out BUNDLE/verdict.json`, or export it with --unverified",
        )
    return subject


def _verdict(folder: Path, hashes: dict[str, str]) -> Verdict | None:
    """Return the verdict beside the files, `None` unless it names their hashes."""
    path = folder / "verdict.json"
    if not path.is_file():
        return None
    verdict = Verdict.read(path)
    same = all(verdict.sha256.get(name) == hashes[name] for name in ("ir", "kernel", "plan"))
    return verdict if same else None


def _run_verdict(run: Path, kernel: Kernel) -> Verdict | None:
    """Return the verdict that a run reached on its best kernel, `None` unless its files are still those it judged."""
    try:
        document = json.loads((run / "result.json").read_text(encoding="utf-8"))
        judged = document["kernel"]["sha256"] == kernel.sha256
        same_ir = KernelIR.read(run / "ir.json") == KernelIR.read(run / "best" / "ir.json")
        verdict = Verdict.model_validate(document["verdict"])
    except (OSError, ValueError, KeyError, TypeError, ConfigError):
        return None
    return verdict if judged and same_ir else None


def evidence(subject: Subject) -> dict[str, object]:
    """Return what was verified at which sizes, what was not, and what was assumed, as plain JSON values."""
    verdict = subject.verdict
    stages = verdict.stages if verdict else ()
    return {
        "verified": subject.verified,
        "why_unverified": subject.why_unverified or None,
        "executor": verdict.executor if verdict else None,
        "target": verdict.target if verdict else None,
        "verified_for": verdict.verified_for if verdict else None,
        "passed": {s.name: s.detail for s in stages if s.status == "passed"},
        "sizes": {s.name: s.covered for s in stages if s.status == "passed" and s.covered},
        "scaled": next((s.scaled for s in stages if s.name == "target"), None),
        "not_measured": {s.name: s.detail for s in stages if s.status == "not_measured"},
        "failed": {s.name: s.detail for s in stages if s.status == "failed"},
        "assumptions": [a.model_dump(mode="json") for a in subject.ir.assumptions],
        "kernel_sha256": subject.kernel.sha256,
    }


def evidence_lines(subject: Subject) -> list[str]:
    """Return the evidence as lines of plain text for the head of a file, one statement each."""
    ir, verdict = subject.ir, subject.verdict
    lines = [f"{ir.name}: {_one_line(ir.summary)}"]
    if subject.verified and verdict is not None:
        lines.append(f"VERIFIED on {verdict.executor}" + (f" for {verdict.target}" if verdict.target else ""))
    else:
        lines.append(f"UNVERIFIED: {_one_line(subject.why_unverified)}")
    for stage in verdict.stages if verdict else ():
        lines.append(
            f"  {stage.name}: {stage.status.replace('_', ' ')}"
            + (f" ({_one_line(stage.detail)})" if stage.detail else "")
        )
    if verdict is not None and verdict.verified_for:
        lines.append(f"  proved only for {json.dumps(verdict.verified_for)}")
    lines += [f"size {rule}" for rule in size_rules(ir)]
    for a in ir.assumptions:
        lines.append(f"assumed: {_one_line(a.what)} = {_one_line(a.value)} ({_one_line(a.why)})")
    return lines


def size_rules(ir: KernelIR) -> list[str]:
    """Return the sizes for which the kernel is made, a rule each."""
    rules = []
    for d in ir.dims:
        if d.fixed:
            rules.append(f"{d.name} = {d.value}")
            continue
        parts = [f"{d.name} >= {d.min}"]
        parts += [f"{d.name} <= {d.max}"] if d.max is not None else []
        parts += [f"a multiple of {d.multiple_of}"] if d.multiple_of > 1 else []
        parts += ["a power of two"] if d.power_of_two else []
        rules.append(", ".join(parts))
    return rules + [str(c) for c in ir.constraints]


def _one_line(text: str) -> str:
    """Return foreign text as one line that ends no comment and carries no control character."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean.replace("*/", "* /").replace("\\", "/")[:240]
