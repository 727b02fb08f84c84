"""What bounds a kernel, from figures given here."""

from typing import Any

import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import InstructionMix, KernelFacts, Timing
from cuda_harness.tools.execute.protocol import LaunchOp, Program
from cuda_harness.tools.profile.ceilings import Ceilings
from cuda_harness.tools.profile.counters import Counters
from cuda_harness.tools.profile.diagnose import Known, profile_of, static_profile
from cuda_harness.tools.profile.facts import theoretical_occupancy

IR = KernelIR.model_validate({
    "schema": "cuda-harness/ir/1", "name": "p", "dims": [{"name": "n", "value": 1 << 26}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]}, {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    "steps": [{"id": "s", "op": "copy", "reads": ["x"], "writes": ["y"]}], "cost": {"flops": "n", "bytes": "8*n"},
})  # fmt: skip
LIMITS = Ceilings(
    bandwidth_bytes_per_s=4e12, launch_us=3.0, flops_per_s=6e13, tensor_flops_per_s=5e14, l2_bytes=50 << 20
)
FACTS = (KernelFacts(name="k", registers=32, shared_bytes=0, spill_store_bytes=0, spill_load_bytes=0),)


def timing(us: float, **more: Any) -> Timing:
    moved, flops = 8 << 26, 1 << 26
    return Timing(
        median_us=us, ci95_us=(us, us), samples=30, device="d", floor_us=134.2, floor_of="bytes", sol_fraction=min(1.0, 134.2 / us),
        compulsory_bytes=moved, flops=flops, gb_s=moved / us / 1e3, gflop_s=flops / us / 1e3, **more,
    )  # fmt: skip


def program(launches: int = 1, blocks: int = 4096, threads: int = 256, shared: int = 0) -> Program:
    return Program(
        (), tuple(LaunchOp("k", (blocks, 1, 1), (threads, 1, 1), shared, ()) for _ in range(launches))
    )


def known(**fields: Any) -> Known:
    given = {
        "kernels": FACTS,
        "program": program(),
        "timing": timing(200.0),
        "limits": LIMITS,
        "num_sms": 132,
    }
    return Known(IR, **{**given, **fields})


def counted(**values: float) -> Counters:
    return Counters((("k", {"time_ns": 1000.0, **values}),))


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        ({"dram_pct": 88.0, "sm_pct": 20.0}, "memory"),
        ({"dram_pct": 10.0, "l2_pct": 80.0, "sm_pct": 30.0}, "memory"),
        ({"dram_pct": 20.0, "sm_pct": 85.0}, "compute"),
        ({"dram_pct": 20.0, "sm_pct": 30.0, "tensor_pct": 70.0}, "compute"),
        ({"dram_pct": 20.0, "sm_pct": 30.0, "warps_active_pct": 12.0, "waves": 0.4}, "occupancy"),
        (
            {
                "dram_pct": 20.0,
                "sm_pct": 30.0,
                "warps_active_pct": 70.0,
                "stall_long": 9.0,
                "stall_barrier": 1.0,
            },
            "latency",
        ),
    ],
)
def test_counters_decide(values: dict[str, float], bound: str) -> None:
    profile = profile_of(known(counters=counted(**values)))
    assert (profile.rung, profile.bound) == ("ncu", bound)
    assert profile.evidence
    assert profile.sentence.startswith(f"{bound}-bound")


def test_the_longest_stall_is_named() -> None:
    profile = profile_of(known(counters=counted(dram_pct=9.0, sm_pct=9.0, warps_active_pct=80.0, stall_barrier=6.0, stall_long=2.0)))  # fmt: skip
    assert "waiting at barriers" in profile.sentence


def test_scattered_loads_are_told_to_the_coder() -> None:
    profile = profile_of(known(counters=counted(dram_pct=90.0, sm_pct=9.0, sectors_per_load=31.8)))
    assert "scattered" in profile.sentence


