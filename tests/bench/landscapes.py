"""Synthetic timing landscapes: what the Evolver's rules find, against random search, with noise as a GPU has it.

A landscape says how much each idea changes the time of a kernel that already has others, what the profile shows, and
which ideas need others first. Both searches use the same contests: paired samples, judged as on a GPU.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

from tests.fakes.judge import FakeJudge

from cuda_harness.agents.evolver import decide
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Budget
from cuda_harness.state.harness import EvolverView
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.lineage import base_of
from cuda_harness.state.results import Failure, Timing, Verdict
from cuda_harness.state.rounds import BranchPlan, Contest
from cuda_harness.tools.evolve.contest import by_time, measured
from cuda_harness.tools.evolve.strategies import BY_NAME
from cuda_harness.tools.evolve.traits import Evidence, SourceTrait, ir_traits
from cuda_harness.tools.profile.compare import Comparison, judge_samples

Applied = frozenset[str]
START_US = 400.0
SAMPLES = 40
CAP = 60
"""Evaluations after which a search that has not arrived counts as having taken this many."""
LEAVES: dict[str, SourceTrait] = {
    "vector_loads": "vector", "shared_tiling": "shared", "warp_shuffle_reduction": "shuffle", "double_buffering": "async",
    "tensor_cores": "mma", "launch_bounds": "bounds", "persistent_grid": "persistent", "instruction_parallelism": "unrolled",
    "bank_conflict_padding": "padded", "two_stage_reduction": "several_launches", "split_k": "several_launches",
    "lookback_scan": "lookback", "transposing_through_shared": "shared", "privatised_atomics": "shared",
}  # fmt: skip
"""What a kernel's text shows once an idea is in it."""


@dataclass(frozen=True)
class Landscape:
    """One kind of problem."""

    name: str
    op: str
    shapes: tuple[tuple[str, ...], tuple[str, ...]]
    effects: Mapping[str, float]
    """Speed-up of each idea that does something; every other one does nothing or harm."""
    bound: str = "memory"
    needs: Mapping[str, str] = field(default_factory=dict)
    """Ideas that only work on top of another."""
    clashes: tuple[tuple[str, str], ...] = ()
    """Pairs of which the second gains nothing beside the first."""
    source: frozenset[SourceTrait] = frozenset()
    metrics: Mapping[str, float] = field(default_factory=dict)
    dtype: str = "float32"

    @property
    def ir(self) -> KernelIR:
        """The problem."""
        given, made = self.shapes
        return KernelIR.model_validate({
            "name": "f", "dims": [{"name": "m", "value": 4096}, {"name": "n", "value": 4096}],
            "tensors": [{"name": "x", "role": "in", "dtype": self.dtype, "shape": given},
                        {"name": "y", "role": "out", "dtype": self.dtype, "shape": made}],
            "steps": [{"id": "s", "op": self.op, "reads": ["x"], "writes": ["y"]}], "mapping": {"bound": self.bound},
        })  # fmt: skip


