"""Tuning without tokens: the tunables of a plan searched on the GPU; bad configurations are data."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import CompileOk, TimingNotMeasured
from cuda_harness.state.serde import sha256
from cuda_harness.tools.execute.protocol import Job, JobFault, JobNotRun
from cuda_harness.tools.ir.placement import expand_on
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.profile.compare import Comparison, judge_session
from cuda_harness.tools.profile.search import Config, Trial, search, space
from cuda_harness.tools.profile.session import Clock, Contender, Session, Timed, measure
from cuda_harness.tools.profile.timing import run_session
from cuda_harness.tools.profile.workload import Workload
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.cases import expected_of
from cuda_harness.tools.verify.compare import Mismatch, compare_outputs

_VERSION = 1
_TINY, _SHAPES = 3, 6
"""Cases of each stage that a configuration must pass before it is timed."""
Check = Callable[[Kernel], str | None]
"""Returns what is wrong with a kernel, `None` when nothing is."""


@dataclass(frozen=True)
class Tuning:
    """What tuning found; `kernel` has the winning value of each tunable first."""

    kernel: Kernel
    tunables: Config
    strategy: str
    total: int
    trials: tuple[Trial, ...]
    comparison: Comparison | None
    """Default against winner in turns; `None` when the default stayed without one."""
    changed: bool
    notes: tuple[str, ...] = ()
    cached: bool = False


def reordered(kernel: Kernel, tunables: Mapping[str, int]) -> Kernel:
    """Return the kernel with these values as the defaults of its tunables, the others kept behind."""
    changed = {
        name: (tunables[name], *(v for v in values if v != tunables[name])) if name in tunables else values
        for name, values in kernel.plan.tunables.items()
    }
    return kernel.model_copy(update={"plan": kernel.plan.model_copy(update={"tunables": changed})})


def tune(
    kernel: Kernel, work: Workload, executor: Clock, *, suite: Suite | None = None, check: Check | None = None, arch: str | None = None,
    seed: int = 0, budget: int = 48, limit_s: float = 6.0, cache: Path | None = None, use_cache: bool = True,
) -> Tuning | TimingNotMeasured:  # fmt: skip
    """Return the best configuration of a verified kernel at the workload's sizes.

    Each configuration is compiled off the GPU, checked (tiny and other shapes through `suite`, target outputs through
    the timed calls themselves) and only then counts. The default gives way to a winner that is told apart from it.

    Args:
        kernel: Verified with its default tunables.
        work: Contents and truths at the target.
        executor: The GPU.
        suite: Cases of small sizes; `None`: only target outputs are checked.
        check: Another check before timing, for example the whole ladder.
        arch: Architecture; `None`: the device's own.
        seed: For search, order and contents.
        budget: Most configurations of a space too large to try all.
        limit_s: Wall seconds of the timed rounds of a batch.
        cache: Folder of results by kernel, device and size; `None`: the user's cache folder.
        use_cache: Whether a kept result is taken.
    """
    target = arch or str(executor.facts()["arch"])
    default = kernel.plan.default_tunables()
    if space(kernel.plan.tunables) <= 1:
        return Tuning(
            kernel, default, "none", 1, (), None, changed=False, notes=("the plan has nothing to choose",)
        )
    path = _path(kernel, work, executor, cache)
    kept = _read(path, kernel) if use_cache else None
    if kept is not None:
        return kept
    bench = _Bench(kernel, work, executor, suite, check, target, seed, limit_s)
    found = search(kernel.plan.tunables, bench.evaluate, seed=seed, budget=budget)
    best = found.best
    if best is None:
        reasons = "; ".join(dict.fromkeys(t.reason for t in found.trials if t.reason))
        return TimingNotMeasured(reason=f"no configuration was timed: {reasons[:400]}")
    comparison: Comparison | None = None
    notes: list[str] = list(bench.notes)
    winner = default
    if best.tunables != default:
        # A session of its own: the best of many by luck does not stay the best.
        session = run_session(
            [("default", kernel), ("winner", reordered(kernel, best.tunables))], work, executor, arch=target, seed=seed + 1, limit_s=limit_s
        )  # fmt: skip
        if isinstance(session, TimingNotMeasured):
            notes.append(f"the winner was not confirmed: {session.reason}")
        else:
            wrong = work.wrong(session.timed[1])
            comparison = judge_session(session)
            if wrong is not None:
                notes.append(wrong.message)
            elif comparison.faster == "b":
                winner = best.tunables
    made = Tuning(
        reordered(kernel, winner), dict(winner), found.strategy, found.total, found.trials, comparison,
        changed=winner != default, notes=tuple(notes),
    )  # fmt: skip
    _keep(path, made)
    return made


class _Bench:
    """Compiles, checks and times configurations of one kernel."""

    def __init__(
        self, kernel: Kernel, work: Workload, executor: Clock, suite: Suite | None, check: Check | None, arch: str, seed: int,
        limit_s: float,
    ) -> None:  # fmt: skip
        self.kernel, self.work, self.executor, self.suite, self.check = kernel, work, executor, suite, check
        self.arch, self.seed, self.limit_s = arch, seed, limit_s
        self.default = kernel.plan.default_tunables()
        self.bad: dict[str, Trial] = {}
        self.notes: list[str] = []
        self.sessions = 0

    def evaluate(self, configs: Sequence[Config], rounds: int) -> list[Trial]:
        """Return one trial for each configuration; the default is timed along, as the unit of `relative`."""
        with ThreadPoolExecutor(max_workers=max(2, min(8, os.cpu_count() or 2))) as pool:
            prepared = list(pool.map(self._prepare, configs))
        ready = {i: p for i, p in enumerate(prepared) if isinstance(p, Contender)}
        trials: dict[int, Trial] = {i: p for i, p in enumerate(prepared) if isinstance(p, Trial)}
        if ready:
            trials |= self._time(configs, ready, rounds)
        return [trials[i] for i in range(len(configs))]

    def _prepare(self, config: Config) -> Contender | Trial:
        """Expand, compile and check one configuration; a failure is kept, so that it is paid for once."""
        name = _name(config)
        if name in self.bad:
            return self.bad[name]
        kernel = reordered(self.kernel, config)
        made = self.work.contender(name, kernel, self.executor, arch=self.arch)
        found: Trial | None = None
        if isinstance(made, PlanFault):
            found = Trial(config, "plan", made.message[:300])
        else:
            found = self._compiled(config, made) or self._checked(config, kernel)
        if found is not None:
            self.bad[name] = found
            return found
        assert isinstance(made, Contender)  # noqa: S101 - a plan's fault became a trial above
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
            most=4 * rounds, limit_s=self.limit_s, truths=sorted(self.work.answers), outputs=bool(self.work.answers),
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


def _path(kernel: Kernel, work: Workload, executor: Clock, cache: Path | None) -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    folder = cache or (Path(base) if base else Path.home() / ".cache") / "cuda-harness" / "tuning"
    key = sha256({
        "kernel": kernel, "device": str(executor.facts()["uuid"]), "dims": work.dims, "ir": work.ir, "version": _VERSION,
    })  # fmt: skip
    return folder / f"{key[:40]}.json"


def _keep(path: Path, made: Tuning) -> None:
    document = {
        "tunables": made.tunables, "strategy": made.strategy, "total": made.total, "changed": made.changed, "notes": made.notes,
        "trials": [asdict(t) for t in made.trials], "comparison": asdict(made.comparison) if made.comparison else None,
    }  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(document, indent=1))
        temporary.replace(path)
    except OSError:
        return  # searched anew next time


def _read(path: Path, kernel: Kernel) -> Tuning | None:
    """Return a kept result, `None` when there is none that fits."""
    try:
        found = json.loads(path.read_text())
        told = found["comparison"]
        if told is not None:
            told = Comparison(**{**told, "ci95": tuple(told["ci95"]), "notes": tuple(told["notes"])})
        tunables = {str(n): int(v) for n, v in found["tunables"].items()}
        if any(v not in kernel.plan.tunables.get(n, ()) for n, v in tunables.items()):
            return None
        return Tuning(
            reordered(kernel, tunables), tunables, str(found["strategy"]), int(found["total"]),
            tuple(Trial(**t) for t in found["trials"]), told, changed=bool(found["changed"]),
            notes=tuple(found["notes"]), cached=True,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