@pytest.mark.parametrize(
    ("fields", "bound"),
    [
        ({"timing": timing(160.0)}, "memory"),
        ({"timing": timing(2000.0)}, "latency"),
        ({"timing": timing(2000.0), "program": program(blocks=40)}, "occupancy"),
        ({"timing": timing(2000.0), "program": program(shared=100_000, threads=64)}, "occupancy"),
        ({"timing": timing(5.0), "limits": LIMITS.model_copy(update={"launch_us": 3.0})}, "launch"),
    ],
)
def test_without_counters_time_and_ceilings_decide(fields: dict[str, Any], bound: str) -> None:
    profile = profile_of(known(reason="ncu is not installed", **fields))
    assert (profile.rung, profile.bound) == ("cubin", bound)
    assert profile.reason == "ncu is not installed"


def test_many_launches_whose_gaps_a_graph_closes_are_launch_bound() -> None:
    gaps = known(program=program(launches=40), timing=timing(300.0, warm_us=290.0, graph_us=100.0))
    assert profile_of(gaps).bound == "launch"
    warm = known(program=program(launches=1), timing=timing(300.0, warm_us=290.0, graph_us=100.0))
    assert profile_of(warm).bound != "launch", "one launch has no gaps: a graph's caches are warm"


def test_headroom_is_the_distance_to_the_floor() -> None:
    profile = profile_of(known(timing=timing(268.4)))
    assert profile.headroom == pytest.approx(2.0)
    assert "2.00 times faster" in profile.sentence
    assert profile.roofline["ridge_flops_per_byte"] == pytest.approx(15.0)
    assert profile.roofline["flops_per_byte"] == pytest.approx(1 / 8)


def test_a_kernel_that_does_not_run_at_the_target_says_nothing_of_it() -> None:
    idle = KernelFacts(name="for_other_sizes", registers=200, spill_store_bytes=8)
    said = static_profile((*FACTS, idle), IR, program=program()).sentence
    assert "up to 32 registers" in said
    assert "spill" not in said


def test_without_any_measurement_the_bound_is_unknown() -> None:
    profile = static_profile(FACTS, IR)
    assert (profile.rung, profile.bound, profile.headroom) == ("cubin", "unknown", None)
    assert profile.metrics["k.registers"] == 32
    assert profile.metrics["flops_per_byte"] == pytest.approx(0.125)
    assert "not measured" in profile.sentence
    assert static_profile((), None).rung == "static"


def test_spills_are_told() -> None:
    spilling = (FACTS[0].model_copy(update={"spill_store_bytes": 16, "spill_load_bytes": 16}),)
    assert "registers spill to memory in k" in static_profile(spilling, IR).sentence


@pytest.mark.parametrize(
    ("registers", "threads", "shared", "share"),
    [
        (32, 256, 0, 1.0),
        (64, 256, 0, 0.5),
        (255, 256, 0, 8 / 64),
        (32, 32, 0, 0.5),
        (32, 256, 113 * 1024, 0.25),
        (168, 1024, 0, 0.0),
    ],
)
def test_occupancy_follows_the_limits_of_a_multiprocessor(
    registers: int, threads: int, shared: int, share: float
) -> None:
    facts = (FACTS[0].model_copy(update={"registers": registers}),)
    assert theoretical_occupancy(program(threads=threads, shared=shared), facts) == pytest.approx(share)


def test_occupancy_without_facts_is_not_known() -> None:
    assert theoretical_occupancy(None, FACTS) is None
    assert theoretical_occupancy(program(), ()) is None


def mix(**loads: int) -> InstructionMix:
    return InstructionMix(
        kernel="k", total=40, global_loads={n.removeprefix("b"): c for n, c in loads.items()}
    )


def test_narrow_loads_are_told_where_they_cost_something() -> None:
    narrow, wide = (mix(b4=2),), (mix(b4=1, b16=3),)
    assert "at most 4 bytes wide" in profile_of(known(timing=timing(200.0), mixes=narrow)).sentence
    assert "bytes wide" not in profile_of(known(timing=timing(200.0), mixes=wide)).sentence
    assert "at most 4 bytes wide" in profile_of(known(timing=timing(2000.0), mixes=narrow)).sentence
    assert profile_of(known(mixes=wide)).metrics["k.instructions_total"] == 40


def test_a_kernel_at_the_bandwidth_is_told_to_move_fewer_bytes() -> None:
    assert "only fewer bytes" in profile_of(known(timing=timing(140.0), mixes=(mix(b4=2),))).sentence
