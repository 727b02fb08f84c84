"""The compile worker: a persistent child that runs NVRTC, so that imports are paid once and a crash costs nothing.

Frames on stdin and a private descriptor: 8 bytes of length, then JSON; a cubin follows as raw bytes of declared size.
"""

import io
import json
import os
import resource
import struct
import sys
from typing import IO, Any

_LENGTH = struct.Struct("<Q")
MAX_FRAME = 64 << 20


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """Return `size` bytes; raises EOFError when the peer ended."""
    data = stream.read(size)
    if data is None or len(data) != size:
        msg = "the peer ended"
        raise EOFError(msg)
    return data


def read_frame(stream: IO[bytes]) -> dict[str, Any]:
    """Return the next frame; raises EOFError or ValueError."""
    (size,) = _LENGTH.unpack(read_exactly(stream, _LENGTH.size))
    if size > MAX_FRAME:
        msg = f"a frame of {size} bytes is too large"
        raise ValueError(msg)
    found = json.loads(read_exactly(stream, size))
    if not isinstance(found, dict):
        msg = "a frame that is no object"
        raise ValueError(msg)
    return found


def write_frame(stream: IO[bytes], value: dict[str, Any], blob: bytes = b"") -> None:
    """Write one frame and its blob."""
    data = json.dumps({**value, "blob": len(blob)}).encode()
    stream.write(_LENGTH.pack(len(data)) + data + blob)
    stream.flush()


def compile_once(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the answer to a compile job: a cubin, or the compiler's log."""
    from cuda.core import Program, ProgramOptions

    log = io.StringIO()
    options = ProgramOptions(
        name="kernel.cu",
        arch=job["arch"],
        std="c++17",
        lineinfo=True,
        use_fast_math=job["fast_math"] or None,
        max_register_count=job["max_registers"],
        include_path=job["include"],
        ptxas_options=["-v"],
    )
    try:
        done = Program(job["source"], "c++", options).compile("cubin", logs=log)
    except Exception as exc:  # noqa: BLE001 - cuda.core's classes differ by version; the log decides whose fault it is
        return {"status": "failed", "kind": type(exc).__name__, "log": _cut(f"{exc}")}, b""
    return {"status": "ok", "log": _cut(log.getvalue())}, bytes(done.code)


def _cut(text: str, limit: int = 200_000) -> str:
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}\n[...]\n{text[-half:]}"


def main() -> None:
    """Serve compile jobs until stdin ends."""
    out: IO[bytes] = os.fdopen(int(sys.argv[1]), "wb")
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout = sys.stderr
    while True:
        try:
            job = read_frame(sys.stdin.buffer)
        except EOFError:
            return
        answer, blob = compile_once(job)
        write_frame(out, answer, blob)


if __name__ == "__main__":
    main()
