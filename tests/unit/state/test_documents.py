import json
from pathlib import Path

import pytest

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import Dim, KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.serde import clipped

IR = {
    "name": "axpy",
    "dims": [{"name": "n", "value": 1000}],
    "tensors": [
        {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
        {"name": "y", "role": "inout", "dtype": "float32", "shape": ["n"]},
    ],
    "scalars": [{"name": "a", "dtype": "float32", "value": 2.0}],
}
PLAN = {"steps": [{"launch": "axpy", "grid": ["cdiv(n, 256)"], "block": [256], "args": ["x", "y", "n", "a"]}]}


def parse(changes: dict[str, object]) -> KernelIR:
    return KernelIR.parse(json.dumps({**IR, **changes}), where="ir.json")


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"schema": "cuda-harness/ir/2"}, "reads 'cuda-harness/ir/1'"),
        ({"dims": [{"name": "x", "value": 1}]}, "share one namespace"),
        ({"dims": [{"name": "n", "value": 7, "multiple_of": 4}]}, "its own value 7"),
        ({"dims": [{"name": "n", "value": 7, "min": 9, "max": 8}]}, "max 8 is below min 9"),
        ({"dims": [{"name": "min", "value": 7}]}, "reserved"),
        ({"dims": [{"name": "n n", "value": 7}]}, "C identifier"),
        ({"tensors": []}, "at least 1"),
        ({"tensors": [IR["tensors"][0]]}, "compute nothing"),
        ({"tensors": [{"name": "y", "role": "out", "dtype": "float31", "shape": []}]}, "float32"),
        ({"tensors": [{"name": "y", "role": "out", "dtype": "float32", "shape": ["1/n"]}]}, "write //"),
        ({"scalars": [{"name": "a", "dtype": "int32", "value": 1.5}]}, "cannot be 1.5"),
        ({"scalars": [{"name": "a", "dtype": "float32", "value": 1, "low": 3, "high": 2}]}, "low 3"),
        ({"steps": [{"id": "s", "op": "x", "writes": ["y"]}] * 2}, "step ids repeat"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_ir_is_refused_with_its_place(changes: dict[str, object], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(changes)
    assert part in str(caught.value)
    assert caught.value.remedy


def test_ir_survives_its_own_json() -> None:
    ir = parse({"constraints": ["n <= 65536"], "cost": {"flops": "2*n", "bytes": "12*n"}})
    assert KernelIR.parse(ir.to_json(), where="again") == ir
    assert json.loads(ir.to_json())["schema"] == "cuda-harness/ir/1"
    assert ir.target_dims == {"n": 1000}
    assert [t.name for t in ir.inputs] == ["x", "y"]
    assert [t.name for t in ir.outputs] == ["y"]


def test_admission_of_sizes() -> None:
    assert Dim(name="n", value=8, multiple_of=4, max=16).admits(12)
    assert not Dim(name="n", value=8, multiple_of=4, max=16).admits(20)
    assert not Dim(name="n", value=8).admits(0)
    assert Dim(name="n", value=8, min=0, power_of_two=True).admits(0)
    assert not Dim(name="n", value=8, power_of_two=True).admits(12)
    assert not Dim(name="n", value=8, fixed=True).admits(9)
    ir = parse({"dims": [{"name": "n", "value": 10}, {"name": "m", "value": 20}], "constraints": ["n <= m"]})
    assert ir.admits({"n": 5, "m": 5})
    assert not ir.admits({"n": 6, "m": 5})


@pytest.mark.parametrize(
    ("step", "part"),
    [
        ({"launch": "k", "fill": "y"}, "exactly one of"),
        ({"grid": [1]}, "exactly one of"),
        ({"launch": "k", "grid": [1, 1, 1, 1], "block": [1]}, "at most 3"),
        ({"launch": "k", "grid": [], "block": [1]}, "at least 1"),
        ({"fill": "y", "value": "huge"}, "inf"),
        ({"copy": ["a"]}, "copy"),
        ({"repeat": {"var": "t"}, "steps": []}, "count"),
    ],
)
def test_a_wrong_plan_step_is_refused(step: dict[str, object], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LaunchPlan.parse(json.dumps({"steps": [step]}), where="plan.json")
    assert part in str(caught.value)


def test_plan_survives_its_own_json_and_lenient_spellings() -> None:
    plan = LaunchPlan.parse(
        json.dumps(
            {
                "tunables": {"BLOCK": 128},
                "scratch": [{"name": "flag", "dtype": "int32", "shape": [1]}],
                "steps": [
                    {"fill": "flag", "value": 1},
                    {
                        "while": {"flag": "flag", "max": 10},
                        "steps": [{"launch": "k", "grid": "n", "block": "BLOCK"}],
                    },
                    {"repeat": {"var": "t", "count": 3}, "steps": [{"copy": ["a", "b"], "when": "t == 1"}]},
                    {"symbol": "c", "from": "w"},
                ],
            }
        ),
        where="plan.json",
    )
    assert plan.default_tunables() == {"BLOCK": 128}
    assert LaunchPlan.parse(plan.to_json(), where="again") == plan


def test_tunable_names_and_clashes() -> None:
    with pytest.raises(ConfigError, match="must match"):
        LaunchPlan.parse(json.dumps({**PLAN, "tunables": {"block": [1]}}), where="p")
    with pytest.raises(ConfigError, match="names two things"):
        LaunchPlan.parse(json.dumps({**PLAN, "tunables": {"B": [1]}, "defines": {"B": 1}}), where="p")


def test_kernel_identity_covers_source_and_plan() -> None:
    plan = LaunchPlan.parse(json.dumps(PLAN), where="p")
    one = Kernel(source="a", plan=plan)
    assert one.sha256 == Kernel(source="a", plan=plan).sha256
    assert one.sha256 != Kernel(source="b", plan=plan).sha256
    fast = plan.model_copy(update={"compile": plan.compile.model_copy(update={"fast_math": True})})
    assert one.sha256 != Kernel(source="a", plan=fast).sha256


def test_unreadable_files_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        KernelIR.read(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        KernelIR.read(tmp_path / "b.json")
    (tmp_path / "d.json").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="not JSON"):
        KernelIR.read(tmp_path / "d.json")
    (tmp_path / "l.json").write_text("[1]")
    with pytest.raises(ConfigError, match="not a valid"):
        KernelIR.read(tmp_path / "l.json")


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("short  text", 40, "short text"),
        ("one two three four", 12, "one two ..."),
        ("a" * 50, 20, "a" * 16 + " ..."),
        ("\u884c\u5217\u306e\u7a4d" * 20, 20, ("\u884c\u5217\u306e\u7a4d" * 4) + " ..."),
        ("", 10, ""),
    ],
)
def test_a_text_is_cut_between_words_where_there_are_any(text: str, most: int, kept: str) -> None:
    found = clipped(text, most)
    assert found == kept
    assert len(found) <= most
