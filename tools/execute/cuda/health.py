"""Whether a device is trusted: probed after each fault or kill, left alone after two probes that failed."""

import struct
import threading

from cuda_harness.tools.execute.cuda.wire import job_frame
from cuda_harness.tools.execute.cuda.worker import Frame, Request
from cuda_harness.tools.execute.protocol import Buffer, Job, LaunchOp, PointerArg, Program

PROBE = 'extern "C" __global__ void probe(unsigned *x) { x[threadIdx.x] = threadIdx.x * 2654435761u; }\n'
_THREADS = 64
_MOST_FAILURES = 2


class Health:
    """What is known of one device."""

    def __init__(self) -> None:
        self.must_probe = False
        self.quarantined: str | None = None
        """Why the device is left alone; `None`: it is not."""
        self.probing = threading.Lock()
        self._failures: list[str] = []

    def suspect(self) -> None:
        """A job ended by a fault or by force: the device is probed before the next one."""
        if self.quarantined is None:
            self.must_probe = True

    def passed(self) -> None:
        """The device ran a tiny kernel in a new process."""
        self.must_probe = False
        self._failures = []

    def failed(self, why: str) -> None:
        """A probe, or a new process, failed; the second time in a row the device is left alone."""
        self._failures.append(why)
        self.must_probe = True
        if len(self._failures) >= _MOST_FAILURES:
            self.must_probe = False
            self.quarantined = "; then ".join(dict.fromkeys(self._failures))


def probe_frame(cubin: bytes) -> Request:
    """Return the job that runs the tiny kernel."""
    launch = LaunchOp("probe", (1, 1, 1), (_THREADS, 1, 1), 0, (PointerArg("x"),))
    program = Program((Buffer("x", "uint32", _THREADS, "out"),), (launch,))
    return job_frame(Job(PROBE, program, ({},)), cubin)


def probe_is_right(answer: Frame) -> bool:
    """Return whether the tiny kernel wrote what it should."""
    expected = struct.pack(f"<{_THREADS}I", *((i * 2654435761) & 0xFFFFFFFF for i in range(_THREADS)))
    return answer[0].get("status") == "ok" and list(answer[1]) == [expected]
