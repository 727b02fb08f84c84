"""Setting the cancel event ends a running child at once, and a cancelled run stops in order."""

import threading
import time
from pathlib import Path

from tests.integration.test_replay import RECORDING, REQUEST

from cuda_harness import RunContext, Settings
from cuda_harness.graph.runner import generate
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import Buffer, Job, JobNotRun, LaunchOp, PointerArg, Program

SPIN = 'extern "C" __global__ void k(volatile float *x) { while (x[0] >= 0.0f || x[0] < 0.0f || x[0] != x[0]) { } }'


def test_an_endless_kernel_ends_within_two_seconds_of_the_cancel() -> None:
    cancel = threading.Event()
    executor = CpuExecutor(cancel=cancel)
    program = Program(
        (Buffer("x", "float32", 1, "out"),), (LaunchOp("k", (1, 1, 1), (1, 1, 1), 0, (PointerArg("x"),)),)
    )
    executor.run(Job(SPIN, program, ({},), deadline_s=0.2))  # building is not what is cancelled here
    timer = threading.Timer(0.5, cancel.set)
    timer.start()
    began = time.monotonic()

    done = executor.run(Job(SPIN, program, ({},), deadline_s=60.0))

    timer.join()
    assert isinstance(done, JobNotRun)
    assert "cancelled" in done.message
    assert time.monotonic() - began < 10  # two seconds are promised on a machine with a free core


def test_a_cancelled_run_stops_in_order_and_says_so(tmp_path: Path) -> None:
    context = RunContext(
        model=f"replay:{RECORDING}", executor="cpu", out=tmp_path, settings=Settings(), seed=1
    )
    context.listener = lambda event, _fields: context.cancelled.set() if event == "request_planned" else None

    result = generate(REQUEST, context=context)

    assert result.status == "failed"
    assert result.stop["reason"] == "interrupted"
    assert result.document["usage"]["calls"] == 1
