"""The Evolver: what to do next, by rules over attempts, verdicts and times; a model only for further ideas.

Everything it decides follows from the state and from what it measures for a decision, whatever order the branches
of a round came in.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from langgraph.runtime import Runtime

from cuda_harness.agents.context import RunContext
from cuda_harness.agents.ideas import Proposal
from cuda_harness.agents.weigh import Scales
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Stop
from cuda_harness.state.harness import Decision, EvolverView, StateUpdate, node
from cuda_harness.state.lineage import base_of, correctness_step, latest
from cuda_harness.state.results import Timing, TimingNotMeasured
from cuda_harness.state.rounds import BranchPlan, Contest, Round
from cuda_harness.tools.evolve.contest import choose
from cuda_harness.tools.evolve.ranking import Idea, ranked, trials
from cuda_harness.tools.evolve.traits import Evidence


class Judge(Protocol):
    """What the rules ask of the outside: evidence, contests, further ideas, and what is left to spend."""

    def evidence(self, attempt: Attempt) -> Evidence:
        """Return what is known of a verified kernel."""
        ...

    def contest(self, base: Attempt, challenger: Attempt, *, number: int) -> Contest:
        """Return whether a verified challenger beats the base; `number` chooses the seed."""
        ...

    def propose(
        self, base: Attempt, state: EvolverView, *, number: int, most: int, taken: Collection[str]
    ) -> tuple[Proposal, ...]:
        """Return further ideas beside those `taken` for this round, none when no model has any."""
        ...

    def skills(self, strategy: str, evidence: Evidence) -> tuple[str, ...]:
        """Return the skills worth showing with an idea."""
        ...

    def calls_left(self) -> int | None:
        """Return how many model calls the budget still allows, `None` without a limit."""
        ...


@node
def choose_next(state: EvolverView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return the decision: repair, redesign, a round of branches, or the end; settles the round that came back."""
    services = runtime.context.services(state.run_dir)
    budget = services.settings.budget  # a resumed run may have been given another one since it was planned
    state = state.model_copy(update={"budget": budget})
    update: StateUpdate = {**decide(state, Scales(services, state)), "budget": budget}
    decision, stop = update.get("decision"), update.get("stop")
    services.emit(
        "next_chosen",
        action=decision.action if decision else None,
        round=decision.round if decision else None,
        branches=", ".join(f"{b.name}: {b.strategy}" for b in decision.branches) or None
        if decision
        else None,
        reason=stop.reason if stop else None,
        detail=stop.detail[:300] if stop else None,
    )
    return update


def decide(state: EvolverView, judge: Judge) -> StateUpdate:
    """Return the same decision for the same attempts, whatever order they came in."""
    base = base_of(state.attempts, state.rounds)
    if base is None:
        return _towards_a_right_kernel(state)
    rounds = dict(state.rounds)
    changed = {}
    if rounds and not rounds[max(rounds)].reason:
        settled = settle(rounds[max(rounds)], state.attempts, judge)
        rounds[settled.number] = changed[settled.number] = settled
        base = state.attempts[settled.base_after]
    stop = why_stop(state, rounds, base, judge)
    planned = plan_round(state, rounds, base, judge) if stop is None else None
    if planned is None or not planned.branches:
        stop = stop or _without_ideas(base, judge.calls_left())
        confirmed = confirm(rounds, state, stop, judge)
        if confirmed is not None:
            rounds[confirmed.number] = changed[confirmed.number] = confirmed
            base = state.attempts[confirmed.base_after]
        return {"decision": _stopped(base), "stop": stop, "rounds": changed}
    decision = Decision(
        action="branch",
        parent=base.id,
        strategy=base.strategy,
        round=planned.number,
        branches=planned.branches,
    )
    return {"decision": decision, "rounds": {**changed, planned.number: planned}}


def _without_ideas(base: Attempt, left: int | None) -> Stop:
    """Return why no round could be planned: nothing fits, or too few calls are left to ask for what might."""
    if left is not None and left <= 1:
        detail = f"{left} model call is left, too few to ask for a further idea and have it written"
        return Stop(reason="budget", detail=detail)
    detail = f"attempt {base.id} is the best; no idea that fits it is left"
    return Stop(reason="strategies_exhausted", detail=detail)


def _stopped(best: Attempt) -> Decision:
    return Decision(action="stop", parent=best.id, strategy=best.strategy, branch=best.branch)


