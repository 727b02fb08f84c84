"""The order in which a timed call is queued, seen through a driver that only notes it."""

import sys
from typing import Any

import numpy as np
import pytest
from tests.fakes.recording_driver import Recorder

from cuda_harness.tools.execute.cuda import clock

N = 64


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    recorder.install(monkeypatch)
    monkeypatch.setattr(clock, "_WARM_LEAST_S", 0.0)
    monkeypatch.setattr(clock, "_WARM_MOST_S", 0.01)
    return recorder


def launch(kernel: str = "k") -> dict[str, Any]:
    return {"op": "launch", "kernel": kernel, "grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0, "cluster": None,
            "cooperative": False, "args": [{"pointer": "y"}, {"pointer": "x"}]}  # fmt: skip


def program(*ops: dict[str, Any], role: str = "out", dtype: str = "float32") -> dict[str, Any]:
    buffers = [
        {"name": "x", "dtype": dtype, "count": N, "role": "in"},
        {"name": "y", "dtype": dtype, "count": N, "role": role},
    ]
    inputs = ["x", "y"] if role == "inout" else ["x"]
    return {
        "buffers": buffers,
        "ops": list(ops) or [launch()],
        "inputs": inputs,
        "poison": 1,
        "own_allocations": False,
    }


def job(*programs: dict[str, Any], **more: Any) -> tuple[dict[str, Any], list[bytes]]:
    header = {"do": "time", "programs": list(programs), "sets": 2, "seed": 3, "precision": -1.0, "least": 4, "most": 6, "limit_s": 30.0,
              "hold": True, **more}  # fmt: skip
    contents = [np.full(N, k, dtype=np.float32).tobytes() for k in range(2) for _ in programs[0]["inputs"]]
    return header, [*(b"cubin" for _ in programs), b"hold", *contents]


def test_a_cold_call_is_queued_in_the_order_of_the_protocol(gpu: Recorder) -> None:
    header, blobs = job(program())
    measurement = clock.Measurement(header, blobs, gpu)
    gpu.log.clear()
    measurement.once(measurement.lanes[0], "cold")
    kinds = [line[0] for line in gpu.log]
    assert kinds == ["copy", "set", "set", "launch", "record", "launch", "record", "event_sync"]
    x, y = (measurement.lanes[0].runner.memory[n] for n in "xy")
    assert gpu.log[0][1] == x.address, "inputs change in place"
    assert (gpu.log[1][1], gpu.log[1][3]) == (y.address, y.size), "outputs are poisoned"
    assert gpu.log[2][3] == 2 * gpu.properties.l2_cache_size, "L2 is overwritten"
    assert [gpu.log[3][1], gpu.log[5][1]] == ["hold", "k"]


def test_a_warm_call_runs_just_before_and_flushes_nothing(gpu: Recorder) -> None:
    header, blobs = job(program(role="inout"))
    measurement = clock.Measurement(header, blobs, gpu)
    gpu.log.clear()
    measurement.once(measurement.lanes[0], "warm")
    kinds = [line[0] for line in gpu.log]
    assert kinds == ["copy", "copy", "launch", "copy", "launch", "record", "launch", "record", "event_sync"]
    assert gpu.log[3][1] == measurement.lanes[0].runner.memory["y"].address, (
        "what the plan changed is set again"
    )


def test_candidates_share_addresses_and_take_turns(gpu: Recorder) -> None:
    header, blobs = job(program(launch("a")), program(launch("b")))
    measurement = clock.Measurement(header, blobs, gpu)
    first, second = measurement.lanes
    assert [first.runner.memory[n].address for n in "xy"] == [second.runner.memory[n].address for n in "xy"]
    gpu.log.clear()
    measurement.rounds()
    turns = [line[1] for line in gpu.log if line[0] == "launch" and line[1] != "hold"]
    rounds = [set(turns[i : i + 2]) for i in range(0, len(turns), 2)]
    assert all(r == {"a", "b"} for r in rounds)
    assert len(rounds) == 6, "a precision that is never reached ends at the most rounds"
    assert len(set(turns[::2])) == 2, "who begins is drawn anew"


def test_examined_calls_get_a_set_whose_truth_is_known(gpu: Recorder) -> None:
    header, blobs = job(program(), truths=[1], least=6)
    reply, sent = clock.time_job(header, blobs, gpu)
    assert [c["set"] for c in reply["checked"][0]] == [1, 1]
    assert sum(c["sent"] for c in reply["checked"][0]) == len(sent)
    assert reply["status"] == "ok"
    assert len(reply["samples_us"][0]) == 6


