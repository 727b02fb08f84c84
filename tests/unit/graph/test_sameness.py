"""A resumed run is held against what it began with."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.services import FakeServices

from cuda_harness.graph.sameness import differences, note_circumstances, require_same
from cuda_harness.state.errors import ConfigError, ExecutorUnavailable


class Machine:
    """An executor's name and device."""

    def __init__(self, name: str, device: str) -> None:
        self.name = name
        self._device = device

    def device(self) -> Any:
        return SimpleNamespace(name=self._device)


def services(root: Path, name: str = "cuda:0", device: str = "A") -> FakeServices:
    made = FakeServices(root, executor=Machine(name, device))
    if not made.folder.exists("manifest.json"):
        made.folder.write_json("manifest.json", {"run_id": "run", "gpu": None})
        made.folder.write_text("request.txt", "relu\n")
    return made


def test_the_same_conditions_pass_and_are_noted_once(tmp_path: Path) -> None:
    first = services(tmp_path)
    note_circumstances(first)  # type: ignore[arg-type]
    noted = (tmp_path / "manifest.json").read_text()
    assert json.loads(noted)["gpu"] == "A"
    note_circumstances(services(tmp_path, device="B"))  # type: ignore[arg-type]
    assert (tmp_path / "manifest.json").read_text() == noted
    require_same(services(tmp_path), ir_sha256=None)  # type: ignore[arg-type]


def test_another_device_is_refused_and_named(tmp_path: Path) -> None:
    note_circumstances(services(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="device was 'A' and is 'B'") as caught:
        require_same(services(tmp_path, device="B"), ir_sha256=None)  # type: ignore[arg-type]
    assert "--force" in (caught.value.remedy or "")


def test_a_changed_request_and_a_changed_ir_are_refused(tmp_path: Path) -> None:
    run = services(tmp_path)
    note_circumstances(run)  # type: ignore[arg-type]
    run.folder.write_text("request.txt", "gelu\n")
    run.folder.write_json("ir.json", {"changed": True})
    with pytest.raises(ConfigError, match=r"the request was changed; ir\.json was changed"):
        require_same(run, ir_sha256="0" * 64)  # type: ignore[arg-type]


def test_a_machine_without_the_executor_differs(tmp_path: Path) -> None:
    note_circumstances(services(tmp_path))  # type: ignore[arg-type]

    class Missing(FakeServices):
        @property
        def executor(self) -> Any:
            msg = "cuda:0"
            raise ExecutorUnavailable(msg, "no driver")

    with pytest.raises(ConfigError, match="executor was 'cuda:0' and is None"):
        require_same(Missing(tmp_path), ir_sha256=None)  # type: ignore[arg-type]


def test_a_run_of_an_earlier_version_has_nothing_to_compare(tmp_path: Path) -> None:
    require_same(services(tmp_path), ir_sha256="x")  # type: ignore[arg-type]
    assert differences({"device": None}, {"device": "B"}) == []
