"""Tuning without tokens: the tunables of a plan searched on the GPU; bad configurations are data."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import TimingNotMeasured
from cuda_harness.state.serde import sha256
from cuda_harness.tools.profile.compare import Comparison, judge_session
from cuda_harness.tools.profile.configurations import Bench, Check, reordered
from cuda_harness.tools.profile.search import Config, Trial, search, space
from cuda_harness.tools.profile.session import Clock
from cuda_harness.tools.profile.timing import run_session
from cuda_harness.tools.profile.workload import Workload
from cuda_harness.tools.synthesize.suite import Suite

_VERSION = 1


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
    bench = Bench(kernel, work, executor, suite, check, target, seed, limit_s)
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
