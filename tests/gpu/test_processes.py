"""Children of the CUDA executor on a real device: shared by a candidate's jobs, replaced, locked, gone with their owner."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.execute.cuda.executor import CudaExecutor
from cuda_harness.tools.execute.cuda.lock import device_lock
from cuda_harness.tools.execute.protocol import JobFault, JobNotRun, JobOk

pytestmark = pytest.mark.gpu
GOOD = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2.0f * x[i];"
COUNTS = (
    "__device__ int seen;\n"
    'extern "C" __global__ void k(float *y, const float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; '
    "y[i] = (float)seen; __syncthreads(); if (i == n - 1) seen = seen + 1; }"
)
ENDLESS = "volatile const float *f = x; while (f[0] == 0.0f) { } y[0] = 1.0f;"


def test_jobs_of_a_candidate_share_a_process_and_a_fresh_one_has_seen_nobody(gpu: Any, make_job: Any) -> None:
    job = make_job(COUNTS, grid=(1, 1, 1), block=(64, 1, 1), n=64)
    first, second = gpu.run(job), gpu.run(job)
    fresh = gpu.run(replace(job, fresh_process=True))
    assert [d.calls[0].arrays["y"][0] for d in (first, second, fresh)] == [0.0, 1.0, 0.0]


def test_a_warm_job_takes_a_fraction_of_a_start(gpu: Any, make_job: Any) -> None:
    job = make_job(GOOD)
    gpu.run(job)
    began = time.monotonic()
    for _ in range(10):
        assert isinstance(gpu.run(job), JobOk)
    assert (time.monotonic() - began) / 10 < 0.1


def test_several_calls_get_their_own_contents(gpu: Any, make_job: Any) -> None:
    done = gpu.run(make_job(GOOD, calls=3))
    assert isinstance(done, JobOk)
    for i, call in enumerate(done.calls):
        assert np.array_equal(call.arrays["y"], 2 * (np.arange(4096, dtype=np.float32) + i))


def test_device_seconds_are_counted(gpu: Any, make_job: Any) -> None:
    before = gpu.gpu_seconds
    gpu.run(make_job(GOOD))
    spent = gpu.gpu_seconds - before
    assert 0 < spent < 5
    gpu.run(make_job(ENDLESS, deadline_s=2.0))
    assert gpu.gpu_seconds - before - spent >= 2.0
    assert isinstance(gpu.run(make_job(GOOD)), JobOk)


def test_two_candidates_at_once(gpu: Any, make_job: Any) -> None:
    jobs = [make_job(GOOD.replace("2.0f", f"{k}.0f"), calls=4) for k in range(2, 8)]
    found: list[Any] = [None] * len(jobs)

    def run(index: int) -> None:
        found[index] = gpu.run(jobs[index])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, done in zip(range(2, 8), found, strict=True):
        assert isinstance(done, JobOk), done
        assert done.calls[0].arrays["y"][7] == 7.0 * k


def test_two_harnesses_on_one_gpu_wait_for_each_other(gpu: Any, make_job: Any) -> None:
    other = CudaExecutor(0, lock_s=0.5)
    try:
        assert isinstance(other.run(make_job(GOOD)), JobOk)
        with device_lock(gpu.facts()["uuid"], exclusive=False, timeout_s=5):
            assert isinstance(other.run(make_job(GOOD)), JobOk)  # checks share
        with device_lock(gpu.facts()["uuid"], exclusive=True, timeout_s=5):
            done = other.run(make_job(GOOD))
        assert isinstance(done, JobNotRun), done
        assert f"held by process {os.getpid()}" in done.message
        assert isinstance(other.run(make_job(GOOD)), JobOk)
    finally:
        other.close()


def test_two_runs_of_the_program_at_once(tmp_path: Path) -> None:
    requests = (
        "Softmax over each row of a float32 matrix with 64 rows and 300 columns.",
        "Sum of each row of a float32 matrix with 100 rows and 257 columns.",
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "cuda_harness", "generate", r, "--model", "offline", "--executor", "cuda:0", "--rounds", "0",
             "--out", str(tmp_path / str(i)), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "CUDA_HARNESS_LIBRARIES": "false"},
        )
        for i, r in enumerate(requests)
    ]  # fmt: skip
    for run in runs:
        said, complained = run.communicate(timeout=120)
        assert run.returncode == 0, complained[-1000:]
        assert json.loads(said)["usage"]["gpu_seconds"] > 0


def test_a_hung_kernel_dies_with_its_owner(gpu: Any, make_job: Any, tmp_path: Path) -> None:
    script = tmp_path / "owner.py"
    script.write_text(
        "import sys, threading, time\n"
        "from cuda_harness.tools.execute.cuda.executor import CudaExecutor\n"
        "from cuda_harness.tools.execute.protocol import *\n"
        f"SOURCE = 'extern \"C\" __global__ void k(float *y, const float *x, int n) {{ {ENDLESS} }}'\n"
        "gpu = CudaExecutor(0)\n"
        "launch = LaunchOp('k', (1, 1, 1), (1, 1, 1), 0, (PointerArg('y'), PointerArg('x'), ValueArg('int32', 1)))\n"
        "program = Program((Buffer('x', 'float32', 1, 'in'), Buffer('y', 'float32', 1, 'out')), (launch,))\n"
        "import numpy as np\n"
        "job = Job(SOURCE, program, ({'x': np.zeros(1, np.float32)},), arch=gpu.facts()['arch'], deadline_s=300)\n"
        "threading.Thread(target=gpu.run, args=(job,), daemon=True).start()\n"
        "time.sleep(4)\n"
        "print(*gpu._pool.pids(), flush=True)\n"
        "time.sleep(300)\n"
    )
    owner = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pids = [int(p) for p in owner.stdout.readline().split()]
    assert pids
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    until = time.monotonic() + 15
    while any(_alive(p) for p in pids) and time.monotonic() < until:
        time.sleep(0.1)
    assert not [p for p in pids if _alive(p)]
    assert isinstance(gpu.run(make_job(GOOD)), JobOk)


def test_a_device_that_is_not_visible_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    hidden = CudaExecutor(0)
    with pytest.raises(ExecutorUnavailable, match="no such CUDA device"):
        hidden.device()
    hidden.close()


def test_an_index_beyond_the_last_device_is_named() -> None:
    absent = CudaExecutor(99)
    with pytest.raises(ExecutorUnavailable, match="no such CUDA device"):
        absent.device()
    absent.close()


def test_devices_are_found_by_uuid_and_as_the_least_busy(gpu: Any) -> None:
    from cuda_harness.state.settings import Settings
    from cuda_harness.tools.execute.cuda.devices import list_visible
    from cuda_harness.tools.execute.registry import executor

    listed = list_visible()
    assert gpu.facts()["uuid"].removeprefix("GPU-") in {d.uuid for d in listed}
    for name in (f"cuda:GPU-{listed[0].uuid}", "cuda:auto", "cuda"):
        made: Any = executor(name, settings=Settings())
        assert made.facts()["name"] == listed[0].name
        made.close()


def test_two_gpus_take_one_run_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda_harness.state.settings import Settings
    from cuda_harness.tools.execute.cuda.devices import list_visible
    from cuda_harness.tools.execute.registry import executor

    if len(list_visible()) < 2:
        pytest.skip("needs two GPUs")
    monkeypatch.setenv(
        "XDG_CACHE_HOME", str(tmp_path)
    )  # the claims of this module's own executor are not seen
    first: Any = executor("cuda:auto", settings=Settings())
    second: Any = executor("cuda:auto", settings=Settings())
    named: Any = executor("cuda:1", settings=Settings())
    try:
        assert first.facts()["uuid"] != second.facts()["uuid"]
        assert {first.name, second.name} == {"cuda:0", "cuda:1"}
        assert named.facts()["uuid"] in {first.facts()["uuid"], second.facts()["uuid"]}
    finally:
        for made in (first, second, named):
            made.close()


@pytest.mark.parametrize("names", [("cuda:0", "cuda:1"), ("cuda:auto", "cuda:auto")])
def test_two_runs_at_once_have_a_gpu_each(names: tuple[str, str], tmp_path: Path) -> None:
    from cuda_harness.tools.execute.cuda.devices import list_visible

    if len(list_visible()) < 2:
        pytest.skip("needs two GPUs")
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "cuda_harness", "generate", "Softmax over each row of a float32 matrix with 2000 rows and 3000 columns.",
             "--model", "offline", "--executor", name, "--rounds", "0", "--out", str(tmp_path / str(i)), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "CUDA_HARNESS_LIBRARIES": "false", "XDG_CACHE_HOME": str(tmp_path)},  # as above
        )
        for i, name in enumerate(names)
    ]  # fmt: skip
    devices = set()
    for run in runs:
        said, complained = run.communicate(timeout=200)
        assert run.returncode == 0, complained[-1000:]
        made = json.loads(said)
        assert made["status"] == "verified", made["stop"]
        devices.add(made["executor"])
    assert devices == {"cuda:0", "cuda:1"}


def test_one_job_from_a_file(gpu: Any, make_job: Any, tmp_path: Path) -> None:
    from cuda_harness.tools.frames import read_frame

    for body, code, status in ((GOOD, 0, "ok"), ("y[(size_t)1 << 40] = x[0];", 1, "fault")):
        gpu.write_job(make_job(body, own_allocations=True), tmp_path / "job")
        argv = gpu.once_command(tmp_path / "job", tmp_path / "answer")
        done = subprocess.run(argv, env=gpu.once_environment(), capture_output=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr[-500:]
        with (tmp_path / "answer").open("rb") as stream:
            header, blobs = read_frame(stream, max_bytes=1 << 24)
        assert header["status"] == status, json.dumps(header)
    assert blobs == []


def test_the_sanitizer_sees_each_buffer_as_an_allocation(gpu: Any, make_job: Any, tmp_path: Path) -> None:
    import shutil

    if shutil.which("compute-sanitizer") is None:
        pytest.skip("needs compute-sanitizer")
    gpu.write_job(make_job("y[n + threadIdx.x] = x[0];", own_allocations=True), tmp_path / "job")
    argv = ["compute-sanitizer", "--tool", "memcheck", *gpu.once_command(tmp_path / "job")]
    done = subprocess.run(
        argv,
        env={**os.environ, **gpu.once_environment()},
        capture_output=True,
        timeout=100,
        check=False,
        text=True,
    )
    assert "Invalid __global__ write of size 4 bytes" in done.stdout, (done.stdout + done.stderr)[-1500:]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_fault_in_one_candidate_leaves_the_others_process(gpu: Any, make_job: Any) -> None:
    count = make_job(COUNTS + "\n// kept\n", grid=(1, 1, 1), block=(64, 1, 1), n=64)
    gpu.run(count)
    assert isinstance(gpu.run(make_job("y[(size_t)1 << 40] = x[0];")), JobFault)
    again = gpu.run(count)
    assert isinstance(again, JobOk)
    assert again.calls[0].arrays["y"][0] == 1.0
