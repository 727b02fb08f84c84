"""Frames between parent and GPU child: a JSON header of bounded size and raw blobs of declared sizes."""

import json
import struct
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np

from cuda_harness.tools.execute.protocol import (
    Array,
    CopyOp,
    FillOp,
    Job,
    LaunchOp,
    Op,
    PointerArg,
    SymbolOp,
    ValueArg,
    WhileOp,
)

MAX_HEADER = 64 << 20
_LENGTH = struct.Struct("<Q")


def write_frame(stream: BinaryIO, header: dict[str, Any], blobs: list[bytes] | None = None) -> None:
    """Write one frame; the header gains `blobs`, the byte sizes of what follows it."""
    blobs = blobs or []
    data = json.dumps({**header, "blobs": [len(b) for b in blobs]}).encode()
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.writelines(blobs)
    stream.flush()


def read_frame(stream: BinaryIO, *, max_blob_bytes: int) -> tuple[dict[str, Any], list[bytes]]:
    """Return header and blobs of the next frame.

    Raises:
        EOFError: If the peer ended.
        ValueError: If a size is beyond its bound or the header is no JSON object.
    """
    (size,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if size > MAX_HEADER:
        msg = f"a header of {size} bytes is too large"
        raise ValueError(msg)
    header = json.loads(_exactly(stream, size))
    sizes = header.get("blobs") if isinstance(header, dict) else None
    if not isinstance(sizes, list) or not all(isinstance(n, int) and n >= 0 for n in sizes):
        msg = "a frame without blob sizes"
        raise ValueError(msg)
    if sum(sizes) > max_blob_bytes:
        msg = f"blobs of {sum(sizes)} bytes are beyond the bound of {max_blob_bytes}"
        raise ValueError(msg)
    return header, [_exactly(stream, n) for n in sizes]


def _exactly(stream: BinaryIO, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = stream.read(min(left, 1 << 24))
        if not part:
            msg = "the peer ended in the middle of a frame"
            raise EOFError(msg)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def job_frame(job: Job, cubin: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return the frame that tells a child what to run: blobs are the cubin, then the inputs call by call."""
    blobs = [cubin]
    inputs = [b.name for b in job.program.buffers if b.role in {"in", "inout"}]
    for call in job.calls:
        blobs.extend(_raw(call[name]) for name in inputs)
    header = {
        "do": "run",
        "buffers": [asdict(b) for b in job.program.buffers],
        "ops": [encode_op(op) for op in job.program.ops],
        "inputs": inputs,
        "calls": len(job.calls),
        "poison": job.poison,
        "own_allocations": job.own_allocations,
        "full_output": job.full_output,
    }
    return header, blobs


def encode_op(op: Op) -> dict[str, Any]:
    """Return an operation as JSON."""
    match op:
        case LaunchOp():
            args = [_encode_arg(a) for a in op.args]
            return {
                "op": "launch", "kernel": op.kernel, "grid": op.grid, "block": op.block, "shared": op.shared_bytes,
                "args": args, "cooperative": op.cooperative, "cluster": op.cluster,
            }  # fmt: skip
        case FillOp():
            return {"op": "fill", "buffer": op.buffer, "pattern": op.pattern.hex()}
        case CopyOp():
            return {"op": "copy", "to": op.destination, "from": op.source}
        case SymbolOp():
            return {"op": "symbol", "symbol": op.symbol, "from": op.source}
        case WhileOp():
            return {
                "op": "while",
                "flag": op.flag,
                "limit": op.limit,
                "body": [encode_op(o) for o in op.body],
            }


def _encode_arg(arg: Any) -> dict[str, Any]:  # noqa: ANN401 - one of the Arg types
    if isinstance(arg, PointerArg):
        return {"pointer": arg.buffer}
    if isinstance(arg, ValueArg):
        value = arg.value if not isinstance(arg.value, float) else arg.value.hex()
        return {"value": value, "dtype": arg.dtype}
    return {"tensor_map": asdict(arg)}


def _raw(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()
