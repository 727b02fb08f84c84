"""Bundles whose judge cannot be trusted: each ends in its own class, names the culprit, and blames no kernel."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.tools.verify.test_ladder import ScriptedCompiler, ScriptedExecutor
from typer.testing import CliRunner

from cuda_harness.graph.cli import app
from cuda_harness.graph.show import verdict_lines
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.state.results import Verdict
from cuda_harness.state.suite import InputSpec
from cuda_harness.tools.execute import sandbox
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.specs import misfits
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.verify.examine import doubt_suite
from cuda_harness.tools.verify.ladder import verify_bundle

pytestmark = pytest.mark.skipif(not sandbox.probe().contains, reason="seccomp filters do not work here")

SOURCE = 'extern "C" __global__ void k(const float* x, float* y, float a, int n) {}\n'
IR: dict[str, Any] = {
    "schema": KernelIR.KIND, "name": "scale", "dims": [{"name": "n", "value": 500}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    "scalars": [{"name": "a", "dtype": "float32", "value": 2.0, "low": 0.5, "high": 3.0}],
    "steps": [{"id": "s", "op": "scale", "reads": ["x", "a"], "writes": ["y"], "formula": "y[i] = a*x[i]"}],
    "cost": {"flops": "n", "bytes": "8*n"},
}  # fmt: skip
PLAN: dict[str, Any] = {
    "schema": LaunchPlan.KIND,
    "steps": [{"launch": "k", "grid": ["cdiv(n, 64)"], "block": [64], "args": ["x", "y", "a", "n"]}],
}
HEAD = "import os, time\nimport numpy as np\n_calls = []\ndef reference(inputs, dims, scalars):\n    x, a = inputs['x'].astype(np.float64), scalars['a']\n"


@pytest.fixture(scope="module")
def runner() -> Iterator[ReferenceRunner]:
    made = ReferenceRunner()
    yield made
    made.close()


def judged(
    folder: Path, runner: ReferenceRunner, *, body: str = "return {'y': a * x}", ir: Any = None, inputs: Any = None,
    max_seconds: float = 60.0,
) -> Verdict:  # fmt: skip
    (folder / "ir.json").write_text(json.dumps(ir or IR))
    (folder / "plan.json").write_text(json.dumps(PLAN))
    (folder / "kernel.cu").write_text(SOURCE)
    (folder / "reference.py").write_text(f"{HEAD}    {body}\n")
    if inputs is not None:
        (folder / "inputs.json").write_text(json.dumps(inputs))
    return verify_bundle(
        folder, executor=ScriptedExecutor(), compiler=ScriptedCompiler(), target="sm_90a", seed=5,  # type: ignore[arg-type]
        max_seconds=max_seconds, references=runner,
    )  # fmt: skip


def test_a_sound_bundle_says_what_stands_behind_its_judge(tmp_path: Path, runner: ReferenceRunner) -> None:
    found = judged(tmp_path, runner)

    assert found.accepted, found.failure
    assert found.suite["quorum"] == "not measured: a bundle has one reference"
    assert found.suite["formulas"].startswith("they agree with the reference in")
    assert "rejected" in found.suite["plants"]


def test_a_verdict_depends_on_neither_name_nor_place(tmp_path: Path, runner: ReferenceRunner) -> None:
    found = []
    for place in ("known_good", "a/wrong"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        verdict = judged(folder, runner).model_dump(mode="json")
        verdict["stages"] = [{k: v for k, v in s.items() if k != "seconds"} for s in verdict["stages"]]
        found.append(verdict)

    assert found[0] == found[1]


CULPRITS = {
    "raises": ("raise ValueError('no axis')", "the reference failed: "),
    "wrong shape": ("return {'y': (a * x)[:-1]}", "the reference's 'y' has shape"),
    "wrong dtype": ("return {'y': np.array(['a'] * x.size)}", "the reference"),
    "no output": ("return {}", "the reference returns no 'y'"),
    "prints forged results": ("[os.write(fd, b'{}' * 9) for fd in range(3, 40) if _is_open(fd)]\n    return {'y': a * x}\n"
                              "def _is_open(fd):\n    try: os.fstat(fd)\n    except OSError: return False\n    return True",
                              "the reference wrote to the channel of its own answer"),
    "writes files": ("open('/tmp/here', 'w')", "the reference failed: PermissionError"),
    "takes all memory": ("return {'y': np.ones(1 << 36)}", "memory"),
    "is random": ("return {'y': a * x + np.random.default_rng().random(x.shape)}", "the reference is not deterministic"),
    "is constant": ("return {'y': np.ones(x.shape)}", "input 'x' does not matter to the reference"),
    "ignores a scalar": ("return {'y': 2 * x}", "scalar 'a' does not matter to the reference"),
    "contradicts the formulas": ("return {'y': a * x + 1}", "the IR's formulas contradict the reference"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "text"), CULPRITS.values(), ids=CULPRITS.keys())
def test_a_bad_reference_is_an_oracle_that_failed(
    tmp_path: Path, runner: ReferenceRunner, body: str, text: str
) -> None:
    found = judged(tmp_path, runner, body=body)

    assert found.failure is not None
    assert (found.outcome, found.failure.class_) == ("undecided", "oracle"), found.failure
    assert text in found.failure.message
    assert {s.status for s in found.stages} == {"not_measured"}


def test_a_reference_that_imports_os_is_contained_not_refused(
    tmp_path: Path, runner: ReferenceRunner
) -> None:
    assert judged(tmp_path, runner, body="os.getpid()\n    return {'y': a * x}").accepted


def test_a_reference_that_is_the_identity_is_refused_when_scalars_say_more(
    tmp_path: Path, runner: ReferenceRunner
) -> None:
    found = judged(tmp_path, runner, body="return {'y': x}")

    assert found.failure is not None
    assert found.failure.class_ == "oracle"


@pytest.mark.parametrize(
    ("formula", "refused"), [("y[i] = the values, smoothed", True), ("y[i] = a copy of x[i]", False)]
)
def test_a_reference_that_is_the_identity_is_refused_unless_a_copy_is_meant(
    runner: ReferenceRunner, formula: str, refused: bool
) -> None:
    ir = {
        **IR,
        "scalars": [],
        "steps": [{"id": "s", "op": "smooth", "reads": ["x"], "writes": ["y"], "formula": formula}],
    }
    body = "return {'y': inputs['x'].astype(np.float64)}"
    plain = HEAD.replace("x, a = inputs['x'].astype(np.float64), scalars['a']", "pass")
    suite = Suite(KernelIR.model_validate(ir), f"{plain}    {body}\n", runner=runner, seed=5)

    doubt = doubt_suite(suite, ())

    assert (doubt is not None) is refused, doubt
    if doubt is not None:
        assert doubt.class_ == "oracle"
        assert "the reference returns input 'x' as 'y'" in doubt.message


def test_an_input_marked_unused_must_not_matter(tmp_path: Path, runner: ReferenceRunner) -> None:
    tensors = [
        *IR["tensors"],
        {"name": "w", "role": "in", "dtype": "float32", "shape": ["n"], "unused": True},
    ]
    ir = {**IR, "tensors": tensors}
    found = judged(tmp_path, runner, ir=ir, body="return {'y': a * x + 0 * inputs['w']}")
    moved = judged(tmp_path, runner, ir=ir, body="return {'y': a * x + inputs['w']}")

    assert found.failure is None or "unused" not in found.failure.message
    assert moved.failure is not None
    assert "input 'w' is marked unused but moves the reference" in moved.failure.message


def test_time_for_judging_covers_the_proof_and_a_hang_costs_no_more(
    tmp_path: Path, runner: ReferenceRunner
) -> None:
    began = time.monotonic()
    found = judged(tmp_path, runner, body="time.sleep(0.3)\n    return {'y': a * x}", max_seconds=2.0)

    assert time.monotonic() - began < 30
    assert found.failure is not None
    assert (found.outcome, found.failure.class_) == ("undecided", "resources")
    assert "the time for judging is over" in found.failure.message


def test_a_reference_that_hangs_is_an_oracle_that_failed(
    tmp_path: Path, runner: ReferenceRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuda_harness.tools.verify.examine.FIRST_S", 1.0)
    began = time.monotonic()
    found = judged(tmp_path, runner, body="while True: pass")

    assert time.monotonic() - began < 30
    assert found.failure is not None
    assert (found.outcome, found.failure.class_) == ("undecided", "oracle")
    assert "the reference did not end within 1 s" in found.failure.message


INPUTS = {
    "unknown tensor": ({"z": {"distribution": "normal"}}, "'z', which is no input of the IR"),
    "unknown distribution": ({"x": {"distribution": "cauchy"}}, "x"),
    "no object": ([1], "not a JSON object"),
}


@pytest.mark.parametrize(("inputs", "text"), INPUTS.values(), ids=INPUTS.keys())
def test_inputs_that_contradict_the_ir_are_the_users_to_mend(
    tmp_path: Path, runner: ReferenceRunner, inputs: Any, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        judged(tmp_path, runner, inputs=inputs)


def test_a_domain_that_cannot_be_drawn_at_some_sizes_is_named(
    tmp_path: Path, runner: ReferenceRunner
) -> None:
    found = judged(tmp_path, runner, inputs={"x": {"distribution": "integers", "low": 0, "high": "n - 100"}})

    assert found.failure is not None
    assert (found.outcome, found.failure.class_) == ("undecided", "oracle")
    assert "input 'x' cannot be drawn" in found.failure.message
    assert found.failure.evidence["culprit"] == "inputs.json or ir.json"


CONTRADICTIONS = {
    "an empty range": ({"distribution": "integers", "low": 0, "high": "n - 500"}, "an empty range"),
    "no square": ({"distribution": "spd"}, "does not end in a square"),
    "no such tensor": ({"distribution": "csr_offsets", "of": "z"}, "csr_offsets, but it is float32"),
    "no values": ({"distribution": "choice"}, "without `values`"),
    "unknown dim": ({"distribution": "uniform", "low": 0, "high": "2*m"}, "unknown name 'm'"),
    "no such axis": ({"distribution": "simplex", "axis": 3}, "has no axis 3"),
}


@pytest.mark.parametrize(("spec", "text"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_domain_that_contradicts_the_ir_is_the_users_to_mend(
    tmp_path: Path, runner: ReferenceRunner, spec: Any, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        judged(tmp_path, runner, inputs={"x": spec})

    assert "inputs.json contradicts the IR: 'x'" in caught.value.message
    assert text in caught.value.message
    assert "inputs.json" in caught.value.remedy


@pytest.mark.parametrize(
    ("dtype", "spec", "text"),
    [
        ("uint8", {"distribution": "integers", "low": -5, "high": 5}, "cannot hold -5"),
        ("int8", {"distribution": "choice", "values": [1, 200]}, "cannot hold 200"),
        ("int64", {"distribution": "integers", "low": -(2**63), "high": 2**63}, None),
        ("int32", {"distribution": "csr_offsets", "of": "z"}, "'z', which is no tensor of the IR"),
        ("int32", {"distribution": "csr_offsets"}, "without `of` or `nnz`"),
    ],
)
def test_integers_that_their_type_cannot_hold_are_named(
    dtype: str, spec: dict[str, Any], text: str | None
) -> None:
    ir = KernelIR.model_validate({**IR, "tensors": [{**IR["tensors"][0], "dtype": dtype}, IR["tensors"][1]]})
    found = list(misfits(ir, ir.tensor("x"), InputSpec.model_validate(spec)))

    assert (found == []) if text is None else (text in found[0])


GLOBAL_STATE = {
    "the global generator": "return {'y': a * x + np.random.rand(*x.shape)}",
    "the number of calls": "_calls.append(1)\n    return {'y': a * x + len(_calls) * (x > 0)}",
    "the clock": "return {'y': a * x + (time.time_ns() % 7)}",
    "another set's order": "return {'y': a * x + hash(str(os.urandom(8))) % 997}",
}


@pytest.mark.parametrize("body", GLOBAL_STATE.values(), ids=GLOBAL_STATE.keys())
def test_a_reference_with_a_state_of_its_own_is_not_deterministic(
    tmp_path: Path, runner: ReferenceRunner, body: str
) -> None:
    found = judged(tmp_path, runner, body=body)

    assert found.failure is not None
    assert (found.outcome, found.failure.class_) == ("undecided", "oracle")
    assert "not deterministic" in found.failure.message
    assert found.failure.evidence["culprit"] == "reference.py or ir.json"


def test_what_the_user_reads_names_the_culprit_and_acquits_the_kernel(
    tmp_path: Path, runner: ReferenceRunner
) -> None:
    lines = verdict_lines(judged(tmp_path, runner, body="return a * x"))

    assert (
        lines[-2]
        == "  oracle: the reference failed: TypeError: it returns ndarray, not a dict of outputs by name [at {'n': 1}, regime normal]"
    )
    assert lines[-1] == "  -> mend reference.py; nothing is held against the kernel"
    assert any("the kernel was not judged" in line for line in lines)


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (
            {"body": "raise ValueError('no axis')"},
            1,
            "-> mend reference.py; nothing is held against the kernel",
        ),
        (
            {"body": "return {'y': a * x + 1}"},
            1,
            "-> mend ir.json or reference.py; nothing is held against the kernel",
        ),
        ({"inputs": {"z": {"distribution": "normal"}}}, 2, "-> name an input of the IR"),
        ({"inputs": {"x": {"distribution": "spd"}}}, 2, "-> mend the entry 'x' of inputs.json, or the IR"),
    ],
)
def test_the_command_ends_in_order_and_says_what_to_do(
    tmp_path: Path,
    runner: ReferenceRunner,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr(
        "cuda_harness.graph.runner.verify", lambda *_, **__: judged(tmp_path, runner, **given)
    )

    done = CliRunner().invoke(app, ["verify", str(tmp_path)])

    assert done.exit_code == code, done.output
    assert says in done.output
