"""Bundles written by anyone: what is the user's mistake ends in one message, what is the kernel's waits for the verdict."""

import json
from pathlib import Path
from typing import Any

import pytest

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.bundle import load_bundle
from cuda_harness.tools.verify.policy import review

SOURCE = 'extern "C" __global__ void k(const float* x, float* y, int n) {}\n'
IR: dict[str, Any] = {
    "schema": KernelIR.KIND, "name": "copy", "dims": [{"name": "n", "value": 8}],
    "tensors": [
        {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
        {"name": "i", "role": "in", "dtype": "int32", "shape": ["n"]},
        {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
    ],
}  # fmt: skip
PLAN: dict[str, Any] = {
    "schema": LaunchPlan.KIND, "steps": [{"launch": "k", "grid": 1, "block": 32, "args": ["x", "y", "n"]}],
}  # fmt: skip


def bundle(folder: Path, **files: str | None) -> Path:
    contents: dict[str, str | None] = {
        "ir.json": json.dumps(IR), "plan.json": json.dumps(PLAN), "kernel.cu": SOURCE,
        "reference.py": "def reference(inputs, dims, scalars):\n    return {'y': inputs['x']}\n",
    }  # fmt: skip
    contents.update({name.replace("_", "."): text for name, text in files.items()})
    for name, text in contents.items():
        if text is not None:
            (folder / name).write_text(text)
    return folder


def test_a_whole_bundle_is_read_and_identified_by_content(tmp_path: Path) -> None:
    found = load_bundle(bundle(tmp_path))
    same = load_bundle(bundle(tmp_path))
    other = load_bundle(bundle(tmp_path, kernel_cu=SOURCE + "\n"))

    assert found.kernel is not None
    assert found.hashes == same.hashes
    assert {k for k in found.hashes if found.hashes[k] != other.hashes[k]} == {"kernel"}


CASES: list[tuple[dict[str, str | None], str]] = [
    ({"kernel_cu": None}, "lacks kernel.cu"),
    ({"ir_json": None, "plan_json": None}, "lacks ir.json, plan.json"),
    ({"ir_json": "{"}, "ir.json"),
    ({"ir_json": json.dumps({**IR, "schema": "cuda-harness/ir/99"})}, "cuda-harness/ir/99"),
    ({"ir_json": json.dumps({**IR, "constraints": ["n // 0"]})}, "division by zero"),
    ({"ir_json": json.dumps({**IR, "cost": {"flops": "9 ** 9 ** 9"}})}, "too large"),
    (
        {"ir_json": json.dumps({**IR, "steps": [{"id": "a", "op": "f", "reads": ["x", "i"], "writes": ["x"]}]})},
        "whose role is in",
    ),
    ({"plan_json": json.dumps({**PLAN, "schema": "x/2"})}, "schema 'x/2' is not readable here"),
    ({"inputs_json": "[1"}, "is not JSON"),
    ({"inputs_json": "[" * 100_000}, "is not JSON"),
    ({"inputs_json": json.dumps({"q": {"distribution": "normal"}})}, "'q', which is no input of the IR"),
    ({"inputs_json": json.dumps({"i": {"distribution": "normal"}})}, "'i' is drawn from normal, but it is int32"),
    ({"kernel_cu": "x" * ((1 << 20) + 1)}, "at most 1048576 are read"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "says"), CASES, ids=[says for _, says in CASES])
def test_what_is_no_bundle_is_the_users_mistake(
    tmp_path: Path, files: dict[str, str | None], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_bundle(bundle(tmp_path, **files))

    assert says in str(caught.value)
    assert caught.value.remedy


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        load_bundle(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({**PLAN, "steps": []})])
def test_a_broken_plan_is_left_to_the_verdict(tmp_path: Path, text: str) -> None:
    found = load_bundle(bundle(tmp_path, plan_json=text))

    assert found.kernel is None
    assert isinstance(found.plan, str)
    assert str(tmp_path) not in found.plan
    assert found.hashes["plan"]


@pytest.mark.parametrize(
    ("before", "refused", "says"),
    [
        ('#include "/etc/passwd"\n', True, "not in the allowed set"),
        ("#ifdef __CUDACC_RTC__\n#endif\n", True, "executors see different programs"),
        ("__device__ int sim_block;\n", True, "belongs to the harness"),
        ("__device__ int calls;\n", False, "device state 'calls' outlives a call"),
        ("__device__ long t() { return clock64(); }\n", False, "reads a clock (clock64)"),
        ('extern "C" __global__ void idle() {}\n', False, "'idle' is never launched"),
    ],
)
def test_policy_refuses_or_hints(before: str, refused: bool, says: str) -> None:
    found = review(inspect(before + SOURCE), LaunchPlan.model_validate(PLAN))

    assert [f for f in found if says in f.message and f.refused is refused]
    assert any(f.refused for f in found) is refused


def test_an_honest_kernel_has_no_finding() -> None:
    assert review(inspect(SOURCE), LaunchPlan.model_validate(PLAN)) == []