_MATRIX, _ROWS, _ONE = (("m", "n"), ("m", "n")), (("m", "n"), ("m",)), (("m", "n"), ())
LANDSCAPES: tuple[Landscape, ...] = (
    Landscape("element-wise, memory", "axpy", _MATRIX, {"vector_loads": 1.5, "persistent_grid": 1.1, "instruction_parallelism": 1.15}),
    Landscape(
        "rows, several passes", "softmax", _ROWS,
        {"online_one_pass": 1.8, "vector_loads": 1.35, "warp_shuffle_reduction": 1.3, "persistent_grid": 1.05},
        source=frozenset({"row_loops"}),
    ),
    Landscape(
        "product, steps that need each other", "matmul", _MATRIX,
        {"shared_tiling": 3.5, "register_blocking": 2.2, "double_buffering": 1.25, "bank_conflict_padding": 1.15},
        bound="compute", metrics={"shared_bank_conflicts": 100.0},
        needs={"register_blocking": "shared_tiling", "double_buffering": "shared_tiling", "bank_conflict_padding": "shared_tiling"},
    ),
    Landscape(
        "one number, latency", "reduce_sum", _ONE,
        {"two_stage_reduction": 5.0, "vector_loads": 1.3, "instruction_parallelism": 1.25, "warp_shuffle_reduction": 1.2},
        bound="latency",
    ),
    Landscape(
        "histogram, contended atomics", "histogram", (("m",), ("n",)),
        {"privatised_atomics": 6.0, "instruction_parallelism": 1.2}, source=frozenset({"atomic"}), bound="latency",
    ),
    Landscape(
        "deceptive: the best prior gains nothing", "reduce_max", _ONE,
        {"warp_shuffle_reduction": 1.6, "instruction_parallelism": 1.5, "vector_loads": 1.1},
        clashes=(("instruction_parallelism", "vector_loads"),), bound="latency",
    ),
    Landscape(
        "transpose, scattered", "transpose", (("m", "n"), ("n", "m")),
        {"transposing_through_shared": 3.2, "bank_conflict_padding": 1.3},
        needs={"bank_conflict_padding": "transposing_through_shared"}, metrics={"shared_bank_conflicts": 9.0},
    ),
)  # fmt: skip


class World:
    """A landscape with one seed's fortunes: true gains, kernels that fail, noisy clocks."""

    def __init__(self, landscape: Landscape, seed: int) -> None:
        self.landscape = landscape
        self._random = random.Random(f"{landscape.name}/{seed}")
        self.gains = {
            name: (landscape.effects[name] * self._random.lognormvariate(0, 0.05))
            if name in landscape.effects
            else self._random.uniform(0.8, 1.0)
            for name in BY_NAME
        }
        self.evaluations = 0

    def time_us(self, applied: Applied) -> float:
        """Return the true time of a kernel that has these ideas."""
        gain = 1.0
        for name in applied:
            needed = self.landscape.needs.get(name)
            if needed is not None and needed not in applied:
                gain *= 0.95
            elif any(second == name and first in applied for first, second in self.landscape.clashes):
                gain *= 1.0
            else:
                gain *= self.gains[name]
        return START_US / gain

    @property
    def best_us(self) -> float:
        """The time of the best set of ideas."""
        useful = list(self.landscape.effects)
        sets = (frozenset(s) for k in range(len(useful) + 1) for s in combinations(useful, k))
        return min(self.time_us(s) for s in sets)

    def arrived(self, applied: Applied) -> bool:
        """Whether a kernel is within five in a hundred of the best."""
        return self.time_us(applied) <= 1.05 * self.best_us

    def is_right(self) -> bool:
        """Pay one evaluation; one kernel of ten stays wrong."""
        self.evaluations += 1
        return self._random.random() < 0.9

    def measure(self, base: Applied, challenger: Applied) -> Comparison:
        """Return the comparison of two kernels timed in turns, under drift, jitter and outliers."""
        times = self.time_us(base), self.time_us(challenger)
        return measured(lambda _: noisy(*times, self._random), seed=0)


def noisy(base_us: float, challenger_us: float, source: random.Random) -> Comparison:
    """Return the judgement of paired samples with two in a hundred jitter, a drifting clock and rare interruptions."""
    drift, first, second = 1.0, [], []
    for _ in range(SAMPLES):
        drift *= 1 + source.gauss(0, 0.003)
        for true, kept in ((base_us, first), (challenger_us, second)):
            outlier = source.uniform(1.2, 3.0) if source.random() < 0.03 else 1.0
            kept.append(true * drift * source.lognormvariate(0, 0.02) * outlier)
    return judge_samples(first, second)


