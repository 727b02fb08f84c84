"""The Synthesizer with real references: quorum, corrections by an arbiter, and a judge that was judged."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.scripted_model import ScriptedChatModel
from tests.fakes.services import FakeRuntime, FakeServices

from cuda_harness.agents.synthesizer import synthesize_suite
from cuda_harness.state.errors import ModelRefused, StateError
from cuda_harness.state.harness import StateUpdate, SynthesizerView
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.synthesize.reference import ReferenceFault, ReferenceRunner

IR = KernelIR.model_validate(
    {
        "name": "row_mean",
        "dims": [{"name": "rows", "value": 64}, {"name": "cols", "value": 100}],
        "tensors": [
            {"name": "x", "role": "in", "dtype": "float32", "shape": ["rows", "cols"]},
            {
                "name": "m",
                "role": "out",
                "dtype": "float32",
                "shape": ["rows"],
                "compare": {"reduction_length": "cols"},
            },
        ],
        "steps": [
            {
                "id": "s",
                "op": "mean",
                "reads": ["x"],
                "writes": ["m"],
                "formula": "m[i] = (sum_j x[i,j]) / cols",
            }
        ],
        "cost": {"flops": "rows*cols", "bytes": "4*rows*cols + 4*rows"},
    }
)
VECTORISED = """import numpy as np


def reference(inputs, dims, scalars):
    return {"m": inputs["x"].astype(np.float64).mean(axis=1)}
"""
LOOPS = """import numpy as np


def reference(inputs, dims, scalars):
    m = np.zeros(dims["rows"])
    for i in range(dims["rows"]):
        total = 0.0
        for j in range(dims["cols"]):
            total += float(inputs["x"][i, j])
        m[i] = total / dims["cols"]
    return {"m": m}
