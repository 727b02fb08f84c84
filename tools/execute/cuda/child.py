"""The GPU child: makes the context, then serves jobs on its private channel until told otherwise or until a fault.

A sticky CUDA error kills this process and nothing else. Started ahead of time, so that imports and context
creation are off the path of a candidate. `--once JOBFILE` runs one job from a file, for compute-sanitizer and ncu.

Frames of the channel: `ready` (or why not) once; then for each job `started`, when the GPU is ours, and its answer.
"""

import argparse
import contextlib
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cuda_harness.tools.execute.cuda.faults import Failed, check, environment, start_failed
from cuda_harness.tools.execute.cuda.kernels import Modules
from cuda_harness.tools.execute.cuda.lock import Lease, LockTimeout
from cuda_harness.tools.execute.cuda.runner import run_job
from cuda_harness.tools.frames import read_frame, write_frame

_MAX_BLOBS = 200 << 30
_IDLE_S = 0.1
"""How long a child without a job keeps its turn on the GPU: the next check of a candidate comes sooner than that."""

Answer = tuple[dict[str, Any], list[bytes]]


def device_facts(device: Any) -> dict[str, Any]:  # noqa: ANN401 - cuda.core Device
    """Return what the parent needs to know of the device."""
    from cuda.bindings import driver

    p = device.properties
    free, total = check(driver.cuMemGetInfo(), "asking for free memory")
    major, minor = device.compute_capability
    return {
        "name": str(device.name), "uuid": str(device.uuid), "arch": f"sm_{major}{minor}" + ("a" if major >= 9 else ""),
        "num_sms": int(p.multiprocessor_count), "max_threads_per_block": int(p.max_threads_per_block),
        "max_block": [int(p.max_block_dim_x), int(p.max_block_dim_y), int(p.max_block_dim_z)],
        "max_grid": [int(p.max_grid_dim_x), int(p.max_grid_dim_y), int(p.max_grid_dim_z)],
        "shared_bytes_optin": int(p.max_shared_memory_per_block_optin),
        "registers_per_block": int(p.max_registers_per_block), "l2_bytes": int(p.l2_cache_size),
        "free_bytes": int(free), "memory_bytes": int(total),
        "driver_cuda": int(check(driver.cuDriverGetVersion(), "asking for the driver's version")),
    }  # fmt: skip


def open_device(index: int) -> Any:  # noqa: ANN401 - cuda.core Device
    """Return the device with its context current; raises `Failed` with the reason and a remedy."""
    version, wheels = None, None
    try:
        import cuda.bindings

        wheels = int(cuda.bindings.__version__.split(".")[0])
        from cuda.bindings import driver

        version = int(check(driver.cuDriverGetVersion(), "asking for the driver's version"))
        from cuda.core import Device

        device = Device(index)
        device.set_current()
    except Exception as exc:
        raise Failed(start_failed(exc, version, wheels)) from exc
    return device


def answer_job(header: dict[str, Any], blobs: list[bytes], device: Any, modules: Modules) -> Answer:  # noqa: ANN401
    """Return the answer to any job; whatever it raises becomes one."""
    try:
        if header["do"] == "run":
            return run_job(header, blobs, device, modules)
        if header["do"] == "occupancy":
            return occupancy(header, blobs, device, modules), []
        from cuda_harness.tools.execute.cuda import clock, cupti

        if header["do"] == "count":
            return cupti.count_job(header, blobs, device, modules)
        if header["do"] == "time":
            return clock.time_job(header, blobs, device)
        if header["do"] == "ceilings":
            return {"status": "ok", **clock.ceilings(device)}, []
        return environment(f"the child knows no job {header['do']!r}"), []
    except Failed as exc:
        return exc.answer, []
    except Exception as exc:  # noqa: BLE001 - a mistake of ours must not look like the candidate's
        return environment(f"{type(exc).__name__}: {exc}"), []


def occupancy(header: dict[str, Any], blobs: list[bytes], device: Any, modules: Modules) -> dict[str, Any]:  # noqa: ANN401
    """Return resident blocks per multiprocessor for `kernel` with `threads` and `shared_bytes`."""
    from cuda.bindings import driver

    from cuda_harness.tools.execute.cuda.kernels import allow_shared, kernel_limits

    kernel = modules.load(blobs[0]).get_kernel(header["kernel"])
    allow_shared(
        driver, kernel, kernel_limits(header["kernel"], kernel), header["shared_bytes"], device.device_id
    )
    blocks = kernel.occupancy.max_active_blocks_per_multiprocessor(header["threads"], header["shared_bytes"])
    return {"status": "ok", "blocks_per_sm": int(blocks)}


