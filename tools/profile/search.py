"""Search over the values of a plan's tunables: exhaustive when small, else by an optimiser's ask/tell or by halving.

What a configuration costs comes from the caller, so that every strategy runs on a synthetic landscape as well.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Config = dict[str, int]
TrialStatus = Literal["timed", "plan", "compile", "fault", "wrong", "not_run"]
EXHAUSTIVE = 24
"""Most configurations that are all tried."""
BUDGET = 48
"""Most configurations tried of a larger space."""
_BATCH = 12
_QUICK_ROUNDS, _FULL_ROUNDS = 10, 30


@dataclass(frozen=True)
class Trial:
    """One configuration and what came of it; a bad one is data, not an error."""

    tunables: Config
    status: TrialStatus
    reason: str = ""
    median_us: float | None = None
    relative: float | None = None
    """Median over that of the default in the same session; `None` unless timed."""

    @property
    def cost(self) -> float:
        """What is minimised; infinite for a configuration that does not count."""
        return self.relative if self.relative is not None else math.inf


Evaluate = Callable[[Sequence[Config], int], Sequence[Trial]]
"""Times configurations in turns with at least so many rounds; one trial for each, in order."""
Strategy = Literal["exhaustive", "optuna", "halving"]


@dataclass(frozen=True)
class Found:
    """A finished search."""

    strategy: Strategy
    trials: tuple[Trial, ...]
    """The last trial of each configuration tried."""
    total: int
    """Size of the space."""

    @property
    def best(self) -> Trial | None:
        """The cheapest timed configuration, `None` when none was timed; of equals the first."""
        timed = [t for t in self.trials if t.status == "timed"]
        return min(timed, key=lambda t: t.cost, default=None)


def configurations(tunables: Mapping[str, Sequence[int]]) -> list[Config]:
    """Return all configurations, the default (every first value) first."""
    names = list(tunables)
    values = [list(dict.fromkeys(tunables[n])) for n in names]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]


def space(tunables: Mapping[str, Sequence[int]]) -> int:
    """Return the number of configurations."""
    return math.prod(len(set(v)) for v in tunables.values())


def search(
    tunables: Mapping[str, Sequence[int]], evaluate: Evaluate, *, seed: int, budget: int = BUDGET, use_optuna: bool | None = None
) -> Found:  # fmt: skip
    """Return what a search found.

    Args:
        tunables: Values by name; the first of each is the default.
        evaluate: Times configurations.
        seed: Makes the search repeatable.
        budget: Most configurations of a space too large to try all.
        use_optuna: `None`: when it is installed.
    """
    total = space(tunables)
    if total <= EXHAUSTIVE:
        configs = configurations(tunables)
        trials = [t for part in _parts(configs) for t in evaluate(part, _FULL_ROUNDS)]
        return Found("exhaustive", _last(trials), total)
    if use_optuna if use_optuna is not None else has_optuna():
        return Found("optuna", _by_optuna(tunables, evaluate, seed, budget), total)
    return Found("halving", _by_halving(tunables, evaluate, seed, budget), total)


def has_optuna() -> bool:
    """Return whether optuna can be imported."""
    from importlib.util import find_spec

    return find_spec("optuna") is not None


def _by_halving(
    tunables: Mapping[str, Sequence[int]], evaluate: Evaluate, seed: int, budget: int
) -> tuple[Trial, ...]:
    """Try a seeded sample quickly, keep the better third, measure those well, then the neighbours of the best."""
    rng = np.random.default_rng(seed)
    sample = _sample(tunables, rng, max(2, budget * 2 // 3))
    trials = [t for part in _parts(sample) for t in evaluate(part, _QUICK_ROUNDS)]
    kept = sorted((t for t in trials if t.status == "timed"), key=lambda t: t.cost)[
        : max(1, len(sample) // 3)
    ]
    if not kept:
        return _last(trials)
    trials += [t for part in _parts([k.tunables for k in kept]) for t in evaluate(part, _FULL_ROUNDS)]
    tried = {_key(t.tunables) for t in trials}
    while (left := budget - len(tried)) > 0:
        best = min((t for t in trials if t.status == "timed"), key=lambda t: t.cost)
        near = [c for c in _neighbours(tunables, best.tunables) if _key(c) not in tried][:left]
        if not near:
            break
        found = [t for part in _parts(near) for t in evaluate(part, _FULL_ROUNDS)]
        trials += found
        tried |= {_key(t.tunables) for t in found}
        if min((t.cost for t in found), default=math.inf) >= best.cost:
            break
    return _last(trials)


def _by_optuna(
    tunables: Mapping[str, Sequence[int]], evaluate: Evaluate, seed: int, budget: int
) -> tuple[Trial, ...]:
    """Ask a tree-structured Parzen estimator for batches and tell it what came of them."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed % (1 << 32), constant_liar=True))
    kinds: dict[str, optuna.distributions.BaseDistribution] = {
        n: optuna.distributions.CategoricalDistribution(list(dict.fromkeys(v))) for n, v in tunables.items()
    }
    study.enqueue_trial({n: v[0] for n, v in tunables.items()})
    seen: dict[tuple[tuple[str, int], ...], Trial] = {}
    asked = 0
    while len(seen) < budget and asked < 4 * budget:
        batch = [study.ask(kinds) for _ in range(min(_BATCH, budget - len(seen)))]
        asked += len(batch)
        fresh = {_key(dict(t.params)): dict(t.params) for t in batch if _key(dict(t.params)) not in seen}
        if fresh:
            seen |= {_key(t.tunables): t for t in evaluate(list(fresh.values()), _FULL_ROUNDS)}
        for trial in batch:
            cost = seen[_key(dict(trial.params))].cost
            if math.isfinite(cost):
                study.tell(trial, cost)
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return tuple(seen.values())


def _sample(tunables: Mapping[str, Sequence[int]], rng: np.random.Generator, count: int) -> list[Config]:
    """Return distinct configurations, the default first."""
    names = list(tunables)
    values = [list(dict.fromkeys(tunables[n])) for n in names]
    found = {_key(c): c for c in [{n: v[0] for n, v in zip(names, values, strict=True)}]}
    total = math.prod(map(len, values))
    while len(found) < min(count, total):
        drawn = {n: int(v[int(rng.integers(len(v)))]) for n, v in zip(names, values, strict=True)}
        found[_key(drawn)] = drawn
    return list(found.values())


def _neighbours(tunables: Mapping[str, Sequence[int]], config: Config) -> list[Config]:
    """Return configurations that differ in one tunable by one step of its sorted values."""
    found = []
    for name, values in tunables.items():
        ordered = sorted(set(values))
        at = ordered.index(config[name])
        found += [{**config, name: ordered[i]} for i in (at - 1, at + 1) if 0 <= i < len(ordered)]
    return found


def _parts(configs: Sequence[Config]) -> list[Sequence[Config]]:
    return [configs[i : i + _BATCH] for i in range(0, len(configs), _BATCH)]


def _key(config: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(config.items()))


def _last(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    return tuple({_key(t.tunables): t for t in trials}.values())
