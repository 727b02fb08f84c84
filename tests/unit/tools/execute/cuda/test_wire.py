"""Jobs as frames and back: every operation, every argument type, every kind of answer."""

import ctypes
import io
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_harness.tools.execute.cuda.kernels import typed_value
from cuda_harness.tools.execute.cuda.wire import encode_op, job_frame, job_result
from cuda_harness.tools.execute.protocol import (
    Buffer,
    CopyOp,
    FillOp,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    LaunchOp,
    PointerArg,
    Program,
    SymbolOp,
    TensorMapValue,
    ValueArg,
    WhileOp,
)
from cuda_harness.tools.frames import Blob, read_frame, write_frame

TENSOR_MAP = TensorMapValue("x", "float32", (4, 8), (2, 8), "128B", "256B", "zero")
LAUNCH = LaunchOp(
    "k", (4, 1, 1), (32, 1, 1), 64, (PointerArg("y"), ValueArg("float32", 0.1), ValueArg("bool", True), TENSOR_MAP),
    cooperative=True, cluster=(2, 1, 1),
)  # fmt: skip
PROGRAM = Program(
    (Buffer("x", "float32", 32, "in"), Buffer("y", "bfloat16", 3, "inout"), Buffer("s", "int32", 1, "scratch")),
    (
        FillOp("s", b"\x01\0\0\0"), CopyOp("y", "y"), SymbolOp("table", "x"), WhileOp("s", 5, (LAUNCH,)), LAUNCH,
    ),
)  # fmt: skip


def job(**changes: Any) -> Job:
    call = {"x": np.arange(32, dtype=np.float32), "y": np.ones(3, dtype=ml_dtypes.bfloat16)}
    return Job("source", PROGRAM, (call, call), poison=5, **changes)


def through_a_pipe(header: dict[str, Any], blobs: Sequence[Blob]) -> tuple[dict[str, Any], list[bytes]]:
    stream = io.BytesIO()
    write_frame(stream, header, blobs)
    stream.seek(0)
    return read_frame(stream, max_bytes=1 << 20)


def test_a_job_survives_its_journey() -> None:
    header, blobs = through_a_pipe(*job_frame(job(own_allocations=True), b"cubin"))
    assert header["inputs"] == ["x", "y"]
    assert (header["calls"], header["own_allocations"], header["full_output"]) == (2, True, True)
    assert blobs[0] == b"cubin"
    assert [len(b) for b in blobs[1:]] == [128, 6, 128, 6]
    assert [op["op"] for op in header["ops"]] == ["fill", "copy", "symbol", "while", "launch"]
    launch = header["ops"][-1]
    assert launch == header["ops"][3]["body"][0]
    assert (launch["cluster"], launch["cooperative"], launch["shared"]) == ([2, 1, 1], True, 64)
    assert launch["args"][3]["tensor_map"]["box"] == [2, 8]


def test_empty_and_strided_arrays_and_narrow_types_travel_as_their_bytes() -> None:
    program = Program(
        (Buffer("e", "float32", 0, "in"), Buffer("s", "int16", 3, "in"), Buffer("b", "bool", 2, "in"), Buffer("f", "float8_e4m3", 2, "in")), (),
    )  # fmt: skip
    call: dict[str, Any] = {
        "e": np.zeros((0, 4), np.float32), "s": np.arange(6, dtype=np.int16)[::2], "b": np.array([True, False]),
        "f": np.array([1.5, -2], dtype=ml_dtypes.float8_e4m3fn),
    }  # fmt: skip
    _, blobs = through_a_pipe(*job_frame(Job("source", program, (call,)), b""))
    assert blobs == [b"", b"", b"\0\0\2\0\4\0", b"\1\0", b"\x3c\xc0"]


@given(value=st.floats(width=32, allow_nan=False))
def test_floats_travel_exactly(value: float) -> None:
    launch = LaunchOp("k", (1, 1, 1), (1, 1, 1), 0, (ValueArg("float32", value),))
    header, _ = through_a_pipe({"op": encode_op(launch)}, [])
    found = typed_value(header["op"]["args"][0]["value"], "float32")
    assert isinstance(found, np.float32)
    assert found == np.float32(value)


@pytest.mark.parametrize(
    ("value", "dtype", "made"),
    [
        (True, "bool", ctypes.c_bool(True)),
        ((1.5).hex(), "float16", ctypes.c_uint16(0x3E00)),
        ((1.5).hex(), "bfloat16", ctypes.c_uint16(0x3FC0)),
        ((1.5).hex(), "float8_e4m3", ctypes.c_uint8(0x3C)),
    ],
)
def test_narrow_values_travel_as_their_bits(value: Any, dtype: str, made: Any) -> None:
    found = typed_value(value, dtype)
    assert type(found) is type(made)
    assert found.value == made.value


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(-1, "int8"), (255, "uint8"), (-(2**63), "int64"), (2**64 - 1, "uint64"), (2**31 - 1, "int32")],
)
def test_integers_keep_width_and_sign(value: int, dtype: str) -> None:
    found = typed_value(value, dtype)
    assert found.dtype == np.dtype(dtype)
    assert int(found) == value


def test_answers_become_results() -> None:
    ok = {"status": "ok", "seconds": 0.5, "outputs": ["y"], "unwritten": [{"y": 0}, {"y": 2}], "launches": 3}
    bits = np.array([1, 2, 3], dtype=ml_dtypes.bfloat16).tobytes()
    done = job_result(job(), ok, [bits, bits])
    assert isinstance(done, JobOk)
    assert done.calls[0].arrays["y"].dtype == ml_dtypes.bfloat16
    assert (done.calls[1].unwritten, done.facts["launches"]) == ({"y": 2}, 3.0)
    silent = job_result(job(full_output=False), ok, [])
    assert isinstance(silent, JobOk)
    assert silent.calls[0].arrays == {}
    fault = job_result(job(), {"status": "fault", "fault": "crash", "message": "m", "evidence": {"a": 1}}, [])
    assert fault == JobFault("crash", "m", {"a": 1})
    missing = job_result(job(), {"status": "not_run", "reason": "resources", "message": "m"}, [])
    assert missing == JobNotRun("resources", "m", "use smaller sizes", {})
    broken = job_result(
        job(), {"status": "not_run", "reason": "environment", "message": "m", "remedy": "r"}, []
    )
    assert broken == JobNotRun("environment", "m", "r", {})
