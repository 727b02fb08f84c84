"""Programs run operation by operation, on a driver whose memory is the host's and whose kernels are functions of Python."""

import ctypes
import os
import sys
import types
from typing import Any

import numpy as np
import pytest
from tests.fakes.host_machine import Bad, Machine, floats
from tests.fakes.recording_driver import Code

from cuda_harness.tools.execute.cuda import child
from cuda_harness.tools.execute.cuda.faults import Failed
from cuda_harness.tools.execute.cuda.kernels import Modules
from cuda_harness.tools.execute.cuda.runner import run_job

N = 64


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    machine.install(monkeypatch)
    machine.bodies["k"] = double
    return machine


def double(y: int, x: int) -> None:
    floats(y)[:] = 2 * floats(x)


def launch(kernel: str = "k", **changes: Any) -> dict[str, Any]:
    return {
        "op": "launch", "kernel": kernel, "grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0, "cluster": None, "cooperative": False,
        "args": [{"pointer": "y"}, {"pointer": "x"}], **changes,
    }  # fmt: skip


X = np.arange(N, dtype=np.float32)


def run(gpu: Machine, *ops: dict[str, Any], calls: int = 1, **changes: Any) -> tuple[dict[str, Any], list[bytes]]:  # fmt: skip
    header = {
        "buffers": [
            {"name": "x", "dtype": "float32", "count": N, "role": "in"},
            {"name": "y", "dtype": "float32", "count": N, "role": "out"},
            {"name": "flag", "dtype": "int32", "count": 2, "role": "scratch"},
        ],
        "ops": list(ops) or [launch()], "inputs": ["x"], "calls": calls, "poison": 5, "own_allocations": False,
        "vary_addresses": True, "full_output": True, **changes,
    }  # fmt: skip
    return run_job(header, [b"cubin", *((X + i).tobytes() for i in range(calls))], gpu, Modules())


def fault_of(gpu: Machine, *ops: dict[str, Any], **changes: Any) -> dict[str, Any]:
    with pytest.raises(Failed) as caught:
        run(gpu, *ops, **changes)
    assert gpu.taken == 0, "buffers are given back"
    return caught.value.answer


def test_each_call_gets_its_contents_and_all_memory_comes_back(gpu: Machine) -> None:
    answer, blobs = run(gpu, calls=3)
    assert (answer["status"], answer["outputs"], answer["launches"]) == ("ok", ["y"], 3)
    for i, blob in enumerate(blobs):
        assert np.array_equal(np.frombuffer(blob, np.float32), 2 * (X + i))
    assert answer["unwritten"] == [{"y": 0}] * 3
    assert gpu.taken == 0


def test_what_was_never_written_is_counted(gpu: Machine) -> None:
    def half(y: int, x: int) -> None:
        floats(y)[: N // 2] = floats(x)[: N // 2]

    gpu.bodies["k"] = half
    answer, _ = run(gpu)
    assert answer["unwritten"] == [{"y": 2 * N}]


def test_an_input_that_changes_is_a_fault(gpu: Machine) -> None:
    def meddle(y: int, x: int) -> None:
        double(y, x)
        floats(x)[3] = 0.5

    gpu.bodies["k"] = meddle
    answer, _ = run(gpu)
    assert (answer["fault"], answer["evidence"]) == ("input_modified", {"buffer": "x"})
    assert gpu.taken == 0


@pytest.mark.parametrize(
    ("offset", "side", "distance"), [(N + 2, "past the end", 8), (-1, "before the start", 1)]
)
def test_a_write_beside_a_buffer_is_a_fault(gpu: Machine, offset: int, side: str, distance: int) -> None:
    def stray(y: int, x: int) -> None:
        double(y, x)
        floats(y + 4 * offset, 1)[0] = 1.0

    gpu.bodies["k"] = stray
    answer = fault_of(gpu)
    assert answer["fault"] == "out_of_bounds"
    assert answer["evidence"] == {"buffer": "y", "side": side, "distance_bytes": distance}


def test_an_error_of_the_kernel_names_it_and_its_launch(gpu: Machine) -> None:
    gpu.sync_result = Bad("CUDA_ERROR_ILLEGAL_ADDRESS")
    answer = fault_of(gpu)
    assert (answer["fault"], answer["message"]) == ("out_of_bounds", "CUDA_ERROR_ILLEGAL_ADDRESS while running k (launch 1)")  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"block": [2000, 1, 1]}, "block.x is 2000"),
        ({"shared": 232_449}, "this device allows 232448"),
        ({"cluster": [3, 1, 1], "grid": [4, 1, 1]}, "not a multiple of cluster.x"),
        ({"cluster": [32, 1, 1], "grid": [32, 1, 1]}, "at most 16"),
        ({"cooperative": True, "grid": [9, 1, 1]}, "4 multiprocessors x 2 blocks = 8"),
    ],
)
def test_what_cannot_work_is_not_launched(gpu: Machine, changes: dict[str, Any], part: str) -> None:
    answer = fault_of(gpu, launch(**changes))
    assert answer["fault"] == "launch_config"
    assert part in answer["message"]
    assert gpu.launched == 0


