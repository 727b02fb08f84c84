"""What each node may see, read from the compiled graph itself."""

import pytest

import cuda_harness
from cuda_harness.graph.build import make_branch_builder
from cuda_harness.state.harness import BranchOutput

VIEWS = {
    "planner": {"suite", "attempts"},
    "synthesizer": {"attempts", "suite", "decision"},
    "coder": {"suite", "request", "spend", "result"},
    "profiler": {"suite", "request"},
}
DATA = ("suite", "reference", "expected", "inputs", "truth", "seed", "data", "answer", "case")


def fields(node: str) -> set[str]:
    graph = cuda_harness.build_graph()
    return set(graph.builder.nodes[node].input_schema.model_fields)


@pytest.mark.parametrize(("node", "hidden"), VIEWS.items())
def test_a_role_does_not_see_what_is_not_its_own(node: str, hidden: set[str]) -> None:
    assert not fields(node) & hidden


def test_the_coder_has_no_data_no_reference_and_no_expected_values() -> None:
    assert fields("coder") == {"run_dir", "target", "budget", "ir", "attempts", "decision"}
    assert not [f for f in fields("coder") if any(word in f for word in DATA)]


def branch_fields(node: str) -> set[str]:
    return set(make_branch_builder().nodes[node].input_schema.model_fields)


def test_a_branch_sees_its_idea_and_its_own_attempts_and_the_coder_no_data() -> None:
    seen = branch_fields("coder")
    assert seen == {"plan", "run_dir", "target", "budget", "ir", "known", "tried", "attempts"}
    assert not [f for f in seen if any(word in f for word in DATA)]
    for node in ("verifier", "tuner", "profiler"):
        assert not branch_fields(node) & {"rounds", "decision", "request", "known", "tried"}


def test_a_branch_hands_back_attempts_and_its_end_and_nothing_else() -> None:
    assert set(BranchOutput.model_fields) == {"attempts", "ended"}
