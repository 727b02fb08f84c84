"""Children of the CUDA executor: kept, replaced, probed and quarantined; a scripted process stands in for the child."""

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.execute.cuda.executor import CudaExecutor
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
from cuda_harness.tools.toolchain.nvrtc import Compiler

CHILD = Path(__file__).parents[4] / "fakes" / "scripted_gpu_child.py"
Make = Callable[..., CudaExecutor]


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    made = Compiler(cache=tmp_path_factory.mktemp("cubins"), workers=1)
    yield made
    made.close()


@pytest.fixture
def make(tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made: list[CudaExecutor] = []

    def factory(*behaviours: str, **options: Any) -> CudaExecutor:
        left, marker = list(behaviours), tmp_path / f"told{len(made)}"

        def command(fd_in: int, fd_out: int) -> list[str]:
            how = left.pop(0) if len(left) > 1 else left[0]
            return [sys.executable, str(CHILD), how, str(marker), str(fd_in), str(fd_out)]

        executor = CudaExecutor(0, compiler=compiler, command=command, **options)
        made.append(executor)
        return executor

    yield factory
    for executor in made:
        executor._pool.close()


def job(name: str = "k", **changes: Any) -> Job:
    source = f'extern "C" __global__ void {name}(long long *pid) {{ pid[0] = 1; }}'
    launch = LaunchOp(name, (1, 1, 1), (1, 1, 1), 0, (PointerArg("pid"),))
    made = Job(source, Program((Buffer("pid", "int64", 1, "out"),), (launch,)), ({},), deadline_s=10.0)
    return replace(made, **changes)


def process_of(done: Any) -> int:
    assert isinstance(done, JobOk), done
    return int(done.calls[0].arrays["pid"][0])


def test_jobs_of_one_candidate_share_a_process_and_another_candidate_gets_its_own(make: Make) -> None:
    executor = make("ok")
    first, again, other = (process_of(executor.run(job(n))) for n in ("k", "k", "other"))
    back = process_of(executor.run(job("k")))
    assert first == again == back
    assert other != first


def test_a_fresh_process_serves_once_and_leaves_the_candidates_own_alone(make: Make) -> None:
    executor = make("ok")
    own = process_of(executor.run(job()))
    fresh = process_of(executor.run(job(fresh_process=True)))
    another = process_of(executor.run(job(fresh_process=True)))
    assert len({own, fresh, another}) == 3
    assert process_of(executor.run(job())) == own
    assert not _alive(fresh)


def test_a_hang_ends_at_the_deadline_and_the_next_job_passes(make: Make) -> None:
    executor = make("hangs", "ok")
    began = time.monotonic()
    done = executor.run(job(deadline_s=0.5))
    assert isinstance(done, JobFault)
    assert done.fault == "timeout"
    assert time.monotonic() - began < 60
    assert executor.gpu_seconds >= 0.5
    assert isinstance(executor.run(job()), JobOk)


def test_a_fault_ends_the_process(make: Make) -> None:
    executor = make("faults", "ok")
    assert isinstance(executor.run(job()), JobFault)
    assert isinstance(executor.run(job()), JobOk)


def test_a_death_tells_what_the_child_said(make: Make) -> None:
    done = make("dies", "ok").run(job())
    assert isinstance(done, JobFault)
    assert (done.fault, "Xid 31" in done.message) == ("crash", True)


def test_a_flood_of_failed_assertions_does_not_block_and_the_first_is_quoted(make: Make) -> None:
    done = make("asserts", "ok").run(job())
    assert isinstance(done, JobFault)
    assert done.fault == "crash"
    assert "block: [0,0,0], thread: [0,0,0] Assertion `n < 0` failed" in done.message


def test_a_job_too_large_for_the_device_keeps_the_process_and_its_numbers(make: Make) -> None:
    executor = make("no memory")
    done = executor.run(job())
    assert isinstance(done, JobNotRun)
    assert (done.reason, done.evidence) == ("resources", {"needed_bytes": 9})


def test_memory_held_by_waiting_children_is_given_back_before_a_job_is_too_large(make: Make) -> None:
    executor = make("no memory at first")
    assert isinstance(executor.run(job()), JobOk)


def test_more_than_the_device_has_is_refused_before_any_transfer(make: Make) -> None:
    program = Program((Buffer("pid", "int64", 1 << 30, "out"),), ())
    done = make("ok").run(replace(job(), program=program))
    assert isinstance(done, JobNotRun)
    assert done.reason == "resources"
    assert done.evidence["needed_bytes"] > done.evidence["usable_bytes"]


def test_a_device_that_fails_two_probes_is_left_alone(make: Make) -> None:
    executor = make("faults", "dies")
    assert isinstance(executor.run(job()), JobFault)
    done = executor.run(job("other"))
    assert isinstance(done, JobNotRun)
    assert done.reason == "environment"
    assert "left alone" in done.message
    assert "Xid 31" in done.message


def test_one_failed_probe_is_forgiven(make: Make) -> None:
    executor = make("faults", "dies", "ok")
    executor.run(job())
    assert isinstance(executor.run(job("other")), JobOk)


def test_cuda_that_never_started_is_the_machines_failure(make: Make) -> None:
    with pytest.raises(ExecutorUnavailable, match="no driver"):
        make("refuses").device()
    with pytest.raises(ExecutorUnavailable, match=r"libcuda\.so\.1"):
        make("dies at start").run(job())


def test_cancelling_ends_a_job_without_blame(make: Make) -> None:
    cancel = threading.Event()
    executor = make("hangs", cancel=cancel)
    executor.facts()
    threading.Timer(0.3, cancel.set).start()
    done = executor.run(job(deadline_s=30.0))
    assert isinstance(done, JobNotRun)
    assert "cancelled" in done.message


def test_a_job_that_nobody_waits_for_is_ended_and_blames_nobody(make: Make) -> None:
    executor, over = make("hangs", "ok"), threading.Event()
    executor.facts()
    threading.Timer(0.3, over.set).start()
    done = executor.run(job(deadline_s=30.0, over=over))
    assert isinstance(done, JobNotRun)
    assert "nobody waits" in done.message
    again = executor.run(job(over=over))  # not even begun
    assert isinstance(again, JobNotRun)
    assert isinstance(executor.run(job()), JobOk)


def test_a_job_that_nobody_waits_for_does_not_wait_for_a_process(make: Make) -> None:
    executor, over = make("ok", "starts slowly", spares=1), threading.Event()
    assert isinstance(executor.run(job()), JobOk)
    waiting = set(executor._pool.pids())
    threading.Timer(0.3, over.set).start()
    began = time.monotonic()
    done = executor.run(job("other", over=over))
    assert isinstance(done, JobNotRun)
    assert time.monotonic() - began < 10
    assert set(executor._pool.pids()) == waiting, "the child that is starting serves another"


def test_a_closed_executor_starts_no_process(make: Make) -> None:
    executor = make("ok")
    executor.facts()
    executor._pool.close()
    done = executor.run(job())
    assert isinstance(done, JobNotRun)
    assert executor._pool.pids() == []


def test_no_timing_waits_for_a_spare_that_is_starting(make: Make) -> None:
    executor = make("ok", "starts slowly", "ok", spares=2)
    assert isinstance(executor.run(job()), JobOk)
    slow = executor._pool.pids()
    began = time.monotonic()
    answered = executor.ask({"do": "time"}, [], deadline_s=5.0, max_bytes=1 << 20)
    assert isinstance(answered, tuple)
    assert time.monotonic() - began < 10
    assert not any(_alive(p) for p in slow)
    assert isinstance(executor.run(job("other")), JobOk)


def test_children_for_the_next_candidate_are_started_when_the_last_ones_checks_are_over(make: Make) -> None:
    executor = make("ok", spares=2)
    executor.facts()
    before = set(executor._pool.pids())
    executor.run(job())
    assert set(executor._pool.pids()) == before  # none while it runs
    executor.run(job(fresh_process=True))
    assert len(set(executor._pool.pids()) - before) == 2


def test_timing_waits_for_checks_and_the_waiting_is_told(make: Make) -> None:
    executor = make("ok")
    executor.facts()
    from cuda_harness.tools.execute.cuda.lock import device_lock

    started, release = threading.Event(), threading.Event()

    def hold() -> None:
        with device_lock("scripted-0", exclusive=False, timeout_s=5):
            started.set()
            release.wait(5)

    holder = threading.Thread(target=hold)
    holder.start()
    started.wait(5)
    threading.Timer(0.4, release.set).start()
    answered = executor.ask({"do": "time"}, [], deadline_s=5.0, max_bytes=1 << 20)
    holder.join()
    assert isinstance(answered, tuple)
    assert executor.waited_s >= 0.2
    assert executor.gpu_seconds < 0.4


def test_a_gpu_held_by_another_harness_is_not_the_candidates_fault(make: Make) -> None:
    from cuda_harness.tools.execute.cuda.lock import device_lock

    executor = make("ok", lock_s=0.3)
    executor.facts()
    with device_lock("scripted-0", exclusive=True, timeout_s=5):
        done = executor.run(job())
    assert isinstance(done, JobNotRun)
    assert done.reason == "resources"
    assert f"held by process {os.getpid()}" in done.message
    assert isinstance(executor.run(job()), JobOk)


def test_closing_leaves_no_process(make: Make) -> None:
    executor = make("ok")
    pid = process_of(executor.run(job()))
    pids = executor._pool.pids()
    assert pid in pids
    executor._pool.close()
    assert not any(_alive(p) for p in pids)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_an_executor_that_nobody_closes_leaves_no_process(compiler: Compiler, tmp_path: Path) -> None:
    forgotten = CudaExecutor(
        0, compiler=compiler, command=lambda r, w: [sys.executable, str(CHILD), "ok", str(tmp_path / "m"), str(r), str(w)],
    )  # fmt: skip
    pids = forgotten._pool.pids()
    assert pids
    del forgotten
    gc.collect()
    assert not any(_alive(p) for p in pids)


def test_closing_in_the_middle_of_a_job_blames_nobody(make: Make) -> None:
    executor = make("hangs")
    executor.facts()
    threading.Timer(0.4, executor._pool.close).start()
    done = executor.run(job(deadline_s=30.0))
    assert isinstance(done, JobNotRun)
    assert done.reason == "environment"


def test_timing_follows_in_the_process_of_the_last_checks_and_ends_it(make: Make) -> None:
    executor = make("ok")
    own = process_of(executor.run(job()))
    answered = executor.ask({"do": "time"}, [], deadline_s=5.0, max_bytes=1 << 20)
    assert isinstance(answered, tuple)
    assert int.from_bytes(answered[1][0], "little") == own
    assert not _alive(own)
    assert process_of(executor.run(job())) != own
