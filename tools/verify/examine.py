"""The judge is judged: whether a suite may judge at all, and what speaks for its reference."""

import re
from collections.abc import Sequence
from typing import Any

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Failure
from cuda_harness.state.suite import SuiteProof
from cuda_harness.tools.synthesize.influence import influence
from cuda_harness.tools.synthesize.proof import BEYOND_FLOAT, EQUALS_TRUTH, EVERYTHING, prove
from cuda_harness.tools.synthesize.reference import ReferenceFault
from cuda_harness.tools.synthesize.suite import Answer, Suite
from cuda_harness.tools.verify.cases import expected_of, fault_of
from cuda_harness.tools.verify.compare import Mismatch, compare_outputs

FIRST_S = 30.0
"""Seconds a reference may take for a few tiny cases; one that takes longer hangs."""


def comparer(ir: KernelIR, dims: Any, got: Any, answer: Answer, inputs: Any) -> str | None:  # noqa: ANN401 - Compare's shape
    """Return why `got` is wrong, `None` when it is right; what the suite's proof calls."""
    found = compare_outputs(ir, dims, got, expected_of(answer), inputs=inputs)
    return found.message if isinstance(found, Mismatch) else None


def doubt_suite(suite: Suite, tunables: Sequence[int]) -> Failure | None:
    """Return why the suite may not judge (`oracle` or `weak_suite`), `None` when it proved itself."""
    examined = examine_suite(suite, tunables)
    return examined if isinstance(examined, Failure) else None


def examine_bundle(suite: Suite, tunables: Sequence[int]) -> SuiteProof | Failure:
    """Return the proof of a bundle's suite, or why it may not judge.

    There is one reference and no arbiter: formulas that contradict it beyond what edge rules explain make two truths
    of one bundle, and nobody here can say which is meant.
    """
    examined = examine_suite(suite, tunables)
    if isinstance(examined, Failure):
        return examined
    try:
        formulas = suite.formula_vote()
    except ConfigError as exc:
        return _undrawable(exc)
    if isinstance(formulas, ReferenceFault):
        return fault_of(formulas)
    against = formulas.against
    if against is not None and against.firm:
        evidence = {
            "culprit": "ir.json or reference.py", "dims": against.case.dims, "regime": against.case.regime, "output": against.output,
            "index": list(against.index), "reference": against.reference, "formulas": against.formula,
        }  # fmt: skip
        text = f"{against.message}: mend the formulas of ir.json or reference.py"
        return Failure(stage="shapes", class_="oracle", message=text, evidence=evidence)
    words = formulas.reason if against is None else f"differ where an edge rule may apply: {against.message}"
    plants = f"{len(examined.plants)} wrong outputs planted and rejected, {len(examined.honest)} honest ones accepted"
    votes = {"quorum": "not measured: a bundle has one reference", "formulas": words, "plants": plants}
    return examined.model_copy(update={"votes": {**examined.votes, **votes}})


def examine_suite(suite: Suite, tunables: Sequence[int]) -> SuiteProof | Failure:
    """Return the proof of a suite, or why it may not judge (`oracle`, `weak_suite`, `resources`)."""
    try:
        first = suite.answers(suite.cases("tiny", tunables=tunables)[:3], deadline_s=FIRST_S)
        if isinstance(first, ReferenceFault):
            return fault_of(first)
        still = _still(suite, tunables)
        if still is not None:
            return _oracle(still, "reference.py or ir.json")
        proof = prove(suite, comparer, tunables=tunables)
    except ConfigError as exc:
        return _undrawable(exc)
    if isinstance(proof, ReferenceFault):
        return fault_of(proof)
    if "all" in proof.skipped:
        return _oracle(
            f"the reference has no usable value in any case: {proof.skipped['all']}",
            "reference.py or ir.json",
        )
    if any(name.startswith(EVERYTHING) for name in proof.skipped):
        return _weakness(suite, proof)
    same = _identity(suite.ir, proof)
    if same is not None:
        return _oracle(same, "reference.py or ir.json")
    if not proof.passed:
        return _weakness(suite, proof)
    left_out = [n for n, why in proof.skipped.items() if why == BEYOND_FLOAT]
    told = {"left_out": f"{', '.join(left_out)}: {BEYOND_FLOAT}"} if left_out else {}
    return proof.model_copy(update={"votes": {**proof.votes, **told}})


