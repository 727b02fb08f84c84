"""Configurations of one kernel, compiled off the GPU, checked, and timed in turns."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import CompileOk
from cuda_harness.tools.execute.protocol import Job, JobFault, JobNotRun
from cuda_harness.tools.ir.placement import expand_on
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.profile.search import Config, Trial
from cuda_harness.tools.profile.session import Clock, Contender, Session, Timed, measure
from cuda_harness.tools.profile.workload import Workload
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.cases import expected_of
from cuda_harness.tools.verify.compare import Mismatch, compare_outputs

_TINY, _SHAPES = 3, 6
"""Cases of each stage that a configuration must pass before it is timed."""
Check = Callable[[Kernel], str | None]
"""Returns what is wrong with a kernel, `None` when nothing is."""


def reordered(kernel: Kernel, tunables: Mapping[str, int]) -> Kernel:
    """Return the kernel with these values as the defaults of its tunables, the others kept behind."""
    changed = {
        name: (tunables[name], *(v for v in values if v != tunables[name])) if name in tunables else values
        for name, values in kernel.plan.tunables.items()
    }
    return kernel.model_copy(update={"plan": kernel.plan.model_copy(update={"tunables": changed})})


class Bench:
    """Compiles, checks and times configurations of one kernel."""

    def __init__(
        self, kernel: Kernel, work: Workload, executor: Clock, suite: Suite | None, check: Check | None, arch: str, seed: int,
        limit_s: float,
    ) -> None:  # fmt: skip
        self.kernel, self.work, self.executor, self.suite, self.check = kernel, work, executor, suite, check
        self.arch, self.seed, self.limit_s = arch, seed, limit_s
        self.default = kernel.plan.default_tunables()
        self.bad: dict[str, Trial] = {}
        self.passed: set[str] = set()
        self.notes: list[str] = []
        self.sessions = 0

    def evaluate(self, configs: Sequence[Config], rounds: int) -> list[Trial]:
        """Return one trial for each configuration; the default is timed along, as the unit of `relative`."""
        with ThreadPoolExecutor(max_workers=max(2, min(8, os.cpu_count() or 2))) as pool:
            compiled = list(pool.map(self._prepare, configs))
        # One after the other: they run in one child, which is kept between them.
        prepared = [self._check(c, p) for c, p in zip(configs, compiled, strict=True)]
        ready = {i: p for i, p in enumerate(prepared) if isinstance(p, Contender)}
        trials: dict[int, Trial] = {i: p for i, p in enumerate(prepared) if isinstance(p, Trial)}
        if ready:
            trials |= self._time(configs, ready, rounds)
        return [trials[i] for i in range(len(configs))]

    def _prepare(self, config: Config) -> Contender | Trial:
        """Expand and compile one configuration."""
        name = _name(config)
        if name in self.bad:
            return self.bad[name]
        made = self.work.contender(name, reordered(self.kernel, config), self.executor, arch=self.arch)
        if isinstance(made, PlanFault):
            return Trial(config, "plan", made.message[:300])
        return self._compiled(config, made) or made

    def _check(self, config: Config, made: Contender | Trial) -> Contender | Trial:
        """Run a compiled configuration at small sizes; a failure is kept, so that it is paid for once."""
        name = _name(config)
        if isinstance(made, Contender) and name not in self.passed:
            found = self._checked(config, reordered(self.kernel, config))
            if found is None:
                self.passed.add(name)
            made = found or made
        if isinstance(made, Trial):
            self.bad[name] = made
        return made

    def _compiled(self, config: Config, made: Contender) -> Trial | None:
        done = self.executor.compile(
            made.source, arch=self.arch, macros=dict(made.program.macros), fast_math=made.fast_math, max_registers=made.max_registers
        )  # fmt: skip
        if isinstance(done, CompileOk):
            return None
        told = getattr(done, "log", "") or getattr(done, "message", "")
        return Trial(config, "compile", f"{done.status}: {told[:300]}")

    def _checked(self, config: Config, kernel: Kernel) -> Trial | None:
        """Run small cases of the suite; the default was verified before."""
        if config == self.default:
            return None
        if self.check is not None:
            wrong = self.check(kernel)
            if wrong is not None:
                return Trial(config, "wrong", wrong[:300])
        return self._small_cases(config, kernel) if self.suite is not None else None

    def _small_cases(self, config: Config, kernel: Kernel) -> Trial | None:
        suite, ir = self.suite, self.work.ir
        assert suite is not None  # noqa: S101 - the caller asked
        values = sorted(config.values())
        cases = [
            *suite.cases("tiny", tunables=values)[:_TINY],
            *suite.cases("shapes", tunables=values)[:_SHAPES],
        ]
        answers = suite.answers(cases)
        if not isinstance(answers, dict):
            return Trial(config, "not_run", f"the reference gives no truth: {answers.message[:200]}")
        signatures = inspect(kernel.source).kernels
        options = kernel.plan.compile
        for case in (c for c in cases if c.id in answers):
            program = expand_on(
                self.executor,
                kernel,
                ir,
                dims=case.dims,
                scalars=case.scalars,
                kernels=signatures,
                arch=self.arch,
            )
            if isinstance(program, PlanFault):
                return Trial(config, "plan", f"at sizes {case.dims}: {program.message[:200]}")
            inputs = suite.inputs(case)
            job = Job(
                kernel.source, program, (inputs,), poison=self.seed & 0xFFFF, fast_math=options.fast_math,
                max_registers=options.max_registers, arch=self.arch,
            )  # fmt: skip
            done = self.executor.run(job)
            if isinstance(done, JobFault):
                return Trial(config, "fault", f"{done.fault} at sizes {case.dims}: {done.message[:200]}")
            if isinstance(done, JobNotRun):
                return Trial(config, "not_run", done.message[:200])
            found = compare_outputs(
                ir, case.dims, done.calls[0].arrays, expected_of(answers[case.id]), inputs=inputs
            )
            if isinstance(found, Mismatch):
                return Trial(config, "wrong", f"at sizes {case.dims}: {found.message[:200]}")
        return None

    def _time(
        self, configs: Sequence[Config], ready: Mapping[int, Contender], rounds: int
    ) -> dict[int, Trial]:
        self.sessions += 1
        order = list(ready)
        base = self.work.contender("default", self.kernel, self.executor, arch=self.arch)
        lanes = [ready[i] for i in order] + ([base] if isinstance(base, Contender) else [])
        done = measure(
            self.executor, lanes, self.work.contents, arch=self.arch, seed=self.seed + self.sessions, precision=0.01, least=rounds,
            most=4 * rounds, limit_s=self.limit_s, truths=sorted(self.work.answers), known=sorted(self.work.right), outputs=bool(self.work.answers),
        )  # fmt: skip
        if not isinstance(done, Session):
            if len(order) > 1:  # one of them breaks the others: each gets a process of its own
                found: dict[int, Trial] = {}
                for i in order:
                    found |= self._time(configs, {i: ready[i]}, rounds)
                return found
            status: Literal["fault", "not_run"] = "fault" if isinstance(done, JobFault) else "not_run"
            return {order[0]: Trial(configs[order[0]], status, done.message[:300])}
        unit = done.timed[-1].median.value
        trials: dict[int, Trial] = {}
        for i, timed in zip(order, done.timed, strict=False):
            if self.work.answers and not self.work.compared(timed) and len(order) > 1:
                trials |= self._time(
                    configs, {i: ready[i]}, rounds
                )  # outputs of all were too much for one answer
            else:
                trials[i] = self._trial(configs[i], timed, unit)
        return trials

    def _trial(self, config: Config, timed: Timed, unit: float) -> Trial:
        wrong = self.work.wrong(timed)
        if wrong is not None:
            return Trial(config, "wrong", wrong.message[:300])
        return Trial(config, "timed", "", timed.median.value, timed.median.value / unit)


def _name(config: Mapping[str, int]) -> str:
    return " ".join(f"{n}={v}" for n, v in sorted(config.items()))