def evolve(world: World) -> int:
    """Return how many branches the Evolver's rules tried until they arrived."""
    landscape = world.landscape
    kernels: dict[int, Applied] = {1: frozenset()}
    judge = _WorldJudge(landscape.ir, world, kernels)
    state = EvolverView(
        ir=landscape.ir, attempts={1: _timed(Attempt(id=1, sha256="1", design="1"), START_US)},
        budget=Budget(rounds=100, patience=100, branches=2, target_sol_fraction=1.0),
    )  # fmt: skip
    while world.evaluations < CAP:
        update = decide(state, judge)
        decision = update["decision"]
        rounds = {**state.rounds, **update.get("rounds", {})}
        base = base_of(state.attempts, rounds)
        if base is not None and world.arrived(kernels[base.id]):
            return world.evaluations
        if decision is None or decision.action != "branch":
            return CAP
        made = [_try(plan, world, kernels) for plan in decision.branches]
        attempts = {**state.attempts, **{a.id: a for a in made}}
        state = state.model_copy(update={"decision": decision, "rounds": rounds, "attempts": attempts})
    return CAP


def _try(plan: BranchPlan, world: World, kernels: dict[int, Applied]) -> Attempt:
    kernels[plan.first] = kernels[plan.parent] | {plan.strategy}
    record = Attempt(
        id=plan.first, parent=plan.parent, branch=plan.name, strategy=plan.strategy, sha256=str(plan.first),
        design=str(plan.first),
    )  # fmt: skip
    if world.is_right():
        return _timed(record, world.time_us(kernels[plan.first]))
    wrong = Failure.model_validate({"stage": "shapes", "class": "mismatch", "message": "y[0]"})
    verdict = Verdict(outcome="rejected", executor="synthetic", failure=wrong)
    return record.model_copy(update={"verdict": verdict})


def _timed(record: Attempt, microseconds: float) -> Attempt:
    timing = Timing(
        median_us=microseconds, ci95_us=(microseconds, microseconds), samples=SAMPLES, device="synthetic"
    )
    verdict = Verdict(outcome="accepted", executor="synthetic")
    return record.model_copy(update={"verdict": verdict, "timing": timing})


class _WorldJudge(FakeJudge):
    """Evidence and contests of a world."""

    def __init__(self, ir: KernelIR, world: World, kernels: dict[int, Applied]) -> None:
        super().__init__(ir)
        self._world, self._kernels = world, kernels

    def evidence(self, attempt: Attempt) -> Evidence:
        landscape = self._world.landscape
        applied = self._kernels[attempt.id]
        source = landscape.source | {LEAVES[name] for name in applied if name in LEAVES}
        metrics = dict(landscape.metrics) if "shared" in source else {}
        if "bank_conflict_padding" in applied:
            metrics.pop("shared_bank_conflicts", None)
        return Evidence(self.ir, ir_traits(self.ir), source, bound=landscape.bound, metrics=metrics)

    def contest(self, base: Attempt, challenger: Attempt, *, number: int) -> Contest:
        measured = self._world.measure(self._kernels[base.id], self._kernels[challenger.id])
        return by_time(base.id, challenger.id, measured, seed=number)


def search_at_random(world: World, seed: int) -> int:
    """Return how many kernels random search needs: any idea that the best kernel has not, kept if it wins its contest."""
    source = random.Random(seed)
    best: Applied = frozenset()
    while world.evaluations < CAP:
        if world.arrived(best):
            return world.evaluations
        idea = source.choice(sorted(set(BY_NAME) - best))
        if world.is_right() and by_time(1, 2, world.measure(best, best | {idea})).better:
            best |= {idea}
    return CAP


def evaluations(seeds: int = 20) -> dict[str, tuple[float, float]]:
    """Return mean evaluations of the Evolver and of random search for each landscape."""
    found = {}
    for landscape in LANDSCAPES:
        ours = [evolve(World(landscape, seed)) for seed in range(seeds)]
        theirs = [search_at_random(World(landscape, seed), seed) for seed in range(seeds)]
        found[landscape.name] = (sum(ours) / seeds, sum(theirs) / seeds)
    return found


def noise_accept_rate(trials: int = 400) -> float:
    """Return the share of contests between two equal kernels that a challenger wins."""
    source = random.Random(7)
    found = (measured(lambda _: noisy(100.0, 100.0, source), seed=0) for _ in range(trials))
    return sum(by_time(1, 2, one).better for one in found) / trials
