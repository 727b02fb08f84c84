"""Any run ends within its budget with its best verified kernel, whatever its branches bring and in whatever order."""

import itertools
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.judge import FakeJudge, Ratio

from cuda_harness.agents.evolver import decide
from cuda_harness.graph.routers import after_evolver, branch_after_coder, branch_after_verifier, branches_of
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Budget, Stop
from cuda_harness.state.harness import BranchState, EvolverView, HarnessState
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.lineage import base_of
from cuda_harness.state.results import Failure, Timing, Verdict
from cuda_harness.state.rounds import BranchEnd
from cuda_harness.tools.evolve.strategies import STRATEGIES

IR = KernelIR.model_validate({
    "name": "k", "dims": [{"name": "n", "value": 4096}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                {"name": "y", "role": "out", "dtype": "float32", "shape": []}],
    "steps": [{"id": "s", "op": "reduce_sum", "reads": ["x"], "writes": ["y"]}],
})  # fmt: skip
GOOD = Verdict(outcome="accepted", executor="cuda:0")
CLASSES = ["mismatch", "data_race", "compile", "timeout", "unsupported", "environment", "oracle"]


def rejected(class_: str, number: int) -> Verdict:
    failure = Failure.model_validate(
        {"stage": "tiny", "class": class_, "message": f"{class_} {'abc'[number % 3]}"}
    )
    ours = class_ in {"unsupported", "environment", "oracle"}
    return Verdict(outcome="undecided" if ours else "rejected", executor="cuda:0", failure=failure)


def timed(record: Attempt, microseconds: float) -> Attempt:
    timing = Timing(
        median_us=microseconds, ci95_us=(microseconds, microseconds), samples=9, device="synthetic"
    )
    return record.model_copy(update={"verdict": GOOD, "timing": timing})


def run_branch(branch: BranchState, chance: random.Random, times: dict[int, float]) -> dict[str, Any]:
    """Walk a branch by its own routers, its author and its judge being chance."""
    step = "coder"
    for _ in range(200):
        number = max(branch.plan.first, max(branch.attempts) + 1)
        if step == "coder":
            if chance.random() < 0.25:
                end = BranchEnd(reason="not_applicable", detail="no")
                branch = branch.model_copy(update={"ended": {branch.plan.name: end}})
            elif chance.random() < 0.05:
                stop = Stop(reason="budget", detail="spent") if chance.random() < 0.3 else None
                end = BranchEnd(reason="stopped" if stop else "refused", stop=stop)
                branch = branch.model_copy(update={"ended": {branch.plan.name: end}})
            else:
                assert branch.plan.owns(number)
                unusable = chance.random() < 0.2
                made = Attempt(
                    id=number, parent=branch.plan.parent, branch=branch.plan.name, sha256=None if unusable else "0",
                    strategy=branch.plan.strategy if not branch.own else "repair", design=None if unusable else str(number),
                    unusable="no kernel" if unusable else "",
                )  # fmt: skip
                branch = branch.model_copy(update={"attempts": {**branch.attempts, number: made}})
            step = branch_after_coder(branch)
        elif step == "verifier":
            last = branch.attempts[max(branch.attempts)]
            if chance.random() < 0.5:
                times[last.id] = chance.uniform(10, 200)
                judged = timed(last, times[last.id])
            else:
                judged = last.model_copy(update={"verdict": rejected(chance.choice(CLASSES), last.id)})
            branch = branch.model_copy(update={"attempts": {**branch.attempts, last.id: judged}})
            step = branch_after_verifier(branch)
        else:
            return {"attempts": branch.attempts, "ended": branch.ended}
    msg = "a branch did not end"
    raise AssertionError(msg)


def run(
    state: HarnessState, judge: FakeJudge, chance: random.Random, times: dict[int, float]
) -> HarnessState:
    """Walk the performance rounds to their end; the order in which branches come back is chance."""
    for _ in range(500):
        update = decide(_view(state), judge)
        state = _with(state, update)
        went = after_evolver(state)
        if went == "deliver":
            return state
        assert not isinstance(went, str)
        came = [run_branch(branch, chance, times) for branch in branches_of(state)]
        chance.shuffle(came)
        for output in came:
            state = state.model_copy(
                update={
                    "attempts": {**state.attempts, **output["attempts"]},
                    "ended": {**state.ended, **output["ended"]},
                }
            )
    msg = "a run did not end"
    raise AssertionError(msg)


