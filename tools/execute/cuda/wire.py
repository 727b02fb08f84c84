"""Jobs of the GPU child as frames: the cubin, then the inputs call by call."""

from dataclasses import asdict
from typing import Any, Literal

import numpy as np

from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    Array,
    CallOutput,
    CopyOp,
    FillOp,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    JobResult,
    LaunchOp,
    Op,
    PointerArg,
    SymbolOp,
    ValueArg,
    WhileOp,
)
from cuda_harness.tools.frames import Blob


def job_frame(job: Job, cubin: bytes) -> tuple[dict[str, Any], list[Blob]]:
    """Return the frame that tells a child what to run: blobs are the cubin, then the inputs call by call."""
    blobs: list[Blob] = [cubin]
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


def job_result(job: Job, header: dict[str, Any], blobs: list[bytes]) -> JobResult:
    """Return a child's answer as the result of its job."""
    if header["status"] == "fault":
        return JobFault(header["fault"], header["message"], header.get("evidence", {}))
    if header["status"] != "ok":
        reason: Literal["unsupported", "resources", "environment"] = header["reason"]
        remedy = header.get("remedy") or (
            "use smaller sizes" if reason == "resources" else "see `cuda-harness doctor`"
        )
        return JobNotRun(reason, header["message"], remedy, header.get("evidence", {}))
    names = header["outputs"]
    by_name = {b.name: b for b in job.program.buffers}
    calls = []
    for index, unwritten in enumerate(header["unwritten"]):
        arrays = {}
        if job.full_output:
            for name, blob in zip(names, blobs[index * len(names) :], strict=False):
                arrays[name] = np.frombuffer(blob, dtype=np_dtype(by_name[name].dtype)).copy()
        calls.append(CallOutput(arrays, {n: int(v) for n, v in unwritten.items()}, {}))
    return JobOk(
        tuple(calls),
        float(header["seconds"]),
        facts={n: float(header[n]) for n in ("launches", "device_seconds", "waited_s") if n in header},
    )


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


def _raw(array: Array) -> Blob:
    """Return the bytes of an array without a copy where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
