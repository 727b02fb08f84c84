"""A kernel's IR and plan as the data that a Python export interprets: every choice made, every pattern encoded."""

from typing import Any

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.expr import Expr
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import (
    Argument,
    Copy,
    Fill,
    Kernel,
    Launch,
    LaunchPlan,
    Pick,
    PlanStep,
    Repeat,
    Symbol,
    TensorMapArg,
)
from cuda_harness.tools.execute.protocol import DeviceFacts, FillOp, Program
from cuda_harness.tools.export.device import blocks_of
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.toolchain.source import KernelSignature, Parameter, inspect


def fill_pattern(ir: KernelIR, plan: LaunchPlan, step: Fill) -> bytes:
    """Return a fill's value in its buffer's dtype, by the same code that the executors use."""
    alone = plan.model_copy(update={"steps": (step.model_copy(update={"when": None}),)})
    done = expand(
        ir, alone, dims=ir.target_dims, scalars={}, tunables=None, kernels=(), device=DeviceFacts("any")
    )
    assert isinstance(done, Program)  # noqa: S101 - the whole plan was expanded before
    op = done.ops[0]
    assert isinstance(op, FillOp)  # noqa: S101 - it is the only step
    return op.pattern


def checked_program(ir: KernelIR, kernel: Kernel) -> Program:
    """Return the plan at the target sizes; raises ConfigError when it cannot run there."""
    done = expand(
        ir, kernel.plan, dims=ir.target_dims, scalars={}, tunables=None, kernels=inspect(kernel.source).kernels,
        device=DeviceFacts("any"),
    )  # fmt: skip
    if isinstance(done, PlanFault):
        msg = f"the plan cannot run at its target sizes: {done.message}"
        raise ConfigError(msg, remedy="export a kernel that `verify` accepts")
    return done


def plan_document(ir: KernelIR, kernel: Kernel) -> dict[str, Any]:
    """Return the document of `exported.plan.Plan`; raises ConfigError when the plan cannot run."""
    checked_program(ir, kernel)
    plan = kernel.plan
    signatures = {k.name: k for k in inspect(kernel.source).kernels}
    writer = _Writer(ir, plan, signatures)
    return {
        "name": ir.name,
        "dims": [{k: v for k, v in d.model_dump(mode="json").items() if k != "description"} for d in ir.dims],
        "constraints": [c.text for c in ir.constraints],
        "tensors": [
            {"name": t.name, "role": t.role, "dtype": t.dtype, "shape": _texts(t.shape)} for t in ir.tensors
        ],
        "scalars": [
            {"name": s.name, "dtype": s.dtype, "value": _plain(s.value), "fixed": s.fixed} for s in ir.scalars
        ],
        "scratch": [{"name": s.name, "dtype": s.dtype, "shape": _texts(s.shape)} for s in plan.scratch],
        "tunables": plan.default_tunables(),
        "defines": {n: e.text for n, e in plan.defines.items()},
        "occupancy": writer.occupancy(),
        "compile": plan.compile.model_dump(mode="json"),
        "steps": [writer.step(s) for s in plan.steps],
    }


def _texts(exprs: tuple[Expr, ...]) -> list[str]:
    return [e.text for e in exprs]


def _plain(value: float | bool) -> float | bool | str:
    """Return a scalar as JSON can hold it."""
    if isinstance(value, float) and (value != value or value in {float("inf"), float("-inf")}):  # noqa: PLR0124
        return str(value)
    return value


class _Writer:
    def __init__(self, ir: KernelIR, plan: LaunchPlan, signatures: dict[str, KernelSignature]) -> None:
        self.ir, self.plan, self.signatures = ir, plan, signatures
        self.buffers = {t.name for t in ir.tensors} | {s.name for s in plan.scratch}
        self.scalars = {s.name: s.dtype for s in ir.scalars}

    def occupancy(self) -> dict[str, Any]:
        """Return block and shared bytes of each kernel's first launch."""
        found = {name: blocks_of(self.plan, name) for name in self.signatures}
        return {n: [_texts(b[0]), b[1].text] for n, b in found.items() if b is not None}

    def step(self, step: PlanStep) -> dict[str, Any]:
        """Return one step."""
        when = step.when.text if step.when is not None else None
        match step:
            case Launch():
                parameters = self.signatures[step.launch].parameters
                return {
                    "do": "launch", "when": when, "kernel": step.launch, "grid": _texts(step.grid),
                    "block": _texts(step.block), "shared": step.shared_bytes.text, "cooperative": step.cooperative,
                    "cluster": _texts(step.cluster) if step.cluster else None,
                    "args": [self.argument(a, p) for a, p in zip(step.args, parameters, strict=True)],
                }  # fmt: skip
            case Fill():
                pattern = fill_pattern(self.ir, self.plan, step).hex()
                return {"do": "fill", "when": when, "buffer": step.fill, "pattern": pattern}
            case Copy():
                return {"do": "copy", "when": when, "to": step.copy_[0], "from": step.copy_[1]}
            case Symbol():
                return {"do": "symbol", "when": when, "symbol": step.symbol, "from": step.from_}
            case Repeat():
                steps = [self.step(s) for s in step.steps]
                return {
                    "do": "repeat",
                    "when": when,
                    "var": step.repeat.var,
                    "count": step.repeat.count.text,
                    "steps": steps,
                }
            case _:
                steps = [self.step(s) for s in step.steps]
                return {
                    "do": "while",
                    "when": when,
                    "flag": step.while_.flag,
                    "max": step.while_.max.text,
                    "steps": steps,
                }

    def argument(self, arg: Argument, parameter: Parameter) -> dict[str, Any]:
        """Return one argument with the type it is passed as."""
        if isinstance(arg, Pick):
            return {"pick": list(arg.pick), "index": arg.index.text}
        if isinstance(arg, TensorMapArg):
            spec = arg.tensor_map
            return {"tensor_map": {"tensor": spec.tensor, "box": _texts(spec.box), "swizzle": spec.swizzle,
                                   "l2": spec.l2, "oob": spec.oob}}  # fmt: skip
        if isinstance(arg, str) and arg in self.buffers:
            return {"buffer": arg}
        if isinstance(arg, str) and arg in self.scalars:
            return {"scalar": arg, "dtype": parameter.dtype or self.scalars[arg]}
        text, _, dtype = str(arg).rpartition(":") if ":" in str(arg) else (str(arg), "", "")
        return {"expr": text, "dtype": dtype.strip() or parameter.dtype or "int64"}