def _weakness(suite: Suite, proof: SuiteProof) -> Failure:
    """Return what a suite cannot tell apart, and whose words may be the reason."""
    missed = [p.name for p in proof.plants if not p.rejected]
    unfair = [n for n, ok in proof.honest.items() if not ok]
    reasons = []
    if missed:
        text = f"the suite does not reject: {', '.join(missed)}"
        stated = [
            t.name for t in suite.ir.outputs if t.compare is not None and (t.compare.rtol or t.compare.atol)
        ]
        reasons += [f"the tolerance that ir.json states for {n!r}" for n in stated]
        reasons += [f"the domain that inputs.json gives {n!r}" for n in suite.specs.specs]
    elif unfair:
        text = f"the suite rejects what is right: {', '.join(unfair)}"
    else:
        unseen = [
            n.removeprefix(f"{EVERYTHING} (").removesuffix(")")
            for n in proof.skipped
            if n.startswith(EVERYTHING)
        ]
        text = f"the suite does not see what is in {', '.join(unseen)}: no wrong value of it differs from the truth in any case"
        reasons += [f"what the reference leaves undefined of {n!r}" for n in unseen]
    if reasons:
        text += f"; what may be too lenient: {', '.join(reasons[:4])}"
    evidence = {"missed": missed, "unfair": unfair} | (
        {"culprit": "reference.py, ir.json or inputs.json"} if reasons else {}
    )
    return Failure(stage="shapes", class_="weak_suite", message=text[:3_000], evidence=evidence)


def _oracle(message: str, culprit: str) -> Failure:
    return Failure(stage="shapes", class_="oracle", message=message, evidence={"culprit": culprit})


def _undrawable(error: ConfigError) -> Failure:
    """Return inputs that cannot be drawn as a failure of the bundle's own data."""
    return _oracle(error.message, "inputs.json or ir.json")


_COPYING = re.compile(
    r"cop(?:y|ie)|identity|clone|memcpy|cast|conver|unchanged|load|move|transfer|pass|swap|exchang"
)
"""Words by which an IR says that an output may be an input as it came."""


def _identity(ir: KernelIR, proof: SuiteProof) -> str | None:
    """Return which output the reference merely copies though the IR speaks of no copy, `None` when there is none."""
    words = " ".join(
        (ir.name, ir.summary, *(f"{s.op} {s.formula}" for s in ir.steps), *ir.edge_rules)
    ).lower()
    if _COPYING.search(words):
        return None
    for tensor in ir.inputs:
        for output in ir.outputs:
            if [e.text for e in tensor.shape] != [e.text for e in output.shape]:
                continue
            if any(_assigns(s.formula, output.name, tensor.name) for s in ir.steps):
                continue
            label = f"copy of {tensor.name}" + ("" if len(ir.outputs) == 1 else f" ({output.name})")
            if proof.skipped.get(label) == EQUALS_TRUTH:
                return f"the reference returns input {tensor.name!r} as {output.name!r} in every case; the IR speaks of no copy"
    return None


def _assigns(formula: str, output: str, source: str) -> bool:
    """Return whether a formula is an assignment of elements as they are: `out[i] = in[i]`."""
    element = r"\s*(?:\[[^\]]*\])?\s*"
    return re.fullmatch(rf"\s*{output}{element}=\s*{source}{element}", formula) is not None


def _still(suite: Suite, tunables: Sequence[int]) -> str | None:
    """Return what does not move the reference at any size, regime or draw, `None` as soon as everything has.

    A flag such as "any element above a threshold" moves rarely: one set of draws does not convict a reference.
    """
    tiny = suite.cases("tiny", tunables=tunables)
    values = suite.cases("values", tunables=tunables)
    sets = [tiny, suite.cases("shapes", tunables=tunables)[-6:], values[0::4], values[1::4], values[2::4]]
    for k in range(1, 9):  # smaller and larger sizes in turn: a threshold is crossed at some
        part = tiny[:5] if k % 2 else tiny
        sets.append(tuple(c.model_copy(update={"seed": c.seed + 1_009 * k}) for c in part))
    found = None
    for cases in sets:
        found = influence(suite, cases)
        if found is None:
            return None
    return found
