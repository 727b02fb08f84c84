"""The Profiler: times and explains verified kernels, and says what it could not measure."""

from langgraph.runtime import Runtime

from cuda_harness.agents.context import RunContext
from cuda_harness.state.expr import ExprError
from cuda_harness.state.harness import ProfilerView, StateUpdate, node
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import KernelFacts, Profile, TimingNotMeasured, Verdict

_FACTS = ("registers", "shared_bytes", "spill_store_bytes", "spill_load_bytes", "stack_bytes")


@node
def profile_kernel(state: ProfilerView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return verified attempts with a time, or the reason for none, and a profile from what is known."""
    services = runtime.context.services(state.run_dir)
    changed = {}
    for attempt in state.attempts.values():
        if attempt.status != "verified" or attempt.verdict is None or attempt.timing is not None:
            continue
        timing = TimingNotMeasured(reason=why_untimed(attempt.verdict))
        profile = static_profile(attempt.verdict, state.ir)
        folder = services.folder.attempt_dir(attempt.id)
        services.folder.write_json(f"{folder}/timing.json", timing.model_dump(mode="json"))
        services.folder.write_json(f"{folder}/profile.json", profile.model_dump(mode="json"))
        changed[attempt.id] = attempt.model_copy(update={"timing": timing, "profile": profile})
        services.emit(
            "kernel_profiled",
            attempt=attempt.id,
            rung=profile.rung,
            timing=timing.status,
            reason=timing.reason,
        )
    return {"attempts": changed}


def why_untimed(verdict: Verdict) -> str:
    """Return why there is no time."""
    if verdict.executor.partition(":")[0] == "cpu":
        return "the kernel ran on the CPU executor, whose time says nothing about a GPU"
    return f"executor {verdict.executor!r} does not time plans"


def static_profile(verdict: Verdict, ir: KernelIR | None) -> Profile:
    """Return what compiler facts and the IR's cost tell; the bound is `unknown`, since nothing was measured.

    Metrics: `KERNEL.registers`, `KERNEL.shared_bytes` ... per entry as ptxas reports them, and of the whole
    problem at the target size `flops`, `bytes` and `flops_per_byte`. A fact that is not known has no entry.
    """
    metrics: dict[str, float] = {}
    for facts in verdict.kernels:
        for name in _FACTS:
            value = getattr(facts, name)
            if value is not None:
                metrics[f"{facts.name}.{name}"] = float(value)
    metrics.update(_cost(ir))
    rung = "cubin" if verdict.kernels else "static"
    return Profile(rung=rung, bound="unknown", sentence=_sentence(verdict.kernels, metrics), metrics=metrics)


def _cost(ir: KernelIR | None) -> dict[str, float]:
    if ir is None:
        return {}
    try:
        flops = ir.cost.flops.evaluate(ir.target_dims)
        moved = ir.cost.bytes.evaluate(ir.target_dims)
    except ExprError:
        return {}
    found = {name: float(value) for name, value in (("flops", flops), ("bytes", moved)) if value > 0}
    if len(found) == 2:
        found["flops_per_byte"] = flops / moved
    return found


def _sentence(kernels: tuple[KernelFacts, ...], metrics: dict[str, float]) -> str:
    parts = []
    spilled = [k.name for k in kernels if (k.spill_store_bytes or 0) + (k.spill_load_bytes or 0) > 0]
    if spilled:
        parts.append(f"registers spill to memory in {', '.join(spilled)}")
    most = max((k.registers for k in kernels if k.registers is not None), default=None)
    if most is not None:
        parts.append(f"up to {most} registers a thread")
    if "flops_per_byte" in metrics:
        parts.append(f"{metrics['flops_per_byte']:.2g} operations for each byte that must move")
    return "; ".join([*parts, "what bounds it was not measured"])
