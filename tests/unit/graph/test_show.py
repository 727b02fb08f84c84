"""Documents as lines for the terminal."""

import json
from pathlib import Path

from tests.fakes.finished_run import finished_run

from cuda_harness.graph.show import document_lines, plain, trace_filter


def test_text_of_others_cannot_drive_the_terminal() -> None:
    assert plain("a\x1b[31mb\x07\nc") == "a?[31mb?\nc"
    assert len(plain("x" * 9_999)) == 2_000


def test_a_result_is_summed_up_with_its_ladder_and_unknowns(tmp_path: Path) -> None:
    document = json.loads((finished_run(tmp_path) / "result.json").read_text())
    text = "\n".join(document_lines(document))
    for part in (
        "accepted on cuda:0 for sm_90a",
        "sanitizer",
        "time: 12.5 us on a GPU",
        "tokens: unknown in, 40 out",
        "attempts: 3",
    ):
        assert part in text


def test_a_run_without_a_kernel_names_what_came_furthest_and_how_to_go_on(tmp_path: Path) -> None:
    document = json.loads((finished_run(tmp_path) / "result.json").read_text())
    assert "resume" not in "\n".join(document_lines(document))
    failed = {**document, "status": "failed", "kernel": None, "attempt": 2, "run_dir": "runs/a b"}
    text = "\n".join(document_lines({**failed, "stop": {"reason": "budget", "detail": "all calls are made"}}))
    assert "came furthest: runs/a b/attempts/002/kernel.cu" in text
    assert "go on with it: cuda-harness resume 'runs/a b'" in text
    rounds = {**document, "stop": {"reason": "budget", "detail": "3 of 3 rounds are done"}}
    assert document_lines(rounds)[-1].endswith("--rounds MORE")


def test_the_filter_keeps_runs_by_role_and_by_attempt() -> None:
    node = {
        "name": "coder",
        "tags": ["role:coder", "attempt:1", "attempt:2"],
        "extra": {"metadata": {"langgraph_node": "coder"}},
    }
    call = {
        "name": "ask_coder",
        "tags": ["role:coder", "attempt:2"],
        "extra": {"metadata": {"role": "coder"}},
    }
    other = {"name": "verifier", "tags": ["role:verifier", "attempt:12"], "extra": None}
    runs = [node, call, other]

    assert [r for r in runs if trace_filter(role="coder", attempt=None)(r)] == [node, call]
    assert [r for r in runs if trace_filter(role="coder", attempt=2)(r)] == [node, call]
    assert [r for r in runs if trace_filter(role=None, attempt=1)(r)] == [node]
    assert [r for r in runs if trace_filter(role="verifier", attempt=None)(r)] == [other]