def serve(index: int, source: BinaryIO, answer: BinaryIO) -> None:
    """Say `ready`, then answer jobs until the parent closes the channel or a job leaves the context in doubt."""
    try:
        device = open_device(index)
        facts = device_facts(device)
    except Failed as exc:
        write_frame(answer, exc.answer)
        return
    write_frame(answer, {"status": "ready", "device": facts})
    modules, lease = Modules(), Lease(facts["uuid"])
    while True:
        if lease.is_held and not select.select([source], [], [], _IDLE_S)[0]:
            lease.release()
        try:
            header, blobs = read_frame(source, max_bytes=_MAX_BLOBS)
        except EOFError:
            os._exit(0)
        reply, data = _locked(header, blobs, device, lease, modules, answer)
        write_frame(answer, reply, data)
        if reply["status"] == "fault" or reply.get("reason") == "environment":
            answer.close()
            os._exit(0)  # a context with a sticky error may hang in its own clean-up


def _locked(
    header: dict[str, Any], blobs: list[bytes], device: Any, lease: Lease, modules: Modules, answer: BinaryIO  # noqa: ANN401
) -> Answer:  # fmt: skip
    """Answer a job while holding the GPU's lock, shared or alone."""
    lock = header.get("lock") or {"exclusive": False, "timeout_s": 60.0}
    try:
        with lease.held(exclusive=lock["exclusive"], timeout_s=lock["timeout_s"]) as held:
            write_frame(answer, {"status": "started", "waited_s": held.waited_s})
            began = time.monotonic()
            extra: dict[str, Any] = {"waited_s": held.waited_s}
            if lock["exclusive"]:
                extra["others"] = foreign_processes(lease.uuid, lock.get("ours", []))
            reply, data = answer_job(header, blobs, device, modules)
            return {**reply, **extra, "device_seconds": time.monotonic() - began}, data
    except LockTimeout as exc:
        return {
            "status": "not_run",
            "reason": "resources",
            "message": str(exc),
            "remedy": "wait for the other run to end, or use another device",
        }, []


def foreign_processes(uuid: str, ours: list[int]) -> list[int] | None:
    """Return process ids that hold a context on the GPU besides ours, `None` where NVML cannot tell.

    In a container NVML may name processes of the host's namespace; without our own among them nothing is known.
    """
    with contextlib.suppress(Exception):
        from cuda.bindings import nvml

        nvml.init_v2()
        handle = nvml.device_get_handle_by_uuid(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}")
        listed = nvml.device_get_compute_running_processes_v3(handle)
        found = [int(p) for p in np.atleast_1d(np.asarray(listed.pid))]
        if os.getpid() in found:
            return sorted(set(found) - {os.getpid(), *ours})
    return None


def die_with_channel(descriptor: int) -> None:
    """End this process when the other end of the channel is gone, even while a kernel hangs."""
    poller = select.poll()
    poller.register(descriptor, 0)  # POLLHUP alone, which is always reported

    def watch() -> None:
        while not any(events & (select.POLLHUP | select.POLLERR) for _, events in poller.poll()):
            time.sleep(0.05)
        time.sleep(0.2)  # an idle child leaves by itself, with its answer flushed
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def once(path: Path, index: int, answer: Path | None) -> int:
    """Run the job in a file and return the exit code: 0 ok, 1 the candidate's fault, 2 not run.

    Whoever starts this holds the GPU's lock. Taken once more here, it would wait behind a measurement that waits for its
    holder.
    """
    with path.open("rb") as stream:
        header, blobs = read_frame(stream, max_bytes=_MAX_BLOBS)
    reply: dict[str, Any]
    data: list[bytes] = []
    try:
        reply, data = answer_job(header, blobs, open_device(index), Modules())
    except Failed as exc:
        reply = exc.answer
    if answer is not None:
        with answer.open("wb") as stream:
            write_frame(stream, reply, data)
    else:
        sys.stderr.write(f"{reply['status']}: {reply.get('message', '')}\n")
    return {"ok": 0, "fault": 1}.get(reply["status"], 2)


def main(argv: list[str] | None = None) -> None:
    """Serve jobs on two descriptors (`N IN OUT`), or run one from a file (`--once JOBFILE`)."""
    parser = argparse.ArgumentParser(prog="cuda_harness.tools.execute.cuda.child")
    parser.add_argument(
        "channel", nargs="*", type=int, help="device, descriptor to read, descriptor to write"
    )
    parser.add_argument(
        "--once", type=Path, help="a job as one frame: JSON header, cubin, inputs call by call"
    )
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--answer", type=Path, help="file for the answer's frame")
    parser.add_argument("--list", action="store_true", help="print visible devices as JSON")
    given = parser.parse_args(argv)
    if given.list:
        from cuda_harness.tools.execute.cuda.devices import print_visible

        print_visible()
        return
    if given.once is not None:
        code = once(given.once, given.device, given.answer)
        sys.stderr.flush()
        if code == 0:
            sys.exit(0)  # profilers and sanitizers see the context taken down in order
        os._exit(code)
    index, fd_in, fd_out = given.channel
    die_with_channel(fd_in)
    serve(index, os.fdopen(fd_in, "rb"), os.fdopen(fd_out, "wb"))


if __name__ == "__main__":
    main()
