"""The plan under construction: kernels, launches, scratch and tunables of one lowering."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda_harness.agents.llm.offline.lowering.emit import KernelText, headers
from cuda_harness.state.expr import Expr
from cuda_harness.tools.formula.binding import Problem

MAX_BLOCKS = 1_048_576
"""Blocks of a grid that strides; far below the limit of x, far above what fills a GPU."""


@dataclass
class Building:
    """What the skills add to, and what becomes `kernel.cu` and `plan.json`."""

    problem: Problem
    tunables: dict[str, list[int]] = field(default_factory=dict)
    defines: dict[str, str] = field(default_factory=dict)
    """Macros whose value follows from the sizes; each value is a compilation of its own."""
    scratch: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    helpers: dict[str, str] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def kernel(self, wanted: str) -> KernelText:
        """Return an empty kernel with an unused name."""
        name, number = wanted, 2
        taken = {*self.names, *self.problem.arrays, *self.problem.scalars, *self.problem.dims, *self.helpers}
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        self.names.add(name)
        types = {name: dtype for name, (dtype, _) in self.scratch.items()}
        return KernelText(self.problem, name, types=types)

    def tune(self, name: str, values: Sequence[int]) -> str:
        """Declare a tunable; all skills of one plan share its value."""
        self.tunables.setdefault(name, list(values))
        return name

    def define(self, name: str, expression: str) -> str:
        """Declare a macro that follows from the sizes, and return its name: numbered where another expression has it."""
        own, number = name, 2
        while own in self.tunables or self.defines.get(own, expression) != expression:
            own, number = f"{name}{number}", number + 1
        self.defines[own] = expression
        return own

    def own_pack(self, text: KernelText, skill: str, width: str) -> None:
        """Give a kernel a VEC and a Pack of its own, VEC elements wide."""
        vec = self.define(f"{skill.upper()}_VEC", width)
        text.macros |= {
            "VEC": vec,
            "Pack": f"Pack{vec.removesuffix('_VEC').replace('_VEC', '').capitalize()}",
        }
        text.helpers["Pack"] = "template <typename T> struct alignas(sizeof(T) * VEC) Pack { T v[VEC]; };"

    def at_target(self, expression: str) -> int:
        """Return the value of a size expression at the target size."""
        return Expr(expression).evaluate(self.problem.ir.target_dims)

    def keep(self, array: str) -> None:
        """Give an intermediate a scratch buffer."""
        known = self.problem.arrays[array]
        if known.kind == "intermediate" and array not in self.scratch:
            self.scratch[array] = (known.dtype, list(known.shape))

    def add(self, text: KernelText, body: str) -> None:
        """Take a finished kernel in."""

        def named(source: str) -> str:
            for own, name in text.macros.items():
                source = re.sub(rf"\b{own}\b", name, source)
            return source

        for helper in map(named, text.helpers.values()):
            self.helpers.setdefault(
                helper, helper
            )  # keyed by text: float and double forms of one name are overloads
        self.kernels.append(named(body))

    def launch(
        self, text: KernelText, *, grid: str, block: list[str | int], when: str | None = None, name: str = ""
    ) -> None:
        """Add a launch of `text`, or of its variant `name`, with the arguments it collected."""
        step: dict[str, Any] = {
            "launch": name or text.name,
            "grid": [grid],
            "block": block,
            "args": text.args,
        }
        if when is not None:
            step["when"] = when
        self.steps.append(step)

    def source(self) -> str:
        """Return kernel.cu."""
        body = "\n\n".join([*self.helpers.values(), *self.kernels])
        return f"{headers(self.problem, body)}{body}\n"

    def plan(self) -> dict[str, Any]:
        """Return plan.json."""
        return {
            "schema": "cuda-harness/plan/1",
            "tunables": self.tunables,
            **({"defines": self.defines} if self.defines else {}),
            "scratch": [{"name": n, "dtype": d, "shape": s} for n, (d, s) in self.scratch.items()],
            "steps": self.steps,
            "notes": "; ".join(dict.fromkeys(self.notes)),
        }


def striding_grid(total: str, per_block: str) -> str:
    """Return the blocks that cover `total` items, bounded: the kernel strides over the rest."""
    return f"min(cdiv({total}, {per_block}), {MAX_BLOCKS})"


def indent(lines: Sequence[str], depth: int) -> str:
    """Return lines of C at a depth of two spaces each."""
    return "\n".join("  " * depth + line if line else "" for line in lines)
