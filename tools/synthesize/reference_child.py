"""The child that runs references: imports NumPy once, then forks a contained process for each batch.

Frames: 8 bytes of length and JSON, then raw array bytes of declared sizes. What a reference prints goes nowhere,
and the answer's channel is a descriptor it is not told; nothing is ever unpickled.
"""

import json
import os
import signal
import struct
import sys
import traceback
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")
MAX_HEADER = 32 << 20


def read_frame(stream: IO[bytes], *, max_bytes: int) -> tuple[dict[str, Any], list[bytes]]:
    """Return the next frame and its blobs; raises EOFError or ValueError."""
    (size,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if size > MAX_HEADER:
        msg = f"a header of {size} bytes is too large"
        raise ValueError(msg)
    header = json.loads(_exactly(stream, size))
    sizes = header["blobs"]
    if any(not isinstance(n, int) or n < 0 for n in sizes) or sum(sizes) > max_bytes:
        msg = f"{sum(sizes)} bytes of arrays are beyond the bound of {max_bytes}"
        raise ValueError(msg)
    return header, [_exactly(stream, n) for n in sizes]


def write_frame(stream: IO[bytes], header: dict[str, Any], blobs: list[bytes]) -> None:
    """Write one frame."""
    data = json.dumps({**header, "blobs": [len(b) for b in blobs]}).encode()
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.writelines(blobs)
    stream.flush()


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if data is None or len(data) != size:
        msg = "the peer ended"
        raise EOFError(msg)
    return data


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
    """Compile the reference and run its cases; the first failure ends the batch."""
    space: dict[str, Any] = {"__name__": "reference"}
    try:
        exec(compile(header["source"], "reference.py", "exec"), space)  # noqa: S102 - contained, that is its place
        function = space["reference"]
    except KeyError:
        return {"status": "fault", "kind": "raised", "message": "it defines no function `reference`"}, []
    except BaseException as exc:  # noqa: BLE001 - whatever foreign code raises is the answer
        return {"status": "fault", "kind": "raised", "message": _shown(exc)}, []
    heads, out, at = [], [], 0
    for number, case in enumerate(header["cases"]):
        count = len(case["inputs"])
        inputs = rebuild(case["inputs"], blobs[at : at + count])
        at += count
        try:
            with np.errstate(all="ignore"):
                found = function(inputs, dict(case["dims"]), dict(case["scalars"]))
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


def main() -> None:
    """Fork a contained child for each batch until stdin ends."""
    from cuda_harness.state.errors import SandboxUnavailable
    from cuda_harness.tools.execute.sandbox import contain_python

    answer_fd, max_bytes = int(sys.argv[1]), int(sys.argv[2])
    while True:
        try:
            header, blobs = read_frame(sys.stdin.buffer, max_bytes=max_bytes)
        except EOFError:
            return
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            os.close(answer_fd)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            if "scipy" in header["source"]:
                import scipy.linalg
                import scipy.signal
                import scipy.special  # noqa: F401 - loaded before the sandbox closes
            with os.fdopen(write_end, "wb") as stream:
                try:
                    contain_python(
                        cpu_seconds=int(header["seconds"]) + 1,
                        memory_bytes=int(header["memory"]),
                        unsafe=header["unsafe"],
                    )
                    reply, data = run_batch(header, blobs)
                except SandboxUnavailable as exc:
                    reply, data = {"status": "no_sandbox", "message": exc.message}, []
                write_frame(stream, reply, data)
            os._exit(0)
        os.close(write_end)
        _forward(read_end, answer_fd, child)


def _forward(read_end: int, answer_fd: int, child: int) -> None:
    """Pass the child's answer on; one that died without an answer is reported as killed."""
    passed = 0
    while True:
        data = os.read(read_end, 1 << 20)
        if not data:
            break
        passed += len(data)
        while data:
            data = data[os.write(answer_fd, data) :]
    os.close(read_end)
    _, status = os.waitpid(child, 0)
    if passed == 0:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        kind = {int(signal.SIGXCPU): "hung", int(signal.SIGKILL): "memory"}.get(number or 0, "killed")
        message = (
            "it did not end in time" if kind == "hung" else f"it ended the process (wait status {status})"
        )
        data = json.dumps({"status": "fault", "kind": kind, "message": message, "blobs": []}).encode()
        os.write(answer_fd, _LENGTH.pack(len(data)) + data)


if __name__ == "__main__":
    main()
