"""Executor and child together: real processes, real frames, real cubins; only the device is host memory."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cuda_harness.tools.execute.cuda.executor import CudaExecutor
from cuda_harness.tools.execute.cuda.lock import device_lock
from cuda_harness.tools.execute.protocol import (
    Buffer,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    LaunchOp,
    PointerArg,
    Program,
)
from cuda_harness.tools.frames import read_frame

ROOT = Path(__file__).parents[5]
CHILD = ["-m", "tests.fakes.host_child"]
X = np.arange(64, dtype=np.float32)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CudaExecutor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src")]))
        executor = CudaExecutor(0, command=lambda r, w: [sys.executable, *CHILD, "0", str(r), str(w)])
        yield executor
        executor.close()


def job(kernel: str, *, calls: int = 1, deadline_s: float = 10.0, block: int = 32) -> Job:
    source = f'extern "C" __global__ void {kernel}(float *y, const float *x) {{ y[threadIdx.x] = x[threadIdx.x]; }}'
    launch = LaunchOp(kernel, (1, 1, 1), (block, 1, 1), 0, (PointerArg("y"), PointerArg("x")))
    program = Program((Buffer("x", "float32", 64, "in"), Buffer("y", "float32", 64, "out")), (launch,))
    return Job(source, program, tuple({"x": X + i} for i in range(calls)), deadline_s=deadline_s)


def test_calls_of_several_jobs_come_back(gpu: CudaExecutor) -> None:
    for calls in (1, 3, 2):
        done = gpu.run(job("twice", calls=calls))
        assert isinstance(done, JobOk), done
        for i, call in enumerate(done.calls):
            assert np.array_equal(call.arrays["y"], 2 * (X + i))
            assert call.unwritten == {"y": 0}
        assert done.facts["launches"] == calls
        assert done.facts["device_seconds"] > 0


@pytest.mark.parametrize(
    ("kernel", "options", "fault", "part"),
    [
        ("stray", {}, "out_of_bounds", "0 bytes past the end of 'y'"),
        ("sticky", {}, "out_of_bounds", "CUDA_ERROR_ILLEGAL_ADDRESS while running sticky (launch 1)"),
        ("endless", {"deadline_s": 0.5}, "timeout", "longer than 0.5 s"),
        ("twice", {"block": 2000}, "launch_config", "block.x is 2000; at most 1024"),
    ],
)
def test_after_each_fault_the_device_is_probed_and_good_kernels_pass(
    gpu: CudaExecutor, kernel: str, options: dict[str, int], fault: str, part: str
) -> None:
    done = gpu.run(job(kernel, **options))
    assert isinstance(done, JobFault), done
    assert (done.fault, part in done.message) == (fault, True), done.message
    assert isinstance(gpu.run(job("twice")), JobOk)


def test_a_kernel_the_machine_does_not_have_is_no_fault_of_the_candidate(gpu: CudaExecutor) -> None:
    done = gpu.run(job("unknown"))
    assert isinstance(done, JobNotRun), done
    assert done.reason == "environment"
    assert isinstance(gpu.run(job("twice")), JobOk)


@pytest.mark.parametrize(
    ("kernel", "code", "status"), [("twice", 0, "ok"), ("stray", 1, "fault"), ("unknown", 2, "not_run")]
)
def test_a_job_in_a_file_runs_once_and_its_exit_code_tells_how(
    gpu: CudaExecutor, tmp_path: Path, kernel: str, code: int, status: str
) -> None:
    gpu.write_job(job(kernel), tmp_path / "job")
    real = gpu.once_command(tmp_path / "job", tmp_path / "answer")
    assert real[1:4] == ["-P", "-m", "cuda_harness.tools.execute.cuda.child"]
    done = subprocess.run(
        [sys.executable, *CHILD, *real[4:]], env=gpu.once_environment(), check=False, timeout=60
    )
    assert done.returncode == code
    with (tmp_path / "answer").open("rb") as stream:
        header, blobs = read_frame(stream, max_bytes=1 << 20)
    assert header["status"] == status
    assert blobs == ([(2 * X).tobytes()] if code == 0 else [])


def test_a_profiler_that_holds_the_lock_is_not_stopped_by_a_measurement_that_waits_for_it(
    gpu: CudaExecutor, tmp_path: Path
) -> None:
    gpu.write_job(job("twice"), tmp_path / "job")
    uuid = gpu.facts()["uuid"]
    measured = threading.Event()

    def measure() -> None:
        with device_lock(uuid, exclusive=True, timeout_s=60):
            measured.set()

    waiting = threading.Thread(target=measure)
    with gpu.shared():
        waiting.start()
        time.sleep(0.3)  # the gate is closed now
        argv = [sys.executable, *CHILD, *gpu.once_command(tmp_path / "job")[4:]]
        done = subprocess.run(argv, env=gpu.once_environment(), check=False, timeout=20)
        assert not measured.is_set()
    waiting.join()
    assert done.returncode == 0


def test_a_row_of_checks_waits_once_for_a_measurement_of_another_run(
    gpu: CudaExecutor,
) -> None:
    assert isinstance(gpu.run(job("twice")), JobOk)  # its child is there
    stop = threading.Event()

    def measure() -> None:
        while not stop.is_set():
            with device_lock(gpu.facts()["uuid"], exclusive=True, timeout_s=30):
                time.sleep(0.3)

    other = threading.Thread(target=measure)
    other.start()
    try:
        time.sleep(0.5)  # the child's turn is over, the measurement goes on
        began = time.monotonic()
        waited = [
            done.facts["waited_s"]
            for done in (gpu.run(job("twice")) for _ in range(8))
            if isinstance(done, JobOk)
        ]
        spent = time.monotonic() - began
    finally:
        stop.set()
        other.join()
    assert len(waited) == 8
    assert sum(w > 0.05 for w in waited) <= 2, (waited, spent)
