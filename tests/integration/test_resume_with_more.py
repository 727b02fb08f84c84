"""A run that ended goes on when it is given what it lacked: time to judge, rounds, another idea's author."""

from pathlib import Path

import pytest

from cuda_harness import generate
from cuda_harness.graph.runner import resume
from cuda_harness.state.settings import Settings


@pytest.mark.slow
def test_an_open_verdict_is_taken_up_again_and_a_finished_search_goes_on(tmp_path: Path) -> None:
    hurried = generate(
        "relu of a float32 vector with 300 elements", model="offline", executor="cpu", out=tmp_path, seed=3,
        settings=Settings(ladder_seconds=0.001),
    )  # fmt: skip
    assert hurried.status == "unverified"
    assert "resources" in hurried.stop["detail"]
    calls = hurried.document["usage"]["calls"]
    judged = resume(hurried.run_dir, flags={"ladder_seconds": 120.0})
    assert judged.status == "verified"
    assert judged.document["usage"]["calls"] == calls
    assert judged.stop["reason"] == "verified"
    assert resume(hurried.run_dir).document == judged.document, "nothing was given, and something was done"

    searched = resume(hurried.run_dir, flags={"rounds": 1, "branches": 1})
    rows = searched.document["branches"]
    assert [row["round"] for row in rows] == [1]
    assert searched.stop == {"reason": "budget", "detail": "1 of 1 rounds are done"}
    assert searched.document["usage"]["calls"] == calls + 1
    further = resume(hurried.run_dir, flags={"rounds": 2})
    assert further.document["branches"][: len(rows)] == rows
    assert {row["round"] for row in further.document["branches"]} == {1, 2}
