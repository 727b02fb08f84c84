"""The names of a plan at certain sizes, and what is wrong with a plan: the candidate's failure, as arithmetic."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cuda_harness.state.expr import Expr, ExprError, Occupancy
from cuda_harness.state.results import CandidateFault, StageName
from cuda_harness.tools.execute.protocol import Buffer
from cuda_harness.tools.toolchain.source import KernelSignature


@dataclass(frozen=True)
class PlanFault:
    """Why a plan cannot run: the candidate's own mistake."""

    stage: StageName
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def class_(self) -> CandidateFault:
        """`parse` for what is wrong at any size, `launch_config` for what these sizes break."""
        return "parse" if self.stage == "parse" else "launch_config"


class Broken(Exception):  # noqa: N818 - names a condition
    """Carries a PlanFault out of the recursion."""

    def __init__(self, stage: StageName, message: str, **evidence: Any) -> None:  # noqa: ANN401
        super().__init__(message)
        self.fault = PlanFault(stage, message, evidence)


def unknown(what: str, name: str, known: Iterable[str]) -> Broken:
    """Return the fault of naming what does not exist; tells the known names and the nearest."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return Broken(
        "parse",
        f"the plan names an unknown {what} {name!r}{hint} (known: {', '.join(known) or 'none'})",
        name=name,
    )


class Scope:
    """What a plan may name, with its values; loop variables come and go."""

    def __init__(
        self, env: Mapping[str, int], scalars: Mapping[str, tuple[str, float]], kernels: Mapping[str, KernelSignature],
        occupancy: Occupancy,
    ) -> None:  # fmt: skip
        """Start without buffers.

        Args:
            env: Integers: dims, tunables, `num_sms`.
            scalars: dtype and value of each scalar.
            kernels: Signatures by name.
            occupancy: Answers `blocks_per_sm`.
        """
        self.env, self.scalars, self.kernels, self.occupancy = dict(env), scalars, kernels, occupancy
        self.buffers: dict[str, Buffer] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def value(self, expr: Expr, where: str) -> int:
        """Return an expression's value; what goes wrong names the place."""
        missing = expr.names - self.env.keys()
        if missing:
            name = min(missing)
            if name in self.scalars:
                raise Broken(
                    "parse",
                    f"{where}: {name!r} is a scalar; expressions hold dims, tunables and loop variables",
                )
            raise unknown(f"name in {where} ({expr.text!r}):", name, self.env)
        for kernel in expr.kernels:
            if kernel not in self.kernels:
                raise unknown(f"kernel in {where}", kernel, self.kernels)
        try:
            return expr.evaluate(self.env, self.occupancy)
        except ExprError as exc:
            raise Broken("launch_config", f"{where}: {exc}", expression=expr.text) from exc

    def known(self, name: str, what: str) -> Buffer:
        """Return a buffer; raises Broken when there is none of this name."""
        if name not in self.buffers:
            raise unknown(what, name, self.buffers)
        return self.buffers[name]

    def axes(self, exprs: tuple[Expr, ...], where: str) -> tuple[int, int, int]:
        """Return the values of up to three axes, the missing ones 1."""
        values = [self.value(e, where) for e in exprs]
        padded = (*values, 1, 1)[:3]
        return (padded[0], padded[1], padded[2])
