"""What is run while a kernel is timed: sizes, contents that change, and the truths that timed calls are held against."""

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import FaultClass
from cuda_harness.state.suite import Case, Inputs
from cuda_harness.tools.execute.protocol import Executor
from cuda_harness.tools.ir.placement import expand_on
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.profile.floor import compulsory_bytes, tensor_bytes
from cuda_harness.tools.profile.session import Contender, Examined, Timed
from cuda_harness.tools.synthesize.inputs import draw, scalars_of
from cuda_harness.tools.synthesize.suite import Answer, Suite
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.cases import expected_of
from cuda_harness.tools.verify.compare import Mismatch, compare_outputs

Array = NDArray[Any]
_MOST_BYTES = 3 << 30
"""Most bytes of all content sets together: they are drawn on the host and sent once."""
_CHEAP_ELEMENTS = 1 << 22
"""Up to here the reference is asked about every content set, beyond it about the first alone."""
_SETS = 4


@dataclass(frozen=True)
class Wrong:
    """A timed call whose outputs are not right."""

    fault: FaultClass
    message: str


@dataclass
class Workload:
    """Target sizes with several sets of contents, equal scalars."""

    ir: KernelIR
    dims: dict[str, int]
    cases: tuple[Case, ...]
    contents: tuple[dict[str, Array], ...]
    answers: dict[int, Answer] = field(default_factory=dict)
    """Truth by content set, where it is known."""
    why_no_truth: str = ""
    right: set[tuple[int, str]] = field(default_factory=set)
    """Content sets and hashes of outputs that were found right: they are neither sent nor compared again."""

    @property
    def scalars(self) -> Mapping[str, Any]:
        """Values of the scalars, the same in every set."""
        return self.cases[0].scalars

    def contender(
        self, name: str, kernel: Kernel, executor: Executor, *, arch: str, tunables: Mapping[str, int] | None = None
    ) -> Contender | PlanFault:  # fmt: skip
        """Return a kernel as what a measurement takes, or what is wrong with its plan at these sizes."""
        program = expand_on(
            executor, kernel, self.ir, dims=self.dims, scalars=dict(self.scalars), kernels=inspect(kernel.source).kernels,
            arch=arch, tunables=dict(tunables) if tunables else None,
        )  # fmt: skip
        if isinstance(program, PlanFault):
            return program
        options = kernel.plan.compile
        return Contender(name, kernel.source, program, options.fast_math, options.max_registers)

    def compared(self, timed: Timed) -> bool:
        """Return whether a timed call was held against a truth."""
        return any(
            self._known(e) or (e.arrays is not None and e.chosen in self.answers) for e in timed.outputs
        )

    def wrong(self, timed: Timed) -> Wrong | None:
        """Return what is wrong with the outputs of examined timed calls, `None` when nothing is."""
        for examined in timed.outputs:
            if examined.chosen not in self.answers or self._known(examined) or examined.arrays is None:
                continue
            shaped = {t.name: examined.arrays[t.name].reshape(t.dims(self.dims)) for t in self.ir.outputs}
            truth = expected_of(self.answers[examined.chosen])
            found = compare_outputs(self.ir, self.dims, shaped, truth, inputs=self.contents[examined.chosen])
            if isinstance(found, Mismatch):
                return Wrong(
                    found.class_, f"a timed call of {timed.name} wrote a wrong result: {found.message}"
                )
            self.right.add((examined.chosen, examined.digest))
        return None

    def _known(self, examined: Examined) -> bool:
        return (examined.chosen, examined.digest) in self.right


def workload(
    ir: KernelIR, *, suite: Suite | None = None, specs: Inputs | None = None, seed: int | None = None,
    dims: Mapping[str, int] | None = None,
) -> Workload:  # fmt: skip
    """Return contents at the target sizes, the first set being the suite's own target case.

    Args:
        ir: The problem.
        suite: Gives data and truths; `None`: data by `specs`, and outputs are compared among contenders only.
        specs: How inputs are drawn when there is no suite.
        seed: For the data when there is no suite; `None`: a secret one.
        dims: Sizes; `None`: the target.
    """
    sizes = dict(dims) if dims else ir.target_dims
    cases = _cases(ir, suite, seed, sizes)
    spec = specs or Inputs()
    with ThreadPoolExecutor(max_workers=len(cases)) as pool:  # NumPy draws without the interpreter's lock
        contents = tuple(pool.map(suite.inputs if suite is not None else lambda c: draw(ir, spec, c), cases))
    made = Workload(ir, sizes, cases, contents)
    if suite is None:
        made.why_no_truth = "no reference was given"
    else:
        _ask(made, suite)
    return made


def _cases(ir: KernelIR, suite: Suite | None, seed: int | None, sizes: dict[str, int]) -> tuple[Case, ...]:
    if suite is not None:
        first = suite.cases("target", target=sizes)[0]
    else:
        drawn = seed if seed is not None else secrets.randbits(48)
        first = Case(
            id="timed", stage="target", dims=sizes, scalars=scalars_of(ir, "timed", drawn), regime="normal", seed=drawn
        )  # fmt: skip
    one = sum(tensor_bytes(t, sizes) for t in ir.inputs)
    count = int(np.clip(_MOST_BYTES // max(1, one), 1, _SETS)) if one else 1
    if one > _MOST_BYTES // 16:
        count = min(count, 2)  # drawing hundreds of millions of numbers takes longer than timing them
    return tuple(
        first if k == 0 else first.model_copy(update={"id": f"{first.id}-set{k}", "seed": first.seed + 7_919 * k})
        for k in range(count)
    )  # fmt: skip


def _ask(made: Workload, suite: Suite) -> None:
    cheap = compulsory_bytes(made.ir, made.dims) // 4 <= _CHEAP_ELEMENTS
    asked: Sequence[Case] = made.cases if cheap else made.cases[:1]
    answers = suite.answers(asked)
    if not isinstance(answers, dict):
        made.why_no_truth = answers.message
        return
    made.answers = {k: answers[c.id] for k, c in enumerate(made.cases) if c.id in answers}
    if not made.answers:
        made.why_no_truth = "the truth does not fit the outputs' types at the target size"
