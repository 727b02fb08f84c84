"""The lineage as a graph, and the rows that a report shows."""

import networkx as nx
import pytest

from cuda_harness.state.attempt import Attempt
from cuda_harness.state.results import Failure, Verdict
from cuda_harness.state.rounds import BranchEnd, BranchPlan, Contest, Round
from cuda_harness.tools.evolve.population import lineage, rounds_as_rows

GOOD = Verdict(outcome="accepted", executor="cpu")
BAD = Verdict(
    outcome="rejected",
    executor="cpu",
    failure=Failure.model_validate({"stage": "tiny", "class": "data_race", "message": "line 3"}),
)
ATTEMPTS = {
    1: Attempt(id=1, sha256="a", verdict=BAD),
    2: Attempt(id=2, parent=1, strategy="repair", sha256="b", verdict=GOOD),
    3: Attempt(id=3, parent=2, branch="r1b1", strategy="vector_loads", sha256="c", verdict=GOOD),
    7: Attempt(id=7, parent=2, branch="r1b2", strategy="split_k", sha256="d", verdict=BAD),
}
PLANS = (
    BranchPlan(name="r1b1", parent=2, strategy="vector_loads", gain=1.2, first=3, last=6),
    BranchPlan(name="r1b2", parent=2, strategy="split_k", gain=1.5, first=7, last=10),
    BranchPlan(name="r1b3", parent=2, strategy="double_buffering", gain=1.3, first=11, last=14),
)
WON = Contest(base=2, challenger=3, basis="time", ratio=1.4, ci95=(1.3, 1.5), better=True, reason="clears")
ROUNDS = {
    1: Round(number=1, base=2, branches=PLANS, contests=(WON,), winner=3, reason="attempt 3 replaces 2")
}


def test_attempts_form_an_acyclic_graph_with_what_was_expected_and_what_moved() -> None:
    graph = lineage(ATTEMPTS, ROUNDS)
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.edges[2, 3]["expected"] == 1.2
    assert graph.edges[2, 3]["measured"] == 1.4
    assert graph.edges[2, 7]["measured"] is None


def test_a_younger_parent_is_a_bug() -> None:
    with pytest.raises(ValueError, match="younger"):
        lineage({1: Attempt(id=1, parent=2), 2: Attempt(id=2)}, {})


def test_each_branch_is_a_row_with_its_reason() -> None:
    first, second, third = rounds_as_rows(ROUNDS, ATTEMPTS)
    assert (first["kept"], first["ratio"], first["reason"]) == (True, 1.4, "clears")
    assert (second["kept"], second["challenger"]) == (False, None)
    assert second["reason"].startswith("rejected: data_race at tiny")
    assert third["reason"] == "no kernel was written"


def test_a_refused_branch_says_so() -> None:
    end = BranchEnd(reason="refused", detail="the model declined: it moves each byte once")
    assert rounds_as_rows(ROUNDS, ATTEMPTS, {"r1b3": end})[2]["reason"].startswith(
        "refused: the model declined"
    )
