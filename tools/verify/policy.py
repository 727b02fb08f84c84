"""What device code may not contain, read from the parsed source; hints for the run-time checks, which decide."""

from dataclasses import dataclass

from cuda_harness.state.kernel import Launch, LaunchPlan, PlanStep, Repeat, While
from cuda_harness.tools.toolchain.source import SourceFacts

_CLOCKS = frozenset({"clock", "clock64", "__globaltimer", "globaltimer"})


@dataclass(frozen=True)
class PolicyFinding:
    """A refusal at a line, or a hint when `refused` is false."""

    refused: bool
    line: int | None
    message: str


def review(facts: SourceFacts, plan: LaunchPlan) -> list[PolicyFinding]:
    """Return refusals first, then hints."""
    found = [PolicyFinding(True, v.line, v.text) for v in facts.violations]
    own = sorted(
        n for n in facts.identifiers if n.startswith(("sim_", "__tsan_", "__ubsan_", "CUDA_HARNESS"))
    )
    if own:
        found.append(PolicyFinding(True, None, f"the name {own[0]!r} belongs to the harness; choose another"))
    for symbol in facts.globals:
        if symbol.space in {"device", "static"}:
            found.append(
                PolicyFinding(
                    False,
                    symbol.line,
                    f"device state {symbol.name!r} outlives a call; repeated calls are checked",
                )
            )
    clocks = sorted(facts.identifiers & _CLOCKS)
    if clocks:
        found.append(
            PolicyFinding(False, None, f"reads a clock ({clocks[0]}); results must not depend on it")
        )
    launched = set(launched_kernels(plan.steps))
    unused = [k.name for k in facts.kernels if k.name not in launched]
    if unused:
        found.append(PolicyFinding(False, None, f"kernel {unused[0]!r} is never launched by the plan"))
    return found


def launched_kernels(steps: tuple[PlanStep, ...]) -> list[str]:
    """Return the kernels that a plan names, in order."""
    names: list[str] = []
    for step in steps:
        if isinstance(step, Launch):
            names.append(step.launch)
        elif isinstance(step, (Repeat, While)):
            names.extend(launched_kernels(step.steps))
    return names
