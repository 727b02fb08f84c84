import json
from pathlib import Path

import pytest

from cuda_harness.state.errors import ConfigError, StateError
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.tools.archive.run_folder import RunFolder, new_run_id, write_atomically

PLAN = LaunchPlan.parse(json.dumps({"steps": [{"launch": "k", "grid": [1], "block": [1]}]}), where="p")


def test_paths_are_confined_to_the_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for bad in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(StateError, match="leaves the run folder"):
            folder.write_text(bad, "")


def test_a_link_out_of_the_run_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "out").symlink_to(tmp_path)
    with pytest.raises(StateError):
        RunFolder(tmp_path / "run").read_text("out/secret")


def test_kernels_round_trip_and_best_is_a_bundle(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    kernel = Kernel(source='extern "C" __global__ void k() {}\n', plan=PLAN)
    folder.save_kernel(3, kernel)
    assert folder.load_kernel(3) == kernel
    best = folder.save_best(3, ir="{}", reference="r", inputs=None)
    assert sorted(p.name for p in best.iterdir()) == ["ir.json", "kernel.cu", "plan.json", "reference.py"]


def test_no_half_written_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a"
    write_atomically(target, b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match="No space left") as caught:
        write_atomically(target, b"new")
    assert "--out" in caught.value.remedy
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert target.read_bytes() == b"old"


def test_opening_and_creating_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run folder"):
        RunFolder.open(tmp_path)
    RunFolder.create(tmp_path, "r")
    with pytest.raises(ConfigError, match="exists already"):
        RunFolder.create(tmp_path, "r")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot create"):
        RunFolder.create(tmp_path / "file", "r")


def test_run_ids_sort_by_time() -> None:
    assert new_run_id(0.0) < new_run_id(1e9)
    assert len({new_run_id(0.0) for _ in range(50)}) == 50
