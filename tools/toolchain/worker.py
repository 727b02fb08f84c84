"""The compile worker: a persistent child that runs NVRTC, so that imports are paid once and a crash costs nothing.

Jobs come as frames on stdin, answers go to a private descriptor; a cubin is the blob of its answer.
"""

import io
import os
import resource
import sys
from typing import IO, Any

from cuda_harness.tools.frames import read_frame, write_frame

MAX_OBJECT = 64 << 20
"""Bytes of one cubin."""


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
            job, _ = read_frame(sys.stdin.buffer, max_bytes=0)
        except EOFError:
            return
        answer, blob = compile_once(job)
        write_frame(out, answer, [blob])


if __name__ == "__main__":
    main()
