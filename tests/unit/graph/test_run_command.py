"""`generate` and `resume` in a terminal: questions, answers, and limits on the way to the runner."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cuda_harness.graph import runner
from cuda_harness.graph.cli import app
from cuda_harness.graph.commands.run import _answer_in_terminal, _read_answers
from cuda_harness.state.errors import ConfigError

QUESTION = {
    "understood": "leaky relu",
    "assumptions": [
        {"what": "slope", "value": "0.01", "why": "usual",
         "readings": [{"value": "0.01", "consequence": "the common default"}, {"value": "0.2", "consequence": "as in GANs"}]},
        {"what": "smallest size", "value": "1", "why": "not mentioned", "readings": []},
    ],
}  # fmt: skip


def test_a_question_is_put_with_its_readings_and_enter_accepts() -> None:
    with CliRunner().isolation(input="0.2\n\n") as (_, err, _):
        assert _answer_in_terminal(QUESTION) == {"slope": "0.2"}
        said = err.getvalue().decode()
    for part in ("understood: leaky relu", "slope: 0.01  (usual)", "- 0.2: as in GANs", "smallest size: 1"):
        assert part in said


def test_answers_on_the_command_line() -> None:
    assert _read_answers(None) is None
    assert _read_answers(["="]) == {}
    assert _read_answers(["slope = 0.2", "dtype=float16"]) == {"slope": "0.2", "dtype": "float16"}
    with pytest.raises(ConfigError, match="has no '='"):
        _read_answers(["slope"])


def test_resume_hands_on_what_it_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def resumed(run: Path, **given: Any) -> Any:
        seen.update(given, run=run)
        document = {"status": "verified"}
        return SimpleNamespace(status="verified", document=document, stop={"reason": "budget"})

    monkeypatch.setattr(runner, "resume", resumed)
    words = ["resume", str(tmp_path), "--rounds", "3", "--branches", "2", "--ladder-seconds", "9", "--force"]
    done = CliRunner().invoke(app, [*words, "--json", "--answer", "="])
    assert done.exit_code == 0, done.output
    flags = {name: value for name, value in seen["flags"].items() if value is not None}
    assert flags == {"rounds": 3, "branches": 2, "ladder_seconds": 9.0}
    assert (seen["run"], seen["force"], seen["answer"]) == (tmp_path, True, {})
