"""What each node may see, read from the compiled graph itself."""

import pytest

import cuda_harness

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