def _view(state: HarnessState) -> EvolverView:
    return EvolverView.model_validate(
        {name: getattr(state, name) for name in EvolverView.model_fields if hasattr(state, name)}
    )


def _with(state: HarnessState, update: Any) -> HarnessState:
    changes = {k: update[k] for k in ("decision", "stop") if k in update}
    return state.model_copy(update={**changes, "rounds": {**state.rounds, **update.get("rounds", {})}})


BUDGETS = st.builds(
    Budget, rounds=st.integers(0, 5), branches=st.integers(1, 4), branch_repairs=st.integers(0, 3),
    patience=st.integers(1, 3),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(budget=BUDGETS, seed=st.integers(0, 10_000), left=st.none() | st.integers(0, 12))
def test_a_run_ends_within_budget_with_its_best_verified_kernel(
    budget: Budget, seed: int, left: int | None
) -> None:
    chance, times = random.Random(seed), {1: 100.0}
    judge = FakeJudge(IR, times_us=times, left=left)
    state = run(_started(budget), judge, chance, times)

    assert state.stop is not None
    assert budget.rounds is not None
    counted = [
        r for r in state.rounds.values()
        if any(p.owns(i) for p in r.branches for i in state.attempts)
        or any(state.ended[p.name].reason != "not_applicable" for p in r.branches)
    ]  # fmt: skip
    assert len(counted) <= budget.rounds
    assert len(state.rounds) <= budget.rounds + len(STRATEGIES)
    assert len(state.attempts) <= 1 + budget.rounds * budget.branches * budget.attempts_per_branch
    best = base_of(state.attempts, state.rounds)
    assert best is not None
    assert best.status == "verified"
    assert times[best.id] <= 100.0, "the best kernel was replaced by less"
    for settled in state.rounds.values():
        assert settled.reason
        winner = settled.winner
        if winner is not None:
            assert state.attempts[winner].status == "verified"
            assert times[winner] < times[settled.base]


@settings(max_examples=25, deadline=None)
@given(budget=BUDGETS, seed=st.integers(0, 10_000))
def test_any_order_of_completion_gives_the_same_decision(budget: Budget, seed: int) -> None:
    times = {1: 100.0}
    judge = FakeJudge(IR, times_us=times)
    state = _with(_started(budget), decide(_view(_started(budget)), judge))
    if state.decision is None or state.decision.action != "branch":
        return
    came = [run_branch(branch, random.Random(seed + k), times) for k, branch in enumerate(branches_of(state))]
    decisions = []
    for order in itertools.permutations(came):
        joined = state
        for output in order:
            joined = joined.model_copy(
                update={
                    "attempts": {**joined.attempts, **output["attempts"]},
                    "ended": {**joined.ended, **output["ended"]},
                }
            )
        decisions.append(decide(_view(joined), judge))
    assert all(d == decisions[0] for d in decisions)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_noise_never_replaces_the_base_by_a_slower_kernel_it_was_told_apart_from(seed: int) -> None:
    chance, times = random.Random(seed), {1: 100.0}

    def measure(base: int, challenger: int, _number: int) -> Ratio:
        true = times[base] / times[challenger]
        seen = true * chance.lognormvariate(0, 0.01)
        return Ratio(seen, (seen * 0.96, seen * 1.04))

    judge = FakeJudge(IR, times_us=times, measure=measure)
    state = run(_started(Budget(rounds=4, branches=2)), judge, chance, times)
    best = base_of(state.attempts, state.rounds)
    assert best is not None
    assert times[best.id] <= 100.0


def _started(budget: Budget) -> HarnessState:
    first = timed(Attempt(id=1, sha256="1", design="1"), 100.0)
    return HarnessState(ir=IR, run_dir="r", budget=budget, attempts={1: first})
