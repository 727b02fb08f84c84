"""The compile worker: a persistent child that runs NVRTC, so that imports are paid once and a crash costs nothing.

Jobs come as frames on stdin, answers go to a private descriptor; a cubin and its PTX are the blobs of an answer.
"""

import io
import os
import resource
import sys
from typing import IO, Any

from cuda_harness.tools.frames import read_frame, write_frame

MAX_OBJECT = 64 << 20
"""Bytes of one cubin."""
MAX_PTX = 16 << 20
"""Bytes of its PTX; a longer one is left out."""


def compile_once(job: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Return the answer to a compile job: a cubin and its PTX, or the compiler's log."""
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
        program = Program(job["source"], "c++", options)
        done = program.compile("cubin", logs=log)
    except Exception as exc:  # noqa: BLE001 - cuda.core's classes differ by version; the log decides whose fault it is
        return {"status": "failed", "kind": type(exc).__name__, "log": _cut(f"{exc}")}, [b""]
    return {"status": "ok", "log": _cut(log.getvalue())}, [bytes(done.code), _ptx(program)]


def _ptx(program: Any) -> bytes:  # noqa: ANN401 - cuda.core.Program
    """Return the PTX that a cubin was made from, empty where this version of the bindings does not give it."""
    try:
        from cuda.bindings import nvrtc

        error, size = nvrtc.nvrtcGetPTXSize(program.handle)
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS or not 0 < size <= MAX_PTX:
            return b""
        text = b" " * size
        (error,) = nvrtc.nvrtcGetPTX(program.handle, text)
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):
        return b""
    return text.rstrip(b"\0") if error == nvrtc.nvrtcResult.NVRTC_SUCCESS else b""


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
            job, _ = read_frame(sys.stdin.buffer, max_bytes=0)
        except EOFError:
            return
        answer, blobs = compile_once(job)
        write_frame(out, answer, blobs)


if __name__ == "__main__":
    main()