def test_equal_outputs_are_sent_once(gpu: Recorder) -> None:
    fill = {"op": "fill", "buffer": "y", "pattern": "00000000"}
    header, blobs = job(program(fill, launch()), program(fill, launch()), sets=1)
    reply, sent = clock.time_job(header, blobs[:4], gpu)
    checked = [c for lane in reply["checked"] for c in lane]
    assert len({c["digest"] for c in checked}) == 1
    assert len(checked) == 4
    assert len(sent) == 1


def test_a_loop_waits_before_it_looks_and_nothing_is_held(gpu: Recorder) -> None:
    loop = {"op": "while", "flag": "y", "limit": 3, "body": [launch()]}
    measurement = clock.Measurement(
        *job(program({"op": "fill", "buffer": "y", "pattern": "01010101"}, loop)), gpu
    )
    gpu.log.clear()
    measurement.once(measurement.lanes[0], "cold")
    kinds = [line[0] for line in gpu.log]
    assert kinds[3:] == [
        "stream_sync",
        "record",
        "set",
        *["stream_sync", "launch"] * 3,
        "record",
        "event_sync",
    ]
    assert "hold" not in [line[1] for line in gpu.log if line[0] == "launch"]


def test_graphs_are_captured_once_and_replayed(gpu: Recorder) -> None:
    header, blobs = job(program(), graph=3)
    reply, _ = clock.time_job(header, blobs, gpu)
    kinds = [line[0] for line in gpu.log]
    assert kinds.count("capture") == kinds.count("captured") == 1
    assert len(reply["graph_us"][0]) == 3
    assert reply["graph_missing"] == [""]
    assert kinds.count("replay") >= 3 * 2


def test_a_plan_that_changes_its_input_is_not_replayed(gpu: Recorder) -> None:
    reply, _ = clock.time_job(*job(program(role="inout"), graph=3), gpu)
    assert reply["graph_us"] == [[]]
    assert "in place" in reply["graph_missing"][0]


@pytest.mark.parametrize(
    ("pattern", "queued"),
    [
        ("00", ["set"]),
        ("0000803f", ["set32"]),
        ("000000000000f03f", ["set2d32", "set2d32"]),
        ("0000803f0000803f", ["set32"]),
    ],
)
def test_fills_of_every_width_are_in_stream_order(gpu: Recorder, pattern: str, queued: list[str]) -> None:
    fill = {"op": "fill", "buffer": "y", "pattern": pattern}
    measurement = clock.Measurement(*job(program(fill, dtype="float64"), sets=0), gpu)
    gpu.log.clear()
    measurement.lanes[0].enqueue()
    assert [line[0] for line in gpu.log] == queued


def test_a_write_beyond_a_buffer_while_timed_is_a_fault(gpu: Recorder) -> None:
    from cuda_harness.tools.execute.cuda.faults import Failed

    header, blobs = job(program())
    measurement = clock.Measurement(header, blobs, gpu)
    y = measurement.lanes[0].runner.memory["y"]
    gpu.cuMemsetD8(y.address + y.size + 8, 0x55, 4)
    with pytest.raises(Failed, match="past the end of 'y'"):
        measurement.lanes[0].runner.check_guards("the timed calls")


def test_outputs_that_the_caller_knows_are_not_sent(gpu: Recorder) -> None:
    fill = {"op": "fill", "buffer": "y", "pattern": "00000000"}
    header, blobs = job(program(fill, launch()), sets=1)
    reply, sent = clock.time_job(header, blobs[:3], gpu)
    assert len(sent) == 1
    known = [[c["set"], c["digest"]] for c in reply["checked"][0]]
    reply, sent = clock.time_job({**header, "known": known}, blobs[:3], gpu)
    assert not sent
    assert [c["sent"] for c in reply["checked"][0]] == [False, False]


def test_a_second_candidate_needs_no_second_set_of_buffers(gpu: Recorder) -> None:
    taken: list[int] = []
    allocate = gpu.cuMemAlloc
    sys.modules["cuda.bindings.driver"].cuMemAlloc = lambda size: (taken.append(size), allocate(size))[1]  # type: ignore[attr-defined]
    clock.Measurement(*job(program()), gpu)
    alone = list(taken)
    taken.clear()
    clock.Measurement(*job(program(launch("a")), program(launch("b"))), gpu)
    assert taken == alone
