"""What passes between the executor and its native child: the job as text, contents in shared memory, the answer."""

import contextlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cuda_harness.tools.execute.cpu.contain import SYSTEM_READABLE
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    Arg,
    CallOutput,
    CopyOp,
    FillOp,
    Job,
    LaunchOp,
    Op,
    PointerArg,
    Program,
    SymbolOp,
    ValueArg,
)

HEAD = 4096
"""Bytes before the contents in the shared memory: the runner's progress word."""


@dataclass(frozen=True)
class Layout:
    """Where each buffer's contents lie in one call's region of the shared memory."""

    inputs: tuple[tuple[int, int, int], ...]
    outputs: tuple[tuple[int, int, int], ...]
    mask_at: int
    bytes: int


def layout_of(program: Program) -> Layout:
    """Inputs in buffer order, then outputs in buffer order, each 64-byte aligned, then a byte an output element."""
    at, inputs, outputs, masks = 0, [], [], 0
    for index, b in enumerate(program.buffers):
        if b.role in {"in", "inout"}:
            size = b.count * np_dtype(b.dtype).itemsize
            inputs.append((index, at, size))
            at += (size + 63) // 64 * 64
    for index, b in enumerate(program.buffers):
        if b.role == "out":
            size = b.count * np_dtype(b.dtype).itemsize
            outputs.append((index, at, size))
            at += (size + 63) // 64 * 64
            masks += b.count
    return Layout(tuple(inputs), tuple(outputs), at, (at + masks + 4095) // 4096 * 4096)


def write_inputs(memory: int, job: Job, layout: Layout) -> None:
    """Put the contents of every call's `in` and `inout` buffers into the shared memory."""
    for number, call in enumerate(job.calls):
        for index, at, size in layout.inputs:
            name = job.program.buffers[index].name
            flat = np.ascontiguousarray(call[name]).reshape(-1)
            data = memoryview(flat.view(np.uint8).data) if size else memoryview(b"")
            position, written = HEAD + number * layout.bytes + at, 0
            while written < size:
                written += os.pwrite(memory, data[written:], position + written)


def outputs_of(memory: int, layout: Layout, job: Job, number: int, unwritten: dict[str, int]) -> CallOutput:
    """Return what call `number` left; `unwritten` counts bytes by output, as the child reported."""
    start = HEAD + number * layout.bytes
    arrays, masks = {}, {}
    places = [p for p in layout.inputs if job.program.buffers[p[0]].role == "inout"] + list(layout.outputs)
    at = start + layout.mask_at
    for index, position, size in places:
        b = job.program.buffers[index]
        if job.full_output:
            arrays[b.name] = np.frombuffer(
                _pread(memory, size, start + position), dtype=np_dtype(b.dtype)
            ).copy()
        if b.role == "out":
            if unwritten.get(b.name):
                masks[b.name] = np.frombuffer(_pread(memory, b.count, at), dtype=np.uint8).astype(bool)
            at += b.count
    return CallOutput(arrays, {k: int(v) for k, v in unwritten.items()}, masks)


def _pread(memory: int, size: int, position: int) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = os.preadv(memory, [view[done:]], position + done)
        if count <= 0:
            break
        done += count
    return data


def job_text(
    job: Job, library: Path, layout: Layout, secret: str, *, workers: int, unsafe: bool, order: int
) -> str:
    """Return the job as the runner reads it, one item a line (native/runner.cpp, `parse`)."""
    cpu_seconds = job.deadline_s * max(1, workers)
    lines = [f"secret {secret}", f"library {library}"]
    lines += [f"readable {p}" for p in SYSTEM_READABLE]
    lines.append(
        f"limits {len(job.calls)} {workers} {cpu_seconds:.1f} {job.memory_bytes} {int(unsafe)} {job.poison & 0xFFFFFFFF} {layout.bytes} {order} {int(job.count)}"
    )
    index = {b.name: i for i, b in enumerate(job.program.buffers)}
    roles = {"in": "i", "out": "o", "inout": "b", "scratch": "s"}
    for b in job.program.buffers:
        item = np_dtype(b.dtype).itemsize
        lines.append(f"buffer {b.name} {b.dtype} {b.count * item} {item} {roles[b.role]}")
    _op_lines(job.program.ops, index, lines)
    return "\n".join(lines) + "\n"


def _op_lines(ops: tuple[Op, ...], index: dict[str, int], lines: list[str]) -> None:
    for op in ops:
        match op:
            case LaunchOp():
                grid, block = " ".join(map(str, op.grid)), " ".join(map(str, op.block))
                lines.append(f"launch {op.kernel} {grid} {block} {op.shared_bytes} {int(op.cooperative)}")
                lines += [_arg_line(a, index) for a in op.args]
            case FillOp():
                lines.append(f"fill {index[op.buffer]} {op.pattern.hex()}")
            case CopyOp():
                lines.append(f"copy {index[op.destination]} {index[op.source]}")
            case SymbolOp():
                lines.append(f"symbol {op.symbol} {index[op.source]}")
            case _:
                lines.append(f"while {index[op.flag]} {op.limit}")
                _op_lines(op.body, index, lines)
                lines.append("end")


def _arg_line(arg: Arg, index: dict[str, int]) -> str:
    if isinstance(arg, PointerArg):
        return f"pointer {index[arg.buffer]}"
    if isinstance(arg, ValueArg):
        return f"value {np.asarray(arg.value).astype(np_dtype(arg.dtype)).tobytes().hex()}"
    return "value " + struct.pack("<16Q", *([0] * 16)).hex()


def feed(descriptor: int, data: bytes) -> None:
    """Write the job into its pipe and close it; a child that is gone is no error."""
    with contextlib.suppress(OSError), os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def collect(descriptor: int, answer: list[bytes]) -> None:
    """Read the answer until the pipe closes, at most a megabyte."""
    left = 1 << 20
    with os.fdopen(descriptor, "rb") as stream:
        while left > 0:
            data = os.read(stream.fileno(), 65_536)
            if not data:
                return
            answer.append(data)
            left -= len(data)


def progress(memory: int) -> int:
    """Return the number of the launch that the child is in, -1 before the first."""
    data = _pread(memory, 4, 0)
    return int(struct.unpack("<i", data)[0])
