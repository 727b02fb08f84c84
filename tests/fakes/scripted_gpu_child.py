"""A process that speaks the GPU child's wire protocol from a script: for rules that need no device.

`scripted_gpu_child.py BEHAVIOUR MARKER IN OUT`: BEHAVIOUR is one of the words of `act`; MARKER a file it may leave.
It computes nothing on a GPU and its answers are never taken for measurements.
"""

import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

from cuda_harness.tools.execute.cuda.child import die_with_channel
from cuda_harness.tools.execute.cuda.lock import LockTimeout, device_lock
from cuda_harness.tools.frames import read_frame, write_frame

FACTS = {
    "name": "scripted", "uuid": "scripted-0", "arch": "sm_90a", "num_sms": 4, "max_threads_per_block": 1024,
    "max_block": [1024, 1024, 64], "max_grid": [2**31 - 1, 65535, 65535], "shared_bytes_optin": 232448,
    "registers_per_block": 65536, "l2_bytes": 1 << 20, "free_bytes": 1 << 30, "memory_bytes": 1 << 30,
}  # fmt: skip


def reply(header: dict[str, Any], source: bytes) -> tuple[dict[str, Any], list[bytes]]:
    if b"probe" in source or any(op.get("kernel") == "probe" for op in header.get("ops", [])):
        return ok(["x"], [struct.pack("<64I", *((i * 2654435761) & 0xFFFFFFFF for i in range(64)))])
    return ok(["pid"], [struct.pack("<q", os.getpid())])


def ok(outputs: list[str], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    return {
        "status": "ok", "seconds": 0.0, "outputs": outputs, "unwritten": [dict.fromkeys(outputs, 0)], "launches": 1,
        "device_seconds": 0.25,
    }, blobs  # fmt: skip


def main() -> None:
    how, marker, fd_in, fd_out = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    die_with_channel(fd_in)
    source, answer = os.fdopen(fd_in, "rb"), os.fdopen(fd_out, "wb")
    if how == "dies at start":
        sys.exit("libcuda.so.1: cannot open shared object file")
    if how == "refuses":
        write_frame(
            answer,
            {"status": "not_run", "reason": "environment", "message": "no driver", "remedy": "install it"},
        )
        return
    if how == "starts slowly":
        time.sleep(20)
    write_frame(answer, {"status": "ready", "device": FACTS})
    while True:
        header, blobs = read_frame(source, max_bytes=1 << 30)
        lock = header["lock"]
        try:
            with device_lock("scripted-0", exclusive=lock["exclusive"], timeout_s=lock["timeout_s"]) as held:
                write_frame(answer, {"status": "started", "waited_s": held.waited_s})
                if how == "no memory at first" and marker.exists():
                    how = "ok"
                marker.touch()
                act(how, header, blobs, answer)
        except LockTimeout as exc:
            write_frame(answer, {"status": "not_run", "reason": "resources", "message": str(exc)})


def act(how: str, header: dict[str, Any], blobs: list[bytes], answer: Any) -> None:
    if how == "hangs":
        time.sleep(600)
    elif how == "dies":
        sys.stderr.write("Xid 31 ")
        sys.stderr.flush()
        os._exit(3)
    elif how == "asserts":
        for i in range(20_000):  # more than a pipe holds
            sys.stderr.write(f"kernel.cu:1: k: block: [{i},0,0], thread: [0,0,0] Assertion `n < 0` failed.\n")
        sys.stderr.flush()
        write_frame(answer, {"status": "fault", "fault": "crash", "message": "ASSERT while running k"})
        os._exit(0)
    elif how == "faults":
        write_frame(answer, {"status": "fault", "fault": "out_of_bounds", "message": "ILLEGAL_ADDRESS"})
        os._exit(0)
    elif how.startswith("no memory"):
        write_frame(
            answer,
            {
                "status": "not_run",
                "reason": "resources",
                "message": "needs 9 MiB",
                "evidence": {"needed_bytes": 9},
            },
        )
    else:
        write_frame(answer, *reply(header, blobs[0] if blobs else b""))


if __name__ == "__main__":
    main()
