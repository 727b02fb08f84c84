"""What nodes take from a run's services: the architecture and the GPU seconds of the executor at hand."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cuda_harness.agents.context import RunContext, Services
from cuda_harness.state.settings import Settings
from cuda_harness.tools.archive.run_folder import RunFolder
from cuda_harness.tools.execute.protocol import DeviceFacts


@dataclass
class Device:
    """An executor that only tells of itself."""

    name: str = "cuda:0"
    arch: str | None = "sm_100a"
    gpu_seconds: float | None = 3.5

    def device(self) -> DeviceFacts:
        return DeviceFacts("scripted", arch=self.arch)


def services(tmp_path: Path, executor: Any, **settings: Any) -> Services:
    RunFolder(tmp_path).write_json("manifest.json", {"run_id": "r", "seed": 1})
    return Services(RunContext(executor=executor, settings=Settings(**settings)), tmp_path)


@pytest.mark.parametrize(
    ("arch", "setting", "target"),
    [("sm_100a", None, "sm_100a"), ("sm_100a", "sm_90", "sm_90"), (None, None, "sm_90a")],
)
def test_the_target_is_the_devices_unless_it_was_set(
    tmp_path: Path, arch: str | None, setting: str | None, target: str
) -> None:
    assert services(tmp_path, Device(arch=arch), target=setting).target == target


@pytest.mark.parametrize(
    ("executor", "spent"),
    [
        (Device(), 3.5),
        (Device(name="cpu", gpu_seconds=None), 0.0),
        (Device(name="mine", gpu_seconds=None), None),
    ],
)
def test_gpu_seconds_come_from_the_executor(tmp_path: Path, executor: Device, spent: float | None) -> None:
    made = services(tmp_path, executor)
    assert made.ledger.spend().gpu_seconds == 0.0
    assert made.executor.name == executor.name
    assert made.ledger.spend().gpu_seconds == spent
