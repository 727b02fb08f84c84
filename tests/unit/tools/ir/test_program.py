"""Plans made concrete: what they become, and every way they are wrong, told in words a model can act on."""

import struct
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    CopyOp,
    DeviceFacts,
    FillOp,
    LaunchOp,
    PointerArg,
    Program,
    SymbolOp,
    ValueArg,
    WhileOp,
)
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.toolchain.source import inspect

SOURCE = """
extern "C" __global__ void k(const float* x, float* y, int n, float a) {}
extern "C" __global__ void __launch_bounds__(64) small(float* y) {}
extern "C" __global__ void ints(int* flag, unsigned char b, long long big, bool on) {}
template <int N> __global__ void made(float* y) {}
__global__ void mangled(float* y) {}
"""
LAUNCH: dict[str, Any] = {"launch": "k", "grid": ["cdiv(n, B)"], "block": ["B"], "args": ["x", "y", "n", "a"]}


def ir(**changes: Any) -> KernelIR:
    return KernelIR.model_validate({
        "schema": KernelIR.KIND, "name": "scale", "dims": [{"name": "n", "value": 1000}, {"name": "z", "value": 0, "min": 0}],
        "tensors": [
            {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
            {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
        ],
        "scalars": [{"name": "a", "dtype": "float32", "value": 2.5}, {"name": "many", "dtype": "int64", "value": 3000000000}],
        **changes,
    })  # fmt: skip


def made(*steps: dict[str, Any], **rest: Any) -> Program | PlanFault:
    options = {k: rest.pop(k) for k in ("dims", "tunables", "scalars", "occupancy") if k in rest}
    document = {
        "schema": LaunchPlan.KIND, "tunables": {"B": [256, 128]}, "steps": list(steps),
        "scratch": [
            {"name": "s", "dtype": "float32", "shape": ["n"]}, {"name": "flag", "dtype": "int32", "shape": [1]},
            {"name": "none", "dtype": "int32", "shape": [0]},
        ],
        **rest,
    }  # fmt: skip
    return expand(
        ir(), LaunchPlan.model_validate(document), dims=options.get("dims", {"n": 1000, "z": 0}),
        scalars=options.get("scalars", {}), tunables=options.get("tunables"), kernels=inspect(SOURCE).kernels,
        device=DeviceFacts("test"), occupancy=options.get("occupancy"),
    )  # fmt: skip


def program(*steps: dict[str, Any], **rest: Any) -> Program:
    found = made(*steps, **rest)
    assert isinstance(found, Program), found
    return found


def changed(**changes: Any) -> dict[str, Any]:
    return {**LAUNCH, **changes}


def test_a_launch_becomes_numbers() -> None:
    found = program(LAUNCH)

    assert found.ops == (
        LaunchOp("k", (4, 1, 1), (256, 1, 1), 0,
                 (PointerArg("x"), PointerArg("y"), ValueArg("int32", 1000), ValueArg("float32", 2.5))),
    )  # fmt: skip
    assert dict(found.macros) == {"B": 256}
    assert {b.name: (b.count, b.role) for b in found.buffers}["s"] == (1000, "scratch")


def test_tunables_scalars_and_occupancy_are_taken_from_the_caller() -> None:
    found = program(
        changed(grid=["num_sms * blocks_per_sm('k')"]),
        tunables={"B": 128},
        scalars={"a": -1.0},
        occupancy=lambda _: 3,
    )

    launch = found.ops[0]
    assert isinstance(launch, LaunchOp)
    assert (launch.grid[0], launch.block[0], launch.args[3]) == (396, 128, ValueArg("float32", -1.0))


def test_an_empty_grid_launches_nothing_and_when_decides() -> None:
    assert program(changed(grid=["z"])).ops == ()
    assert program(changed(when="n > 5000"), changed(when="n > 500")).ops == program(LAUNCH).ops


def test_loops_are_unrolled_and_pick_alternates_buffers() -> None:
    body = changed(args=["x", {"pick": ["y", "s"], "index": "i % 2"}, "i", "a"])
    found = program({"repeat": {"var": "i", "count": 3}, "steps": [body]})

    assert [(op.args[1], op.args[2]) for op in found.ops if isinstance(op, LaunchOp)] == [
        (PointerArg("y"), ValueArg("int32", 0)),
        (PointerArg("s"), ValueArg("int32", 1)),
        (PointerArg("y"), ValueArg("int32", 2)),
    ]


def test_while_copy_and_symbol_are_kept_for_the_executor() -> None:
    found = program(
        {"while": {"flag": "flag", "max": "n"}, "steps": [LAUNCH]},
        {"copy": ["y", "s"]},
        {"symbol": "taps", "from": "x"},
    )

    assert isinstance(found.ops[0], WhileOp)
    assert (found.ops[0].flag, found.ops[0].limit, len(found.ops[0].body)) == ("flag", 1000, 1)
    assert found.ops[1:] == (CopyOp("y", "s"), SymbolOp("taps", "x"))


FILLS: list[tuple[str, Any, bytes]] = [
    ("float32", 1.5, struct.pack("<f", 1.5)),
    ("float32", "-inf", struct.pack("<f", float("-inf"))),
    ("float64", "max", struct.pack("<d", np.finfo(np.float64).max)),
    ("float64", 0, bytes(8)),
    ("float16", "min", struct.pack("<e", -65504.0)),
    ("float16", "inf", b"\x00\x7c"),
    ("bfloat16", "max", b"\x7f\x7f"),
    ("bfloat16", -2, b"\x00\xc0"),
    ("float8_e4m3", 1, b"\x38"),
    ("float8_e4m3", "max", b"\x7e"),
    ("float8_e5m2", "max", b"\x7b"),
    ("int8", "min", b"\x80"),
    ("int16", -2, b"\xfe\xff"),
    ("int32", "max", b"\xff\xff\xff\x7f"),
    ("int64", "min", b"\x00" * 7 + b"\x80"),
    ("uint8", 255, b"\xff"),
    ("uint16", "max", b"\xff\xff"),
    ("uint32", 1, b"\x01\x00\x00\x00"),
    ("uint64", "max", b"\xff" * 8),
    ("bool", 1, b"\x01"),
]


@pytest.mark.parametrize(("dtype", "value", "pattern"), FILLS)
def test_a_fill_is_encoded_in_its_dtype(dtype: str, value: Any, pattern: bytes) -> None:
    found = program({"fill": "b", "value": value}, scratch=[{"name": "b", "dtype": dtype, "shape": [4]}])

    assert found.ops == (FillOp("b", pattern),)
    assert len(pattern) == np_dtype(dtype).itemsize


FAULTS: dict[str, tuple[tuple[dict[str, Any], ...], str, str]] = {
    "unknown tensor": ((changed(args=["xx", "y", "n", "a"]),), "parse", "'xx'; did you mean 'x'?"),
    "unknown kernel": ((changed(launch="kk"),), "parse", "unknown kernel 'kk'; did you mean 'k'?"),
    "unknown name in a grid": ((changed(grid=["m"]),), "parse", "unknown name in launch k: grid"),
    "scalar in a grid": ((changed(grid=["many"]),), "parse", "'many' is a scalar"),
    "unknown kernel in occupancy": ((changed(grid=["blocks_per_sm('q')"]),), "parse", "'q'"),
    "too few arguments": ((changed(args=["x", "y", "n"]),), "parse", "3 arguments for 4 parameters (float* x, float* y, int n, float a)"),
    "buffer by value": ((changed(args=["x", "y", "x", "a"]),), "parse", "'x' is a buffer, the parameter is int by value"),
    "scalar to a pointer": ((changed(args=["a", "y", "n", "a"]),), "parse", "scalar 'a' is passed by value"),
    "wrong element type": ((changed(args=["flag", "y", "n", "a"]),), "parse", "points to float, 'flag' holds int32"),
    "float scalar to an int": ((changed(args=["x", "y", "a", "a"]),), "parse", "scalar 'a' is float32, the parameter is int"),
    "wrong width": ((changed(args=["x", "y", "n:int64", "a"]),), "parse", "int64 is 8 bytes wide, the parameter int is 4"),
    "no dtype": ((changed(args=["x", "y", "n:int33", "a"]),), "parse", "'int33' is no dtype"),
    "float for an int": ((changed(args=["x", "y", "n:float32", "a"]),), "parse", "float32 for a parameter of type int"),
    "not an expression": ((changed(args=["x", "y", "n +", "a"]),), "parse", "is not an expression"),
    "beyond int": ((changed(args=["x", "y", "2 ** 31", "a"]),), "launch_config", "= 2147483648 does not fit int32"),
    "scalar beyond int": ((changed(args=["x", "y", "many", "a"]),), "launch_config", "many = 3000000000 does not fit int32"),
    "negative for unsigned": (
        ({"launch": "ints", "grid": 1, "block": 1, "args": ["flag", "0 - 1", 0, 1]},), "launch_config", "does not fit uint8",
    ),
    "two for a bool": (
        ({"launch": "ints", "grid": 1, "block": 1, "args": ["flag", 1, 0, 2]},), "launch_config", "= 2 does not fit bool",
    ),
    "negative grid": ((changed(grid=["z - 1"]),), "launch_config", "grid [-1, 1, 1] is negative"),
    "empty block": ((changed(block=["z"]),), "launch_config", "block.x is 0; it must lie in 1..1024"),
    "block too long": ((changed(block=[1500]),), "launch_config", "block.x is 1500"),
    "block too deep": ((changed(block=[1, 1, 65]),), "launch_config", "block.z is 65; it must lie in 1..64"),
    "block too large": ((changed(block=[64, 32]),), "launch_config", "64 x 32 x 1 = 2048 threads is more than 1024"),
    "beyond launch bounds": (
        ({"launch": "small", "grid": 1, "block": 65, "args": ["y"]},), "launch_config", "__launch_bounds__ promises at most 64",
    ),
    "grid.y": ((changed(grid=[1, 65536]),), "launch_config", "grid.y is 65536; at most 65535"),
    "grid.x": ((changed(grid=["2 ** 31"]),), "launch_config", "grid.x is 2147483648"),
    "too much shared memory": ((changed(shared_bytes=300000),), "launch_config", "300000 bytes of dynamic shared memory"),
    "negative shared memory": ((changed(shared_bytes="0 - 4"),), "launch_config", "-4 bytes of dynamic shared memory"),
    "division by zero": ((changed(grid=["n // z"]),), "launch_config", "division by zero"),
    "cdiv by zero": ((changed(grid=["cdiv(n, z)"]),), "launch_config", "cdiv by 0"),
    "cluster": ((changed(cluster=[3]),), "launch_config", "cluster [3, 1, 1] does not divide grid [4, 1, 1]"),
    "template": (({"launch": "made", "grid": 1, "block": 1, "args": ["y"]},), "parse", 'must be extern "C" __global__ and no template'),
    "mangled": (({"launch": "mangled", "grid": 1, "block": 1, "args": ["y"]},), "parse", 'must be extern "C"'),
    "fill an input": (({"fill": "x", "value": 0},), "parse", "inputs are read-only"),
    "fill nothing": (({"fill": "yy", "value": 0},), "parse", "did you mean 'y'?"),
    "fill out of range": (({"fill": "flag", "value": 2**31},), "parse", "is no value of int32"),
    "fill a fraction": (({"fill": "flag", "value": 0.5},), "parse", "0.5 is no value of int32"),
    "fill nan into ints": (({"fill": "flag", "value": "nan"},), "parse", "'nan' is no value of int32"),
    "copy to an input": (({"copy": ["x", "y"]},), "parse", "copy to 'x': inputs are read-only"),
    "copy sizes": (({"copy": ["y", "flag"]},), "launch_config", "'y' has 4000 bytes and 'flag' has 4"),
    "symbol from nothing": (({"symbol": "taps", "from": "xs"},), "parse", "unknown buffer 'xs'"),
    "pick beyond": (
        (changed(args=["x", {"pick": ["y", "s"], "index": 2}, "n", "a"]),), "launch_config", "pick index 2 is outside 0..1",
    ),
    "pick of nothing": ((changed(args=["x", {"pick": ["y", "q"], "index": 0}, "n", "a"]),), "parse", "unknown buffer in a pick 'q'"),
    "negative count": (({"repeat": {"var": "i", "count": "z - 1"}, "steps": [LAUNCH]},), "launch_config", "the count is -1"),
    "count explodes": (({"repeat": {"var": "i", "count": "10 ** 9"}, "steps": [LAUNCH]},), "launch_config", "1000000000 rounds"),
    "launches explode": (
        ({"repeat": {"var": "i", "count": 1000}, "steps": [{"repeat": {"var": "j", "count": 1000}, "steps": [LAUNCH]}]},),
        "launch_config", "more than",
    ),
    "loop variable taken": (({"repeat": {"var": "n", "count": 2}, "steps": [LAUNCH]},), "parse", "'n' has the name of something else"),
    "loop variable gone": (
        ({"repeat": {"var": "i", "count": 1}, "steps": [LAUNCH]}, changed(grid=["i + 1"])), "parse", "unknown name",
    ),
    "flag unknown": (({"while": {"flag": "flags", "max": 3}, "steps": [LAUNCH]},), "parse", "did you mean 'flag'?"),
    "flag empty": (({"while": {"flag": "none", "max": 3}, "steps": [LAUNCH]},), "launch_config", "'none' has no element"),
    "while explodes": (({"while": {"flag": "flag", "max": "10 ** 8"}, "steps": [LAUNCH]},), "launch_config", "while max is 100000000"),
    "tensor map": (
        (changed(args=[{"tensor_map": {"tensor": "x", "box": [32]}}, "y", "n", "a"]),), "parse", "CUtensorMap",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "stage", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_a_wrong_plan_is_told_in_words(steps: tuple[dict[str, Any], ...], stage: str, says: str) -> None:
    found = made(*steps)

    assert isinstance(found, PlanFault), found
    assert (found.stage, found.class_) == (stage, stage)
    assert says in found.message


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ({"tunables": {"Q": 1}}, "unknown tunable 'Q'"),
        ({"scratch": [{"name": "x", "dtype": "int32", "shape": [1]}]}, "scratch 'x' has the name"),
        ({"scratch": [{"name": "s", "dtype": "int32", "shape": ["n - 1001"]}]}, "a size is negative"),
        (
            {"scratch": [{"name": "s", "dtype": "int32", "shape": ["n ** 5"]}]},
            "would have 1000000000000000 elements",
        ),
        ({"defines": {"x": "n"}}, "define 'x' has the name"),
        ({"defines": {"HALF": "n // z"}}, "define HALF: in 'n // z': division by zero"),
    ],
)
def test_wrong_names_and_sizes_of_a_plan(rest: dict[str, Any], says: str) -> None:
    found = made(LAUNCH, **rest)

    assert isinstance(found, PlanFault)
    assert says in found.message
