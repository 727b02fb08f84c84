"""The Tuner: searches the tunables of a verified kernel on a GPU, without a token, before the kernel is judged.

A plan with other defaults is another kernel, so the winner climbs the whole ladder again as an attempt of its own.
"""

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime

from cuda_harness.agents.context import RunContext
from cuda_harness.agents.gate import design_sha256
from cuda_harness.agents.judging import clock_of, suite_of, workload_of
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.errors import StateError
from cuda_harness.state.harness import BranchTunerView, StateUpdate, TunerView, node
from cuda_harness.state.lineage import latest
from cuda_harness.state.results import TimingNotMeasured

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services
    from cuda_harness.state.ir import KernelIR


@node
def tune_kernel(state: TunerView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return a further attempt with better tunables, or nothing where the defaults stay or time is not measured."""
    services = runtime.context.services(state.run_dir)
    last = latest(state.attempts)
    if last is None or last.status != "verified" or state.ir is None:
        msg = "the tuner was reached without a verified kernel"
        raise StateError(msg)
    services.ledger.require_time()
    number = last.id + 1
    if last.strategy == "tune" or (isinstance(state, BranchTunerView) and not state.plan.owns(number)):
        return {"attempts": {}}
    tuned = _tuned(last, number, state.ir, state.target, services)
    return {"attempts": {tuned.id: tuned} if tuned is not None else {}}


def _tuned(last: Attempt, number: int, ir: "KernelIR", target: str, services: "Services") -> Attempt | None:
    kernel = services.folder.load_kernel(last.id)
    tunables = kernel.plan.tunables
    clock = clock_of(services)
    if clock is None or all(len(values) <= 1 for values in tunables.values()):
        return None
    from cuda_harness.tools.profile.tuning import tune

    suite = suite_of(services, ir)
    found = tune(
        kernel, workload_of(services, ir), clock, suite=suite, arch=target or services.target,
        seed=services.seed & 0x7FFFFFFF,
    )  # fmt: skip
    if isinstance(found, TimingNotMeasured):
        services.emit("tunables_kept", attempt=last.id, reason=found.reason[:300])
        return None
    services.folder.write_json(
        f"{services.folder.attempt_dir(last.id)}/tuning.json",
        {
            "tunables": found.tunables, "strategy": found.strategy, "total": found.total, "changed": found.changed,
            "tried": [{"tunables": t.tunables, "status": t.status, "reason": t.reason, "median_us": t.median_us} for t in found.trials],
            "notes": list(found.notes),
        },
    )  # fmt: skip
    if not found.changed:
        services.emit("tunables_kept", attempt=last.id, tried=len(found.trials), total=found.total)
        return None
    services.folder.save_kernel(number, found.kernel)
    chosen = ", ".join(f"{name} {value}" for name, value in sorted(found.tunables.items()))
    services.emit("tunables_chosen", attempt=number, parent=last.id, tunables=chosen, tried=len(found.trials))
    return Attempt(
        id=number, parent=last.id, branch=last.branch, strategy="tune", expectation=chosen[:300],
        sha256=found.kernel.sha256, design=design_sha256(found.kernel),
    )  # fmt: skip
