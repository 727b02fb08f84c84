"""Rules of the GPU child that need no device: errors as answers, memory planned, devices chosen, its channel's end."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.execute.cuda.child import once
from cuda_harness.tools.execute.cuda.devices import Visible, choose
from cuda_harness.tools.execute.cuda.faults import Failed, check, classify, loading_failed, start_failed
from cuda_harness.tools.execute.cuda.health import Health
from cuda_harness.tools.execute.cuda.lock import claim
from cuda_harness.tools.execute.cuda.memory import planned_bytes, poison, require_room
from cuda_harness.tools.frames import read_frame, write_frame


class Code:
    def __init__(self, value: int, name: str) -> None:
        self.value, self.name = value, name

    def __int__(self) -> int:
        return self.value


def test_driver_calls_return_their_values_or_raise_an_answer() -> None:
    good = Code(0, "CUDA_SUCCESS")
    assert check((good, 7), "x") == 7
    assert check((good, 7, 8), "x") == (7, 8)
    with pytest.raises(Failed) as caught:
        check((Code(700, "CUDA_ERROR_ILLEGAL_ADDRESS"),), "running k")
    assert caught.value.answer["fault"] == "out_of_bounds"


@pytest.mark.parametrize(
    ("name", "status", "what"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "fault", "out_of_bounds"),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", "fault", "misaligned"),
        ("CUDA_ERROR_ASSERT", "fault", "crash"),
        ("CUDA_ERROR_LAUNCH_FAILED", "fault", "crash"),
        ("CUDA_ERROR_ILLEGAL_INSTRUCTION", "fault", "crash"),
        ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "fault", "launch_config"),
        ("CUDA_ERROR_OUT_OF_MEMORY", "not_run", "resources"),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", "not_run", "environment"),
        ("CUDA_ERROR_UNKNOWN", "not_run", "environment"),
    ],
)
def test_each_error_has_its_class(name: str, status: str, what: str) -> None:
    answer = classify(name, "running k")
    assert (answer["status"], answer.get("fault") or answer["reason"]) == (status, what)


def test_a_cubin_that_does_not_load_tells_whose_failure_it_is() -> None:
    assert loading_failed("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image")["reason"] == "environment"
    assert loading_failed("CUDA_ERROR_NOT_FOUND: named symbol")["fault"] == "launch_config"
    assert loading_failed("CUDA_ERROR_OUT_OF_MEMORY")["reason"] == "resources"


@pytest.mark.parametrize(
    ("error", "driver", "wheels", "part", "remedy"),
    [
        (ImportError("No module named cuda"), None, None, "cuda.core is not installed", "[cu13]"),
        (RuntimeError("DynamicLibNotFoundError libcuda"), None, 13, "no NVIDIA driver", "--executor cpu"),
        (RuntimeError("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), 12_040, 13, "(CUDA 12.4) is too old", "[cu12]"),
        (RuntimeError("anything"), 12_020, 13, "(CUDA 12.2) is too old", "[cu12]"),
        (RuntimeError("CUDA_ERROR_NO_DEVICE"), 13_000, 13, "no such CUDA device", "CUDA_VISIBLE_DEVICES"),
        (ValueError("device_id must be within [0, 1)"), 13_000, 13, "no such CUDA device", "nvidia-smi -L"),
        (RuntimeError("CUDA_ERROR_OUT_OF_MEMORY"), 13_000, 13, "no memory left for a context", "nvidia-smi"),
        (RuntimeError("CUDA_ERROR_DEVICE_UNAVAILABLE"), 13_000, 13, "held exclusively", "another device"),
        (RuntimeError("odd"), 13_000, 13, "odd", "doctor"),
    ],
)
def test_why_cuda_does_not_start(
    error: Exception, driver: int | None, wheels: int | None, part: str, remedy: str
) -> None:
    answer = start_failed(error, driver, wheels)
    assert (answer["status"], answer["reason"]) == ("not_run", "environment")
    assert part in answer["message"]
    assert remedy in answer["remedy"]


def test_memory_is_planned_with_guards_and_refused_with_numbers() -> None:
    assert planned_bytes([1, 0, 1000], guard=0) == 512 + 512 + 1024
    assert planned_bytes([1], guard=4096) == 8704
    require_room({"x": 1 << 20}, guard=8192, free=1 << 30)
    with pytest.raises(Failed, match="largest: y 900 MiB, x 1 MiB") as caught:
        require_room({"x": 1 << 20, "y": 900 << 20}, guard=8192, free=1 << 30)
    answer = caught.value.answer
    assert answer["reason"] == "resources"
    assert answer["evidence"]["needed_bytes"] > answer["evidence"]["usable_bytes"]


def test_poison_repeats_one_tile_and_differs_by_seed() -> None:
    a = poison(1, 0, 20_000)
    assert np.array_equal(a[:4099], a[4099:8198])
    assert not np.array_equal(a, poison(2, 0, 20_000))
    assert poison(1, 0, 0).size == 0


def visible(index: int, **changes: int | None) -> Visible:
    return Visible(index, f"uuid-{index}", "gpu", changes.get("percent", 0), changes.get("used", 0))


def test_devices_are_named_by_number_uuid_or_auto(tmp_path: Path) -> None:
    assert choose("").index == 0
    assert choose("1").index == 1
    assert choose("GPU-abc").environment == {"CUDA_VISIBLE_DEVICES": "GPU-abc"}
    assert choose("MIG-abc/1/0").environment == {"CUDA_VISIBLE_DEVICES": "MIG-abc/1/0"}
    with pytest.raises(ExecutorUnavailable, match="its number, its UUID or `auto`"):
        choose("fast")
    with pytest.raises(ExecutorUnavailable, match="no CUDA device is visible"):
        choose("auto", listed=list, folder=tmp_path)


def test_auto_takes_the_least_busy_and_two_runs_take_different_ones(tmp_path: Path) -> None:
    def listed() -> list[Visible]:
        return [visible(0), visible(1)]

    first = choose("auto", listed=listed, folder=tmp_path)
    second = choose("auto", listed=listed, folder=tmp_path)
    assert (first.index, second.index) == (0, 1)
    assert first.claim is not None
    first.claim.release()
    assert choose("auto", listed=listed, folder=tmp_path).index == 0
    assert second.claim is not None
    second.claim.release()


def test_auto_avoids_what_others_use(tmp_path: Path) -> None:
    def busy() -> list[Visible]:
        return [visible(0, percent=95), visible(1, percent=3)]

    def full() -> list[Visible]:
        return [visible(0, used=90 << 30), visible(1, used=1 << 30)]

    def silent() -> list[Visible]:
        return [visible(0, percent=None, used=None), visible(1, percent=None, used=None)]

    for listing, index in ((busy, 1), (full, 1), (silent, 0)):
        found = choose("auto", listed=listing, folder=tmp_path)
        assert found.index == index
        assert found.claim is not None
        found.claim.release()
    other = claim("uuid-0", folder=tmp_path)
    found = choose("auto", listed=silent, folder=tmp_path)
    assert found.index == 1
    other.release()
    assert found.claim is not None
    found.claim.release()


def test_quarantine_needs_two_failures_in_a_row() -> None:
    health = Health()
    health.suspect()
    health.failed("no answer")
    health.passed()
    health.suspect()
    assert health.must_probe
    health.failed("no answer")
    seen = [health.quarantined]
    health.failed("died")
    seen.append(health.quarantined)
    assert seen == [None, "no answer; then died"]
    health.suspect()
    assert not health.must_probe


def test_one_job_from_a_file_says_when_there_is_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with (tmp_path / "job").open("wb") as stream:
        write_frame(stream, {"do": "run"}, [b"cubin"])
    assert once(tmp_path / "job", 0, tmp_path / "answer") == 2
    with (tmp_path / "answer").open("rb") as stream:
        header, _ = read_frame(stream, max_bytes=1)
    assert header["reason"] == "environment"
    assert header["remedy"]


def test_a_child_ends_when_its_channel_does_even_in_the_middle_of_work(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    program = "import sys, time; from cuda_harness.tools.execute.cuda.child import die_with_channel; die_with_channel(int(sys.argv[1])); print('up', flush=True); time.sleep(60)"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(read_end)], pass_fds=(read_end,), stdout=subprocess.PIPE
    )
    os.close(read_end)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    os.write(write_end, b"an unread job")
    os.close(write_end)
    assert child.wait(30) == -9
    child.stdout.close()
