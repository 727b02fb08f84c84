"""What is checked of a written kernel before anything is built: it costs nothing and saves an attempt.

Only what no compiler or run is needed for; the verifier decides everything else.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from cuda_harness.agents.reply import ReplyFault
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, Launch, LaunchPlan, PlanStep, Repeat, While
from cuda_harness.state.serde import sha256

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\.?\d(?:[\w.]|[eEpP][+-])*|\s+|.', re.DOTALL)


def check_kernel(kernel: Kernel, ir: KernelIR, earlier: Mapping[int, str]) -> None:
    """Pass, or raise ReplyFault with what the author must mend.

    Args:
        kernel: The candidate.
        ir: What it must compute.
        earlier: Identity (`design_sha256`) of each earlier attempt.
    """
    from cuda_harness.tools.execute.protocol import DeviceFacts
    from cuda_harness.tools.ir.program import PlanFault, expand
    from cuda_harness.tools.toolchain.source import inspect

    found = inspect(kernel.source).kernels
    for entry in launched(kernel.plan):
        signature = next((k for k in found if k.name == entry), None)
        if signature is None and re.search(rf"\b{entry}\b", kernel.source) is None:
            names = ", ".join(k.name for k in found) or "none"
            msg = f"the plan launches {entry!r}, but kernel.cu has no such kernel (it has: {names})"
            raise ReplyFault(msg)
        if signature is not None and not signature.is_extern_c:
            msg = f'kernel {entry!r} must be declared extern "C" __global__ void'
            raise ReplyFault(msg)
    program = expand(
        ir,
        kernel.plan,
        dims=ir.target_dims,
        scalars={},
        tunables=None,
        kernels=found,
        device=DeviceFacts("any"),
    )
    if isinstance(program, PlanFault) and program.class_ == "parse":
        raise ReplyFault(program.message)
    same = [attempt for attempt, identity in earlier.items() if identity == design_sha256(kernel)]
    if same:
        msg = f"this is attempt {same[0]} again, token for token; what was judged once is not judged twice, so change the kernel"
        raise Repeated(msg, same[0])


class Repeated(ReplyFault):
    """The kernel was written before."""

    def __init__(self, message: str, attempt: int) -> None:
        super().__init__(message)
        self.attempt = attempt


def launched(plan: LaunchPlan) -> list[str]:
    """Return the kernels that a plan launches, each once, in order."""

    def walk(steps: Sequence[PlanStep]) -> Iterator[str]:
        for step in steps:
            if isinstance(step, Launch):
                yield step.launch
            elif isinstance(step, (Repeat, While)):
                yield from walk(step.steps)

    return list(dict.fromkeys(walk(plan.steps)))


def design_sha256(kernel: Kernel) -> str:
    """Return the identity of a kernel by its tokens and plan: comments, spacing and notes do not count."""
    from cuda_harness.tools.toolchain.directives import blank_comments

    parts = []
    for line in blank_comments(kernel.source).replace("\\\n", " ").split("\n"):
        text = " ".join(token for token in _TOKEN.findall(line) if not token.isspace())
        if text:  # a line break only matters to directives: it ends them
            parts.append(f"\n{text}\n" if text.startswith("#") else f"{text} ")
    plan = kernel.plan.model_copy(update={"notes": ""})
    return sha256({"tokens": "".join(parts), "plan": plan})