def _towards_a_right_kernel(state: EvolverView) -> StateUpdate:
    last = latest(state.attempts)
    step = correctness_step(state.attempts, state.budget)
    if last is None:
        return {"decision": Decision(action="write")}
    if step == "repair":
        return {"decision": Decision(action="repair", parent=last.id, strategy="repair", branch=last.branch)}
    if step == "redesign":
        return {"decision": Decision(action="redesign", strategy="redesign", branch=last.branch)}
    return {"decision": _stopped(last)}


# ------------------------------------------------------------------------------------ settling a round


def settle(open_round: Round, attempts: Mapping[int, Attempt], judge: Judge) -> Round:
    """Return the round with its contests: a branch becomes base only if its kernel is verified and clears the base."""
    base = attempts[open_round.base]
    contests: list[Contest] = []
    for plan in sorted(open_round.branches, key=lambda p: p.first):
        challenger = challenger_of(plan, attempts)
        if challenger is None:
            continue
        twin = next((c for c in contests if attempts[c.challenger].design == challenger.design), None)
        if twin is not None and challenger.design is not None:
            reason = f"the same kernel as attempt {twin.challenger}, token for token"
            contests.append(
                Contest(base=base.id, challenger=challenger.id, basis=twin.basis, better=False, reason=reason)
            )
            continue
        contests.append(judge.contest(base, challenger, number=open_round.number))
    won = choose(tuple(contests))
    verified = len(contests)
    if won is not None:
        reason = f"attempt {won.challenger} replaces attempt {base.id}: {won.reason}"
    else:
        reason = f"attempt {base.id} stays: {verified} of {len(open_round.branches)} branches gave a verified kernel, none better"
    return open_round.model_copy(
        update={
            "contests": tuple(contests),
            "winner": won.challenger if won else None,
            "reason": reason[:4_000],
        }
    )


def confirm(rounds: Mapping[int, Round], state: EvolverView, stop: Stop, judge: Judge) -> Round | None:
    """Return the newest round with its finalists timed anew, `None` where there is nothing to confirm or no time.

    The last winner was the luckiest of several: it is delivered only if it clears the kernel that it replaced once
    more, on a seed that nothing was chosen by.
    """
    newest = rounds[max(rounds)] if rounds else None
    settled = max((n for n, r in rounds.items() if r.final is not None), default=0)
    won = [r for n, r in sorted(rounds.items()) if r.winner is not None and n > settled]
    if newest is None or not won or stop.reason not in _CALM:
        return None
    last = won[-1]
    if last.winner is None or not any(c.better and c.basis == "time" for c in last.contests):
        return None
    number = _FINAL + newest.number
    final = judge.contest(state.attempts[last.base], state.attempts[last.winner], number=number)
    return newest.model_copy(update={"final": final})


_FINAL = 1_000_000
"""Number of the contest of finalists, so that its seed is none that a round used."""
_CALM = frozenset({"target_reached", "no_gain", "strategies_exhausted", "budget"})
"""Stops after which there is time to measure once more."""


def challenger_of(plan: BranchPlan, attempts: Mapping[int, Attempt]) -> Attempt | None:
    """Return the kernel that a branch puts forward: its last verified one, `None` when it has none."""
    own = [a for i, a in sorted(attempts.items()) if plan.owns(i) and a.status == "verified"]
    return own[-1] if own else None


# ------------------------------------------------------------------------------------------ stopping


def why_stop(state: EvolverView, rounds: Mapping[int, Round], base: Attempt, judge: Judge) -> Stop | None:
    """Return why no further round follows, `None` when one does."""
    told = _told_to_stop(state, rounds)
    if told is not None:
        return told
    reached = _target_reached(state, base)
    if reached:
        return Stop(reason="target_reached", detail=reached)
    allowed = state.budget.rounds_when(timed=isinstance(base.timing, Timing))
    rounds = {n: r for n, r in rounds.items() if not _brought_nothing_to_judge(r, state)}
    done = sum(bool(r.branches) for r in rounds.values())
    if done >= allowed:
        if allowed == 0:
            return Stop(reason="verified", detail=why_no_round(base))
        return Stop(reason="budget", detail=f"{done} of {allowed} rounds are done")
    recent = _since_it_went_on(rounds)[-state.budget.patience :]
    if len(recent) == state.budget.patience and all(r.winner is None for r in recent):
        detail = f"no branch of the last {len(recent)} rounds was better than attempt {base.id}"
        return Stop(reason="no_gain", detail=detail)
    if judge.calls_left() == 0:
        return Stop(reason="budget", detail="all model calls are made")
    return None


