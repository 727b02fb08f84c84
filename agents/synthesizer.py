"""The Synthesizer: two references that never saw a kernel, and a suite that is proved before it may judge."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.runtime import Runtime

from cuda_harness.agents.arbiter import judge_disagreement
from cuda_harness.agents.ask import ReplyKey, ask, render, shown_ir
from cuda_harness.agents.context import RunContext
from cuda_harness.agents.reply import Reply, ReplyFault, pick_json, pick_python
from cuda_harness.state.budget import Stop, StopReason
from cuda_harness.state.errors import ConfigError, StateError
from cuda_harness.state.harness import StateUpdate, SynthesizerView, node
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.serde import sha256
from cuda_harness.state.suite import Inputs, SuiteProof, SuiteSummary

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services
    from cuda_harness.tools.synthesize.reference import ReferenceFault
    from cuda_harness.tools.synthesize.suite import Disagreement, Suite

MAX_CORRECTIONS = 2
"""A disagreement or a broken reference goes back to its author at most this often."""


@dataclass
class Drafts:
    """The references as they stand, and how often each author was asked."""

    reference: str
    specs: Inputs
    loops: str
    asked_reference: int = 1
    asked_loops: int = 1
    properties: Any = None
    """As the reference's author listed them."""
    excused: str = ""
    """Why the formulas need not agree; empty: they must, where they can be evaluated."""


_OF_NO_USE = ("cost", "mapping")
"""What of an IR says nothing about the truth."""


