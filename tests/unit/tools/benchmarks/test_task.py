"""Tasks: read, refused, selected, bound to kernels; and what a model is told."""

import json
from pathlib import Path

import pytest

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.benchmarks.binding import bind
from cuda_harness.tools.benchmarks.task import Task, pack, read_tasks, select

ROOT = Path(__file__).resolve().parents[4]
SUITE = ROOT / "examples" / "suite"


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return read_tasks(SUITE)


def test_the_suite_is_packed_as_it_stands(tasks: list[Task]) -> None:
    assert (SUITE / "suite.jsonl").read_text() == pack(tasks)
    assert read_tasks(SUITE / "suite.jsonl") == tasks
    assert [t.id for t in tasks] == list(range(12))


def test_a_model_sees_prompt_names_types_and_shapes_and_nothing_else(tasks: list[Task]) -> None:
    for task in tasks:
        for level in (1, 2, 3):
            told = task.request(level)  # type: ignore[arg-type] - a literal
            assert told.startswith(task.prompt(level))  # type: ignore[arg-type] - a literal
            for hidden in (task.gen, task.compare, task.bench):
                assert not any(line in told for line in hidden.splitlines() if len(line) > 20)
    assert tasks[3].request(2).splitlines()[-2:] == ["Outputs:", "- sums: float32, shape (96,)"]


@pytest.mark.parametrize("shape", ["(2, 3)", [2, 3], "(2,3,)"])
def test_shapes_are_read_as_the_public_file_writes_them(shape: object) -> None:
    task = Task.model_validate(
        {
            "id": 0,
            "task_name": "x",
            "inputs": [{"name": "a", "dtype": "int64", "shape": shape}],
            "outputs": [],
        }
    )
    assert (task.inputs[0].shape, task.inputs[0].bytes, task.inputs[0].path) == ((2, 3), 48, "data/a.bin")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "line 1 .* is not JSON"),
        ('{"id": 1}', "line 1 .* is not a task"),
        ('{"id": 1, "task_name": "x", "inputs": [{"name": "../a", "dtype": "float32", "shape": "(1,)"}], "outputs": []}', "inputs.0.name"),
        ('{"id": 1, "task_name": "x", "inputs": [{"name": "a", "dtype": "complex", "shape": "(1,)"}], "outputs": []}', "complex"),
        ('{"id": 1, "task_name": "x", "inputs": [{"name": "a", "dtype": "int8", "shape": "__import__(\'os\')"}], "outputs": []}', "no tuple"),
        ("", "holds no task"),
    ],
)  # fmt: skip
def test_broken_files_are_refused_with_the_place(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(line + "\n")
    with pytest.raises(ConfigError, match=message):
        read_tasks(tmp_path / "t.jsonl")


def test_an_id_stands_once(tmp_path: Path, tasks: list[Task]) -> None:
    (tmp_path / "t.jsonl").write_text(pack([tasks[0], tasks[0]]))
    with pytest.raises(ConfigError, match="twice"):
        read_tasks(tmp_path / "t.jsonl")


def test_selection(tasks: list[Task]) -> None:
    assert [t.id for t in select(tasks, ids="0,3-5")] == [0, 3, 4, 5]
    assert [t.task_name for t in select(tasks, kinds="softmax, GELU")] == ["GELU", "Softmax"]
    for wrong in ({"ids": "a"}, {"kinds": "nothing"}, {"ids": "99"}):
        with pytest.raises(ConfigError):
            select(tasks, **wrong)


def ir(**changes: object) -> KernelIR:
    base = {
        "name": "relu", "dims": [{"name": "n", "value": 32768}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                    {"name": "out", "role": "out", "dtype": "float32", "shape": ["n"]}],
    }  # fmt: skip
    return KernelIR.model_validate({**json.loads(json.dumps(base)), **changes})


def test_files_are_flat_bytes_and_bound_in_order(tasks: list[Task]) -> None:
    found = bind(ir(), tasks[1])
    assert isinstance(found, dict)
    assert {n: f.path for n, f in found.items()} == {"x": "data/x.bin", "out": "data/y.bin"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dims": [{"name": "n", "value": 100}]}, "131072 bytes"),
        ({"tensors": [{"name": "x", "role": "in", "dtype": "float64", "shape": ["n"]}, {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}]}, "float64"),
        ({"tensors": [{"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}]}, "0 input"),
        ({"tensors": [{"name": "x", "role": "inout", "dtype": "float32", "shape": ["n"]}]}, "in place"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_files_is_said(
    changes: dict[str, object], message: str, tasks: list[Task]
) -> None:
    found = bind(ir(**changes), tasks[1])
    assert isinstance(found, str)
    assert message in found