def _brought_nothing_to_judge(settled: Round, state: EvolverView) -> bool:
    """Return whether no idea of a round applied: it counts neither for the budget of rounds nor for patience.

    Each such idea is out for good, and only those of the rules are many, so this ends.
    """
    ends = [state.ended.get(plan.name) for plan in settled.branches if plan.by == "rules"]
    return (
        len(ends) == len(settled.branches) > 0
        and all(e is not None and e.reason == "not_applicable" for e in ends)
        and not any(plan.owns(i) for plan in settled.branches for i in state.attempts)
    )  # fmt: skip


def _since_it_went_on(rounds: Mapping[int, Round]) -> list[Round]:
    """Return the rounds after the last one without branches, with which a finished search is taken up again."""
    taken_up = max((n for n, r in rounds.items() if not r.branches), default=0)
    return [rounds[n] for n in sorted(rounds) if n > taken_up]


def _told_to_stop(state: EvolverView, rounds: Mapping[int, Round]) -> Stop | None:
    """Return the stop that a branch of the newest round brought back, the earliest branch's first."""
    if not rounds:
        return None
    names = [b.name for b in rounds[max(rounds)].branches]
    stops = [state.ended[n].stop for n in names if n in state.ended]
    return next((s for s in stops if s is not None), None)


def _target_reached(state: EvolverView, base: Attempt) -> str:
    timing, budget = base.timing, state.budget
    if not isinstance(timing, Timing):
        return ""
    if timing.sol_fraction is not None and timing.sol_fraction >= budget.target_sol_fraction:
        return f"attempt {base.id} reaches {timing.sol_fraction:.2f} of the speed of light"
    first = base_of(state.attempts, {})
    if budget.target_speedup is None or first is None or first.median_us is None:
        return ""
    speedup = first.median_us / timing.median_us
    if speedup >= budget.target_speedup:
        return f"attempt {base.id} is {speedup:.2f} times as fast as attempt {first.id}"
    return ""


def why_no_round(best: Attempt) -> str:
    """Return why the search ends at this kernel."""
    found = f"attempt {best.id} passed the whole ladder"
    if isinstance(best.timing, TimingNotMeasured):
        return f"{found}; no round for speed, since time was not measured: {best.timing.reason}"
    return found


# ------------------------------------------------------------------------------------ planning a round


def plan_round(state: EvolverView, rounds: Mapping[int, Round], base: Attempt, judge: Judge) -> Round:
    """Return the next round: at most K ideas on the base, one each, with attempt ids of their own."""
    number = max(rounds, default=0) + 1
    left = judge.calls_left()
    most = state.budget.branches if left is None else min(state.budget.branches, left)
    evidence = judge.evidence(base)
    tried = trials(rounds, state.attempts, state.ended)
    ideas: Sequence[Idea | Proposal] = ranked(evidence, tried, base=base.id)[:most]
    if len(ideas) < most and (left is None or left > len(ideas) + 1):
        settled = state.model_copy(update={"rounds": dict(rounds)})
        taken = [idea.strategy.name for idea in ideas if isinstance(idea, Idea)]
        ideas = [*ideas, *judge.propose(base, settled, number=number, most=most - len(ideas), taken=taken)]
    size = state.budget.attempts_per_branch
    start = max([*state.attempts, *(p.last for r in rounds.values() for p in r.branches)]) + 1
    plans = []
    for k, idea in enumerate(ideas):
        block = {"name": f"r{number}b{k + 1}", "parent": base.id, "first": start + k * size, "last": start + (k + 1) * size - 1}  # fmt: skip
        plans.append(BranchPlan.model_validate({**block, **_described(idea, evidence, judge)}))
    return Round(number=number, base=base.id, branches=tuple(plans))


def _described(idea: Idea | Proposal, evidence: Evidence, judge: Judge) -> dict[str, object]:
    if isinstance(idea, Proposal):
        return {
            "strategy": idea.name, "idea": idea.idea, "expectation": idea.expectation, "by": "model",
            "skills": judge.skills(idea.name, evidence),
        }  # fmt: skip
    s = idea.strategy
    return {
        "strategy": s.name, "idea": s.description, "gain": round(idea.expected, 3), "why": idea.why,
        "expectation": f"{s.moves}; about {idea.expected:.2f} times as fast", "skills": judge.skills(s.name, evidence),
    }  # fmt: skip
