"""The child that runs references: imports NumPy once, then forks a contained process for each batch.

Questions and answers are frames (tools.frames). What a reference prints goes nowhere, and the answer's channel is a
descriptor it is not told.
"""

import contextlib
import importlib
import os
import random
import select
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cuda_harness.tools.frames import LENGTH, read_frame, wide_pipe, write_frame

MAX_QUESTION = 64 << 30
ENDED = {"exited": 0, "killed": 1, "hung": 2, "too_large": 3}
"""How a child ended, as the number that closes its answer."""
SCIPY = (
    "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial", "special", "stats",
)  # fmt: skip
"""Parts of SciPy that are loaded before the fork when a reference names them."""


def describe_arrays(arrays: dict[str, NDArray[Any]]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return the headers and raw bytes of arrays."""
    heads, blobs = [], []
    for name, array in arrays.items():
        dense = np.ascontiguousarray(array)
        heads.append({"name": name, "dtype": dense.dtype.str, "shape": list(array.shape)})
        blobs.append(dense.tobytes())
    return heads, blobs


def rebuild(heads: list[dict[str, Any]], blobs: list[bytes]) -> dict[str, NDArray[Any]]:
    """Return arrays from headers and raw bytes; only plain numeric dtypes are made.

    Raises:
        ValueError: If a dtype is not plain or sizes do not fit.
    """
    found = {}
    for head, blob in zip(heads, blobs, strict=True):
        dtype = np.dtype(str(head["dtype"]))
        if dtype.kind not in "fiub" or dtype.hasobject:
            msg = f"{head['name']!r} has dtype {dtype}, which is not plain numbers"
            raise ValueError(msg)
        found[str(head["name"])] = (
            np.frombuffer(blob, dtype=dtype).reshape([int(n) for n in head["shape"]]).copy()
        )
    return found


def run_batch(header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Compile the reference and run its cases; the first failure ends the batch, unless the header is tolerant.

    In a tolerant batch a case in which the reference raises has no answer, `None`; the others have theirs.
    """
    space: dict[str, Any] = {"__name__": "reference"}
    try:
        exec(compile(header["source"], "reference.py", "exec"), space)  # noqa: S102 - contained, that is its place
        function = space["reference"]
    except KeyError:
        return {"status": "fault", "kind": "raised", "message": "it defines no function `reference`"}, []
    except BaseException as exc:  # noqa: BLE001 - whatever foreign code raises is the answer
        return {"status": "fault", "kind": "raised", "message": _shown(exc)}, []
    heads: list[list[dict[str, Any]] | None] = []
    out: list[bytes] = []
    at = 0
    for number, case in enumerate(header["cases"]):
        count = len(case["inputs"])
        inputs = rebuild(case["inputs"], blobs[at : at + count])
        at += count
        try:
            with np.errstate(all="ignore"):
                found = function(inputs, dict(case["dims"]), dict(case["scalars"]))
            if not isinstance(found, Mapping):
                msg = f"it returns {type(found).__name__}, not a dict of outputs by name"
                raise TypeError(msg)  # noqa: TRY301 - one place turns all of these into an answer
            arrays = {str(k): _plain(v) for k, v in found.items()}
            case_heads, case_blobs = describe_arrays(arrays)
        except MemoryError:
            return {
                "status": "fault",
                "kind": "memory",
                "case": number,
                "message": "it uses more memory than it may",
            }, []
        except BaseException as exc:  # noqa: BLE001 - as above
            if header.get("tolerant") and isinstance(exc, Exception):
                heads.append(None)
                continue
            return {"status": "fault", "kind": "raised", "case": number, "message": _shown(exc)}, []
        heads.append(case_heads)
        out.extend(case_blobs)
    return {"status": "ok", "cases": heads}, out


def _plain(value: Any) -> NDArray[Any]:  # noqa: ANN401 - whatever the reference returned
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        msg = f"an output has dtype {array.dtype}, which is not plain numbers"
        raise TypeError(msg)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    return array


def _shown(exc: BaseException) -> str:
    lines = [f.lineno for f in traceback.extract_tb(exc.__traceback__) if f.filename == "reference.py"]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{type(exc).__name__}: {exc}"[:600] + where


def load_scipy(source: str) -> None:
    """Import the parts of SciPy that a text names, here, where one import serves every later fork."""
    if "scipy" not in source:
        return
    for name in ("scipy", *(f"scipy.{part}" for part in SCIPY if part in source)):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def main() -> None:
    """Fork a contained child for each batch until stdin ends."""
    import cuda_harness.tools.execute.sandbox  # noqa: F401 - loaded once, before the forks

    answer_fd = int(sys.argv[1])
    while True:
        try:
            header, blobs = read_frame(sys.stdin.buffer, max_bytes=MAX_QUESTION)
        except EOFError:
            return
        load_scipy(header["source"])
        read_end, write_end = wide_pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            os.close(answer_fd)
            _answer(write_end, header, blobs)
        os.close(write_end)
        del blobs
        forward(read_end, answer_fd, child, seconds=header["seconds"], max_bytes=header["max_bytes"])


def _answer(write_end: int, header: dict[str, Any], blobs: list[bytes]) -> NoReturn:
    """Close the sandbox, run the batch, answer, end; never returns into the parent's loop."""
    from cuda_harness.state.errors import SandboxUnavailable
    from cuda_harness.tools.execute.sandbox import contain_python

    try:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        with os.fdopen(write_end, "wb") as stream:
            _scatter()
            try:
                contain_python(
                    cpu_seconds=int(header["seconds"]) + 1,
                    memory_bytes=header["memory"],
                    unsafe=header["unsafe"],
                )
                reply, data = run_batch(header, blobs)
            except SandboxUnavailable as exc:
                reply, data = {"status": "no_sandbox", "message": exc.message}, []
            write_frame(stream, reply, data)
    finally:
        os._exit(0)


def _scatter() -> None:
    """Seed the global generators anew: two forks of one parent would repeat each other, and randomness would not show."""
    random.seed()
    np.random.seed(int.from_bytes(os.urandom(4), "little"))  # noqa: NPY002 - the one that references may use


def forward(read_end: int, answer_fd: int, child: int, *, seconds: float, max_bytes: int) -> None:
    """Pass the child's bytes on in an envelope of ours, so that nothing it writes can pose as a later answer.

    The envelope: pieces of 8 bytes of length and the bytes; a length of 0; then 8 bytes of `ENDED` state. The child
    is killed when its time is over or when it sends more than it was asked for.
    """
    deadline, passed, state = time.monotonic() + seconds, 0, ENDED["exited"]
    while True:
        if not select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))[0]:
            state = ENDED["hung"]
            break
        data = os.read(read_end, 1 << 20)
        if not data:
            break
        passed += len(data)
        if passed > max_bytes:
            state = ENDED["too_large"]
            break
        _write_all(answer_fd, LENGTH.pack(len(data)) + data)
    os.close(read_end)
    if state == ENDED["exited"] and not _ends_by(child, deadline):
        state = ENDED["hung"]
    if state != ENDED["exited"]:
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        _, status = os.waitpid(child, 0)
        if state == ENDED["exited"] and os.WIFSIGNALED(status):
            state = ENDED["hung" if os.WTERMSIG(status) == signal.SIGXCPU else "killed"]
    _write_all(answer_fd, LENGTH.pack(0) + LENGTH.pack(state))


def _ends_by(child: int, deadline: float) -> bool:
    """Return whether a child that closed its channel also ends before the deadline; it stays to be reaped."""
    while True:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.001)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main()