def test_shared_memory_and_large_clusters_are_opted_in(gpu: Machine) -> None:
    gpu.static_shared = 1024
    run(gpu, launch(shared=48 * 1024 - 1024))
    assert gpu.attributes == []
    run(gpu, launch(shared=48 * 1024 - 1023), launch(shared=48 * 1024 - 1023))
    assert gpu.attributes == [("MAX_DYNAMIC_SHARED_SIZE_BYTES", 48 * 1024 - 1023)], (
        "checked once for equal launches"
    )
    gpu.attributes.clear()
    run(gpu, launch(grid=[32, 1, 1], cluster=[16, 1, 1]))
    assert ("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1) in gpu.attributes
    config = next(line[2] for line in reversed(gpu.log) if line[0] == "launch")
    assert (config["grid"], config["cluster"]) == ((2, 1, 1), (16, 1, 1)), "cuda.core counts clusters"


def test_a_while_runs_until_its_flag_is_zero_or_its_limit(gpu: Machine) -> None:
    def count_down(y: int, x: int, flag: int) -> None:
        double(y, x)
        ctypes.c_int32.from_address(flag).value -= 1

    gpu.bodies["k"] = count_down
    step = launch(args=[{"pointer": "y"}, {"pointer": "x"}, {"pointer": "flag"}])
    start = {"op": "fill", "buffer": "flag", "pattern": "05000000"}
    answer, _ = run(gpu, start, {"op": "while", "flag": "flag", "limit": 100, "body": [step]})
    assert answer["launches"] == 5
    answer, _ = run(gpu, start, {"op": "while", "flag": "flag", "limit": 3, "body": [step]})
    assert answer["launches"] == 3


def test_fills_copies_and_values(gpu: Machine) -> None:
    def add(y: int, value: np.float32) -> None:
        floats(y)[:] += value

    gpu.bodies["k"] = add
    args = [{"pointer": "y"}, {"value": (0.5).hex(), "dtype": "float32"}]
    answer, blobs = run(gpu, {"op": "copy", "to": "y", "from": "x"}, launch(args=args))
    assert np.array_equal(np.frombuffer(blobs[0], np.float32), X + 0.5)
    _, blobs = run(
        gpu, {"op": "fill", "buffer": "y", "pattern": np.float32(3).tobytes().hex()}, launch(args=args)
    )
    assert set(np.frombuffer(blobs[0], np.float32)) == {3.5}
    assert answer["unwritten"] == [{"y": 0}]


def test_symbols_are_filled_and_their_size_is_kept(gpu: Machine) -> None:
    table = (ctypes.c_float * N)()
    gpu.symbols = {b"table": table, b"small": (ctypes.c_float * 3)()}
    run(gpu, {"op": "symbol", "symbol": "table", "from": "x"}, launch())
    assert list(table) == list(X)
    small = fault_of(gpu, {"op": "symbol", "symbol": "small", "from": "x"})
    assert "'small' holds 12 bytes, 'x' has 256" in small["message"]
    absent = fault_of(gpu, {"op": "symbol", "symbol": "absent", "from": "x"})
    assert absent["fault"] == "launch_config"
    assert "'absent' is not in the cubin" in absent["message"]


def test_buffers_move_with_the_seed_and_stay_aligned(gpu: Machine) -> None:
    seen: list[tuple[int, int]] = []

    def noting(y: int, x: int) -> None:
        double(y, x)
        seen.append((y, x))

    gpu.bodies["k"] = noting
    bases = []
    original = gpu.cuMemAlloc

    def noted(size: int) -> tuple[Code, int]:
        made = original(size)
        bases.append(made[1])
        return made

    sys.modules["cuda.bindings.driver"].cuMemAlloc = noted  # type: ignore[attr-defined]
    for seed in range(6):
        run(gpu, poison=seed)
    shifts = {(y - bases[3 * i + 1], x - bases[3 * i]) for i, (y, x) in enumerate(seen)}
    assert len(shifts) > 3
    assert all((a - 4096) % 256 == 0 and (b - 4096) % 256 == 0 for a, b in shifts)


def test_memory_is_planned_before_any_is_taken_and_given_back_when_it_runs_out(gpu: Machine) -> None:
    gpu.free = 1 << 20
    answer = fault_of(gpu)
    assert answer["reason"] == "resources"
    assert answer["evidence"]["free_bytes"] == 1 << 20
    gpu.free, gpu.allocations_left = 1 << 33, 2
    answer = fault_of(gpu)
    assert answer["reason"] == "resources"
    assert "OUT_OF_MEMORY" in answer["message"]


def test_own_allocations_begin_and_end_with_their_buffer(gpu: Machine) -> None:
    seen: list[int] = []

    def noting(y: int, x: int) -> None:
        double(y, x)
        seen.extend((x, y))
        assert {x, y} <= set(gpu._blocks)
        assert [ctypes.sizeof(gpu._blocks[a]) for a in (x, y)] == [4 * N, 4 * N]

    gpu.bodies["k"] = noting
    answer, _ = run(gpu, own_allocations=True)
    assert (answer["status"], len(seen)) == ("ok", 2)


def test_occupancy_is_asked_after_the_opt_in(gpu: Machine) -> None:
    header = {"do": "occupancy", "kernel": "k", "threads": 128, "shared_bytes": 100_000}
    answer, _ = child.answer_job(header, [b"cubin"], gpu, Modules())
    assert answer == {"status": "ok", "blocks_per_sm": 2}
    assert gpu.attributes == [("MAX_DYNAMIC_SHARED_SIZE_BYTES", 100_000)]


def test_a_mistake_of_ours_is_not_the_candidates(gpu: Machine) -> None:
    for header in ({"do": "nonsense"}, {"do": "run"}):
        answer, _ = child.answer_job(header, [b"cubin"], gpu, Modules())
        assert (answer["status"], answer["reason"]) == ("not_run", "environment")


@pytest.mark.parametrize(
    ("pids", "others"),
    [([0], []), ([0, 11], []), ([0, 11, 12], [12]), ([0, 12, 12], [12]), ([12], None), ([], None)],
)
def test_other_processes_are_told_only_where_ours_is_among_them(
    monkeypatch: pytest.MonkeyPatch, pids: list[int], others: list[int] | None
) -> None:
    listed = types.SimpleNamespace(pid=np.array([p or os.getpid() for p in pids], dtype=np.uint32))
    nvml = types.ModuleType("cuda.bindings.nvml")
    asked: list[str] = []

    def handle(uuid: str) -> int:
        asked.append(uuid)
        return 1

    for name, value in {
        "init_v2": lambda: None,
        "device_get_handle_by_uuid": handle,
        "device_get_compute_running_processes_v3": lambda _handle: listed,
    }.items():
        setattr(nvml, name, value)
    import cuda.bindings

    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(cuda.bindings, "nvml", nvml, raising=False)
    assert child.foreign_processes("1-2", ours=[11]) == others
    assert asked == ["GPU-1-2"]
