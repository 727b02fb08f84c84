"""Jobs of the GPU child as frames: the cubin, then the inputs call by call."""

from dataclasses import asdict
from typing import Any

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
        "unpoisoned": job.unpoisoned,
        "vary_addresses": True,
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