"""
WRONG_LOOPS = LOOPS.replace('total / dims["cols"]', 'total / dims["rows"]')
BROKEN_LOOPS = LOOPS.replace("total = 0.0", "total = nothing")


def vectorised(source: str = VECTORISED, inputs: dict[str, Any] | None = None) -> str:
    return f"```python\n{source}```\n```json\n{json.dumps({'inputs': inputs or {}})}\n```"


def loops(source: str = LOOPS) -> str:
    return f"```python\n{source}```"


def ruling(wrong: str) -> str:
    return f'```json\n{{"wrong": "{wrong}", "reason": "the divisor"}}\n```'


@pytest.fixture(scope="module")
def runner() -> Iterator[ReferenceRunner]:
    made = ReferenceRunner()
    yield made
    made.close()


class Run:
    """One synthesis whose authors answer from scripts."""

    def __init__(self, root: Path, runner: ReferenceRunner, **scripts: list[str]) -> None:
        self.models = {role: ScriptedChatModel(*script) for role, script in scripts.items()}
        self.services = FakeServices(root, self.models, references=runner)

    def __call__(self) -> StateUpdate:
        view = SynthesizerView(request="mean of each row", run_dir="r", ir=IR)
        return synthesize_suite(view, FakeRuntime(self.services))  # type: ignore[arg-type]

    def asked(self, role: str) -> str:
        return str(self.models[role].seen[-1][1].content)


def test_two_references_that_agree_make_a_proved_suite(tmp_path: Path, runner: ReferenceRunner) -> None:
    run = Run(tmp_path, runner, reference=[vectorised()], loops=[loops()])
    suite = run()["suite"]
    assert suite is not None
    assert suite.quorum == "agreed"
    assert suite.proof is not None
    assert suite.proof.passed
    assert any(p.name == "zeros" and p.rejected for p in suite.proof.plants)
    assert (tmp_path / "suite/reference.py").read_text() == VECTORISED
    assert (tmp_path / "suite/loops.py").read_text() == LOOPS
    assert json.loads((tmp_path / "suite/inputs.json").read_text()) == {}


def test_neither_author_sees_the_other(tmp_path: Path, runner: ReferenceRunner) -> None:
    run = Run(tmp_path, runner, reference=[vectorised()], loops=[loops()])
    run()
    assert len(run.models["loops"].seen[0]) == 2
    assert "astype" not in str([m.content for m in run.models["loops"].seen[0][1:]])


def test_a_disagreement_goes_back_to_the_one_who_is_wrong(tmp_path: Path, runner: ReferenceRunner) -> None:
    run = Run(
        tmp_path,
        runner,
        reference=[vectorised()],
        loops=[loops(WRONG_LOOPS), loops()],
        arbiter=[ruling("loops")],
    )
    assert run()["suite"] is not None
    assert "the references disagree at sizes" in run.asked("arbiter")
    assert "m[i] = total / dims['rows']" in run.asked("arbiter")
    assert '"formulas"' in run.asked("arbiter")
    assert "the divisor" in run.asked("loops")
    assert WRONG_LOOPS.strip() in run.asked("loops")
    assert len(run.models["reference"].seen) == 1


def test_a_reference_that_breaks_goes_back_with_its_error(tmp_path: Path, runner: ReferenceRunner) -> None:
    run = Run(tmp_path, runner, reference=[vectorised()], loops=[loops(BROKEN_LOOPS), loops()])
    assert run()["suite"] is not None
    assert "nothing" in run.asked("loops")


def test_authors_who_never_agree_end_the_run(tmp_path: Path, runner: ReferenceRunner) -> None:
    run = Run(
        tmp_path,
        runner,
        reference=[vectorised()],
        loops=[loops(WRONG_LOOPS)] * 3,
        arbiter=[ruling("loops")] * 2,
    )
    stop = run()["stop"]
    assert stop is not None
    assert stop.reason == "oracle"
    assert "no quorum" in stop.detail
    assert run.models["loops"].left == 0


def test_an_ir_with_two_readings_ends_the_run(tmp_path: Path, runner: ReferenceRunner) -> None:
    run = Run(tmp_path, runner, reference=[vectorised()], loops=[loops(WRONG_LOOPS)], arbiter=[ruling("ir")])
    stop = run()["stop"]
    assert stop is not None
    assert stop.reason == "oracle"
    assert "both readings" in stop.detail


WRONG_VECTORISED = VECTORISED.replace(".mean(axis=1)}", ".mean(axis=1) + 1.0}  # as the request says")
SHIFTED_LOOPS = LOOPS.replace('total / dims["cols"]', 'total / dims["cols"] + 1.0')


def test_references_that_agree_against_the_formulas_go_to_the_arbiter(
    tmp_path: Path, runner: ReferenceRunner
) -> None:
    run = Run(
        tmp_path,
        runner,
        reference=[vectorised(WRONG_VECTORISED), vectorised()],
        loops=[loops(SHIFTED_LOOPS), loops()],
        arbiter=[ruling("both")],
    )
    suite = run()["suite"]
    assert "formulas contradict the reference" in run.asked("arbiter")
    assert '"references_agree": true' in run.asked("arbiter")
    assert "as the request says" not in run.asked("arbiter")
    assert suite is not None
    assert suite.proof is not None
    assert suite.proof.votes["formulas"].startswith("they agree with the reference in")


def test_formulas_that_contradict_the_request_end_the_run(tmp_path: Path, runner: ReferenceRunner) -> None:
    run = Run(
        tmp_path,
        runner,
        reference=[vectorised(WRONG_VECTORISED)],
        loops=[loops(SHIFTED_LOOPS)],
        arbiter=[ruling("ir")],
    )
    stop = run()["stop"]
    assert stop is not None
    assert stop.reason == "oracle"
    assert "the IR contradicts the request: the divisor" in stop.detail
    assert "by the formulas" in stop.detail


def test_an_edge_rule_excuses_the_formulas(tmp_path: Path, runner: ReferenceRunner) -> None:
    run = Run(
        tmp_path,
        runner,
        reference=[vectorised(WRONG_VECTORISED)],
        loops=[loops(SHIFTED_LOOPS)],
        arbiter=[ruling("none")],
    )
    suite = run()["suite"]
    assert suite is not None
    assert suite.proof is not None
    assert suite.proof.votes["formulas"] == "excused: the divisor"


def test_input_specs_are_kept_and_checked(tmp_path: Path, runner: ReferenceRunner) -> None:
    bad, good = {"z": {"distribution": "normal"}}, {"x": {"distribution": "uniform", "low": 0, "high": 1}}
    run = Run(tmp_path, runner, reference=[vectorised(inputs=bad), vectorised(inputs=good)], loops=[loops()])
    assert run()["suite"] is not None
    assert "z" in str(run.models["reference"].seen[1][3].content)
    assert json.loads((tmp_path / "suite/inputs.json").read_text())["x"]["distribution"] == "uniform"


def test_properties_are_held_against_the_reference(tmp_path: Path, runner: ReferenceRunner) -> None:
    claims = [
        {"kind": "linear_in", "output": "m", "tensor": "x"},
        {"kind": "nonnegative", "output": "m"},
        {"kind": "pretty", "output": "m"},
    ]
    reply = f"```python\n{VECTORISED}```\n```json\n{json.dumps({'inputs': {}, 'properties': claims})}\n```"
    suite = Run(tmp_path, runner, reference=[reply], loops=[loops()])()["suite"]

    assert suite is not None
    assert suite.proof is not None
    assert suite.properties == ("m is linear in x",)
    assert "the reference violates it: m is not negative" in suite.proof.votes["properties"]
    assert "not a property" in suite.proof.votes["properties"]
    assert [p["kind"] for p in json.loads((tmp_path / "suite/properties.json").read_text())] == ["linear_in"]


@pytest.mark.parametrize("role", ["reference", "loops"])
def test_an_author_may_decline(tmp_path: Path, runner: ReferenceRunner, role: str) -> None:
    scripts = {"reference": [vectorised()], "loops": [loops()]}
    scripts[role] = ['```json\n{"refused": "the formula is incomplete"}\n```']
    with pytest.raises(ModelRefused, match="the formula is incomplete"):
        Run(tmp_path, runner, **scripts)()


def test_a_resumed_synthesis_asks_nobody(tmp_path: Path, runner: ReferenceRunner) -> None:
    first = Run(
        tmp_path,
        runner,
        reference=[vectorised()],
        loops=[loops(WRONG_LOOPS), loops()],
        arbiter=[ruling("loops")],
    )
    again = Run(tmp_path, runner, reference=[], loops=[], arbiter=[])
    assert first()["suite"] == again()["suite"]


class Starved:
    """A runner on a machine without memory."""

    def evaluate(self, *_given: Any, **_limits: Any) -> ReferenceFault:
        return ReferenceFault("resources", "the reference needs about 9 MiB several times over; less is free")

    def close(self) -> None: ...


def test_a_machine_without_room_is_no_authors_fault(tmp_path: Path) -> None:
    run = Run(tmp_path, Starved(), reference=[vectorised()], loops=[loops()])  # type: ignore[arg-type]
    stop = run()["stop"]

    assert stop is not None
    assert stop.reason == "environment"
    assert "less is free" in stop.detail


def test_the_synthesizer_needs_an_ir(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="without an IR"):
        synthesize_suite(SynthesizerView(request="r", run_dir="r"), FakeRuntime(FakeServices(tmp_path)))  # type: ignore[arg-type]