@node
def synthesize_suite(state: SynthesizerView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return the proved suite, or why there is none."""
    services = runtime.context.services(state.run_dir)
    ir = state.ir
    if ir is None:
        msg = "the synthesizer was reached without an IR"
        raise StateError(msg)
    reference, specs, claims = _write_reference(services, state.request, ir, ordinal=0)
    loops = _write_loops(services, state.request, ir, ordinal=0)
    drafts = Drafts(reference, specs, loops, properties=claims)
    stop = _agree(services, state.request, ir, drafts)
    _save(services, drafts)
    if stop is not None:
        return {"stop": stop}
    proof = _prove(services, ir, drafts)
    if isinstance(proof, Stop):
        return {"stop": proof}
    services.folder.write_text("suite/proof.json", proof.model_dump_json(indent=1) + "\n")
    services.emit("suite_proved", plants=len(proof.plants), skipped=len(proof.skipped))
    summary = SuiteSummary(
        reference_sha256=sha256(drafts.reference),
        loops_sha256=sha256(drafts.loops),
        quorum="agreed",
        proof=proof,
        properties=tuple(p.words for p in load_suite(services, ir).properties),
    )
    return {"suite": summary}


def load_suite(services: "Services", ir: KernelIR) -> Any:  # noqa: ANN401 - tools.synthesize.suite.Suite, loaded lazily
    """Return the suite that lies in the run's folder."""
    from cuda_harness.tools.synthesize.suite import Suite

    folder = services.folder
    specs = Inputs.from_json(folder.read_json("suite/inputs.json"), where="suite/inputs.json")
    return Suite(
        ir, folder.read_text("suite/reference.py"), runner=services.references, seed=services.seed, specs=specs,
        loops=folder.read_text("suite/loops.py"), folder=folder.path("suite"),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ authors


def _write_reference(
    services: "Services",
    request: str,
    ir: KernelIR,
    *,
    ordinal: int,
    failure: dict[str, Any] | None = None,
    last: str | None = None,
) -> tuple[str, Inputs, Any]:
    def parse(reply: Reply) -> tuple[str, Inputs, Any]:
        source = pick_python(reply.blocks)
        data = pick_json(reply, ("inputs", "properties"))
        try:
            specs = Inputs.from_json(data.get("inputs") or {}, where="the input specs")
            check_specs(ir, specs)
        except ConfigError as exc:
            raise ReplyFault(exc.message) from exc
        return source, specs, data.get("properties")

    from cuda_harness.tools.verify.bundle import check_specs

    prompt = render(
        services, "roles/reference", request=request, ir=shown_ir(ir, without=_OF_NO_USE), failure=failure, last_reference=last,
    )  # fmt: skip
    found = ask(services, "reference", prompt, parse, key=ReplyKey("reference", ordinal=ordinal))
    services.emit("reference_written", kind="vectorised", lines=found[0].count("\n"))
    return found


def _write_loops(
    services: "Services",
    request: str,
    ir: KernelIR,
    *,
    ordinal: int,
    failure: dict[str, Any] | None = None,
    last: str | None = None,
) -> str:
    prompt = render(
        services,
        "roles/loops",
        request=request,
        ir=shown_ir(ir, without=_OF_NO_USE),
        failure=failure,
        last_reference=last,
    )
    source = ask(
        services,
        "loops",
        prompt,
        lambda reply: pick_python(reply.blocks),
        key=ReplyKey("loops", ordinal=ordinal),
    )
    services.emit("reference_written", kind="loops", lines=source.count("\n"))
    return source


# ------------------------------------------------------------------------------------------- quorum


def _agree(services: "Services", request: str, ir: KernelIR, drafts: Drafts) -> Stop | None:
    """Bring the two references to agreement, or say why they cannot be."""
    from cuda_harness.tools.synthesize.reference import ReferenceFault

    for correction in range(MAX_CORRECTIONS + 1):
        found = _quorum(services, ir, drafts)
        if found is None:
            services.emit("references_agreed", corrections=correction)
            return None
        services.emit("references_disagreed", detail=found.message[:300], corrections=correction)
        if isinstance(found, ReferenceFault) and found.kind == "resources":
            return Stop(reason="environment", detail=found.message[:4_000])
        if correction == MAX_CORRECTIONS:
            return Stop(reason="oracle", detail=f"no quorum: {found.message}"[:4_000])
        if isinstance(found, ReferenceFault):
            culprit = "loops" if found.message.startswith("the loop reference") else "reference"
            failure = {"class": "oracle", "message": found.message}
        else:
            case = _shown(found)
            ruling = judge_disagreement(
                services,
                request=request,
                ir=ir,
                case=case,
                reference=drafts.reference,
                loops=drafts.loops,
                ordinal=correction,
            )
            if ruling.wrong == "none":
                drafts.excused = ruling.reason
                continue
            if ruling.wrong == "ir":
                text = (
                    "the IR contradicts the request"
                    if found.second is None
                    else "the IR allows both readings"
                )
                return Stop(reason="oracle", detail=f"{text}: {ruling.reason} ({found.message})"[:4_000])
            culprit = ruling.wrong
            failure = {**case, "ruling": ruling.reason}
        if culprit in {"reference", "both"}:
            drafts.reference, drafts.specs, drafts.properties = _write_reference(
                services, request, ir, ordinal=drafts.asked_reference, failure=failure, last=drafts.reference
            )
            drafts.asked_reference += 1
        if culprit in {"loops", "both"}:
            drafts.loops = _write_loops(
                services, request, ir, ordinal=drafts.asked_loops, failure=failure, last=drafts.loops
            )
            drafts.asked_loops += 1
    return None


def _quorum(services: "Services", ir: KernelIR, drafts: Drafts) -> "Disagreement | ReferenceFault | None":
    from cuda_harness.tools.synthesize.reference import ReferenceFault
    from cuda_harness.tools.synthesize.suite import Suite

    suite = Suite(
        ir,
        drafts.reference,
        runner=services.references,
        seed=services.seed,
        specs=drafts.specs,
        loops=drafts.loops,
    )
    try:
        return suite.quorum(formulas=not drafts.excused)
    except ConfigError as exc:
        return ReferenceFault("raised", exc.message)


def _shown(found: "Disagreement") -> dict[str, Any]:
    """Return the differing case as values: an arbiter sees no comments of either reference's author."""
    formulas = {} if found.formula is None else {"formulas": found.formula}
    return {
        "class": "oracle", "message": found.message, "output": found.output, "index": list(found.index),
        "vectorised": found.first, "loops": found.first if found.second is None else found.second, **formulas,
        "references_agree": found.second is None,
        "dims": found.case.dims, "scalars": found.case.scalars, "regime": found.case.regime,
    }  # fmt: skip


def _save(services: "Services", drafts: Drafts) -> None:
    folder = services.folder
    folder.write_text("suite/reference.py", drafts.reference)
    folder.write_text("suite/loops.py", drafts.loops)
    folder.write_json(
        "suite/inputs.json",
        {k: v.model_dump(mode="json", exclude_none=True) for k, v in drafts.specs.specs.items()},
    )


# -------------------------------------------------------------------------------------------- proof


def _prove(services: "Services", ir: KernelIR, drafts: Drafts) -> SuiteProof | Stop:
    from cuda_harness.state.results import Failure
    from cuda_harness.tools.synthesize.reference import ReferenceFault
    from cuda_harness.tools.verify.examine import examine_suite

    suite = load_suite(services, ir)
    proof = examine_suite(suite, ())
    if isinstance(proof, Failure):
        reasons: dict[str, StopReason] = {"weak_suite": "weak_suite", "resources": "environment"}
        reason = reasons.get(proof.class_, "oracle")
        services.emit("suite_doubted", reason=reason, detail=proof.message[:300])
        return Stop(reason=reason, detail=proof.message[:4_000])
    formulas = suite.formula_vote()
    words = formulas.message if isinstance(formulas, ReferenceFault) else formulas.reason
    votes = {
        "properties": _settle_properties(services, suite, drafts),
        "loops": "agreed",
        "formulas": f"excused: {drafts.excused}" if drafts.excused else words,
    }
    return proof.model_copy(update={"votes": {**proof.votes, **votes}})


def _settle_properties(services: "Services", suite: "Suite", drafts: Drafts) -> str:
    """Keep the properties that the reference has for every later suite of the run; return the note on all of them."""
    from cuda_harness.tools.synthesize.properties import read_properties, settle, write_properties

    read, notes = read_properties(suite.ir, drafts.specs, drafts.properties)
    kept, dropped = settle(suite, read)
    services.folder.write_json("suite/properties.json", write_properties(kept))
    for note in (*notes, *dropped):
        services.emit("property_dropped", detail=note[:300])
    words = [f"the reference has it: {p.words}" for p in kept]
    return "; ".join([*words, *notes, *dropped])[:4_000] or "none given"
