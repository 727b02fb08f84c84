"""The example that the prompts teach from is itself planned, proved, judged and repaired by the whole graph."""

import shutil
from pathlib import Path

import pytest
from tests.fakes.scripted_model import Line, ScriptedChatModel
from tests.golden.prompts import CASES

from cuda_harness import generate
from cuda_harness.agents.reply import fenced_blocks
from cuda_harness.prompts.loader import fenced, render

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ for the CPU executor"),
]
REQUEST = "Centre every row of a half-precision matrix and scale it by alpha; also give me the means."
REFERENCE = """import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    mean = x.mean(axis=1)
    return {"y": scalars["alpha"] * (x - mean[:, None]), "mean": mean}
"""
LOOPS = """import numpy as np


def reference(inputs, dims, scalars):
    y, mean = np.zeros((dims["rows"], dims["cols"])), np.zeros(dims["rows"])
    for i in range(dims["rows"]):
        total = 0.0
        for j in range(dims["cols"]):
            total += float(inputs["x"][i, j])
        mean[i] = total / dims["cols"]
        for j in range(dims["cols"]):
            y[i, j] = float(scalars["alpha"]) * (float(inputs["x"][i, j]) - mean[i])
    return {"y": y, "mean": mean}
"""


def examples(case: str) -> dict[str, str]:
    """Return the last block of each language in a system prompt."""
    template, values = CASES[case]
    return {b.language: b.text for b in fenced_blocks(render(template, **values).system)}


def reply(**blocks: str) -> str:
    return "\n\n".join(fenced(text, language) for language, text in blocks.items())


def planned() -> str:
    """Return the planner's example, its target small enough for a test: all that is judged elsewhere stays."""
    text = examples("planner")["json"]
    for value, smaller in (("8192", "300"), ("2048", "500")):
        assert text.count(f'"value": {value}') == 1
        text = text.replace(f'"value": {value}', f'"value": {smaller}')
    return text


def models(*kernels: Line | str) -> dict[str, ScriptedChatModel]:
    return {
        "planner": ScriptedChatModel(reply(json=planned())),
        "reference": ScriptedChatModel(reply(python=REFERENCE, json='{"inputs": {}}')),
        "loops": ScriptedChatModel(reply(python=LOOPS)),
        "coder": ScriptedChatModel(*kernels),
    }


def test_a_race_is_found_and_the_worked_example_that_mends_it_passes_the_whole_ladder(tmp_path: Path) -> None:
    coder = examples("coder-write")
    barrier = "  __syncthreads();\n  v = 0.f;\n"
    assert barrier in coder["cuda"]
    racy = coder["cuda"].replace(barrier, "  v = 0.f;\n")
    scripted = models(reply(cuda=racy, json=coder["json"]), reply(cuda=coder["cuda"], json=coder["json"]))
    result = generate(REQUEST, models=scripted, executor="cpu", out=tmp_path, seed=3)
    assert result.status == "verified", result.document["verdict"]["failure"]
    assert result.document["stop"]["reason"] == "verified"
    assert result.document["usage"]["calls"] == 5
    assert result.document["usage"]["input_tokens"] == 500
    rows = result.document["attempts"]
    assert [(r["strategy"], r["status"]) for r in rows] == [("first", "rejected"), ("repair", "verified")]
    assert rows[0]["failure_class"] in {"data_race", "uninitialized_read"}
    asked = str(scripted["coder"].seen[1][1].content)
    assert f'"class": "{rows[0]["failure_class"]}"' in asked
    assert '"source_lines"' in asked
    assert racy.strip() in asked
