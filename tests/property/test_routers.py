"""Routers over any state: total, a failing kernel is never optimised, a stop always delivers."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_harness.graph.routers import (
    after_coder,
    after_evolver,
    after_intake,
    after_planner,
    after_profiler,
    after_question,
    after_synthesizer,
    after_tuner,
    after_verifier,
)
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Budget, Stop
from cuda_harness.state.harness import Decision, HarnessState
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import NOBODYS, REQUIRED, Failure, StageResult, Verdict

IR = KernelIR.model_validate({
    "schema": KernelIR.KIND, "name": "k", "dims": [], "tensors": [{"name": "y", "role": "out", "dtype": "float32"}],
})  # fmt: skip
ROUTERS: dict[Any, set[str]] = {
    after_intake: {"planner", "synthesizer", "deliver"},
    after_planner: {"question", "synthesizer", "deliver"},
    after_question: {"planner", "synthesizer", "deliver"},
    after_synthesizer: {"coder", "deliver"},
    after_coder: {"verifier", "coder", "deliver"},
    after_verifier: {"coder", "tuner", "profiler", "deliver"},
    after_tuner: {"verifier", "profiler", "deliver"},
    after_profiler: {"evolver", "deliver"},
    after_evolver: {"coder", "deliver"},
}


def _verdict(class_: str | None) -> Verdict:
    if class_ is None:
        stages = tuple(StageResult(name=n, status="passed") for n in REQUIRED)
        return Verdict(outcome="accepted", executor="cpu", stages=stages)
    failure = Failure.model_validate({"stage": "tiny", "class": class_, "message": "m 1"})
    return Verdict(outcome="undecided" if class_ in NOBODYS else "rejected", executor="cpu", failure=failure)


VERDICTS = st.sampled_from(
    [None, "mismatch", "compile", "unsupported", "environment", "oracle", "timeout"]
).map(_verdict)


@st.composite
def attempts(draw: st.DrawFn) -> dict[int, Attempt]:
    found = {}
    for number in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["written", "unusable", "judged"]))
        found[number] = Attempt(
            id=number,
            parent=draw(st.sampled_from([None, *range(number)])),
            strategy=draw(st.sampled_from(["first", "repair", "redesign", "tile"])),
            sha256=None if kind == "unusable" else "0" * 64,
            unusable="no kernel" if kind == "unusable" else "",
            verdict=draw(VERDICTS) if kind == "judged" else None,
        )
    return found


STATES = st.builds(
    HarnessState,
    ir=st.sampled_from([None, IR]),
    attempts=attempts(),
    budget=st.builds(Budget, repairs=st.integers(0, 3), redesigns=st.integers(0, 2)),
    decision=st.none()
    | st.builds(Decision, action=st.sampled_from(["write", "repair", "redesign", "branch", "stop"])),
    stop=st.sampled_from([None, Stop(reason="budget", detail="spent")]),
)


@settings(max_examples=150, deadline=None)
@given(STATES)
def test_every_router_is_total_and_pure(state: HarnessState) -> None:
    before = state.model_dump_json()

    for router, ends in ROUTERS.items():
        assert router(state) in ends
        assert router(state) == router(state)

    assert state.model_dump_json() == before


@settings(max_examples=150, deadline=None)
@given(STATES)
def test_a_stop_always_delivers(state: HarnessState) -> None:
    stopped = state.model_copy(update={"stop": Stop(reason="budget", detail="spent")})

    assert {router(stopped) for router in ROUTERS} == {"deliver"}


@settings(max_examples=200, deadline=None)
@given(STATES)
def test_only_a_verified_kernel_is_optimised(state: HarnessState) -> None:
    last = state.attempts[max(state.attempts)] if state.attempts else None

    if after_verifier(state) == "tuner":
        assert last is not None
        assert last.verdict is not None
        assert last.verdict.outcome == "accepted"
    if last is not None and last.status in {"rejected", "undecided", "unusable"}:
        assert after_coder(state) in {"coder", "deliver"}
        assert after_verifier(state) in {"coder", "deliver"}


@settings(max_examples=100, deadline=None)
@given(STATES, st.sampled_from(["environment", "oracle"]))
def test_what_no_kernel_mends_is_not_tried_again(state: HarnessState, class_: str) -> None:
    number = len(state.attempts)
    hopeless = Attempt(id=number, sha256="0" * 64, verdict=_verdict(class_))
    judged = state.model_copy(update={"attempts": {**state.attempts, number: hopeless}, "stop": None})

    assert after_verifier(judged) == "deliver"
