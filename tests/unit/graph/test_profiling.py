"""The profile command's words and exit codes, from reports given here."""

from pathlib import Path
from typing import Any

import pytest

from cuda_harness.graph.profiling import exit_code, report_lines, require_same_problem
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.results import (
    Against,
    LibraryTime,
    Profile,
    ProfileReport,
    Timing,
    TimingNotMeasured,
    Verdict,
)
from cuda_harness.tools.verify.bundle import load_bundle

LIBRARY = Path(__file__).resolve().parents[3] / "examples" / "kernels"
TIMING = Timing(
    median_us=20.0, ci95_us=(19.9, 20.1), floor_us=16.0, floor_of="bytes", sol_fraction=0.8, samples=60, device="H200\x1b[2J", warm_us=9.0,
    graph_us=8.0, notes=("a note",), libraries=(LibraryTime(name="torch.softmax, eager", median_us=25.0), LibraryTime(name="PyTorch", reason="absent")),
)  # fmt: skip
PROFILE = Profile(
    rung="ncu", bound="memory", sentence="memory-bound: DRAM 88 %", performance_score=0.88, headroom=1.25
)


def verdict(outcome: Any = "accepted", executor: str = "cuda:0") -> Verdict:
    return Verdict(outcome=outcome, executor=executor)


def report(**fields: Any) -> ProfileReport:
    given = {"bundle": "b", "verdict": verdict(), "timing": TIMING, "profile": PROFILE}
    return ProfileReport(**{**given, **fields})


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 0),
        ({"verdict": verdict("rejected")}, 1),
        ({"verdict": verdict("undecided")}, 1),
        ({"verdict": verdict(executor="cpu"), "timing": TimingNotMeasured(reason="no GPU")}, 5),
        ({"verdict": verdict("rejected", executor="cpu"), "timing": TimingNotMeasured(reason="no GPU")}, 1),
        ({"timing": TimingNotMeasured(reason="below the floor", rejected=True)}, 1),
        ({"against": Against(bundle="c", verdict=verdict("rejected"))}, 1),
        ({"against": Against(bundle="c", verdict=verdict(), ratio=1.2, ci95=(1.1, 1.3))}, 0),
        ({"against": Against(bundle="c", verdict=verdict(), reason="not timed")}, 1),
    ],
)
def test_exit_codes(fields: dict[str, Any], code: int) -> None:
    assert exit_code(report(**fields)) == code


def test_the_lines_say_every_figure_and_no_control_character() -> None:
    lines = "\n".join(report_lines(report()))
    for told in ("20.00 us (19.90 to 20.10)", "warm caches: 9.00 us", "graph: 8.00 us", "80.0% of the speed of light", "note: a note",
                 "torch.softmax, eager: 25.00 us", "PyTorch: not measured: absent", "memory-bound", "Performance-Score: 0.880"):  # fmt: skip
        assert told in lines
    assert "\x1b" not in lines


def test_a_comparison_says_whether_it_means_anything() -> None:
    told = Against(bundle="c", verdict=verdict(), ratio=1.204, ci95=(1.19, 1.22), significant=True)
    assert "1.204 times as fast (1.190 to 1.220)" in report_lines(report(against=told))[-1]
    alike = told.model_copy(update={"significant": False})
    assert "not told apart" in report_lines(report(against=alike))[-1]
    missing = Against(bundle="c", verdict=verdict("rejected"), reason="only a verified kernel is timed")
    assert "not compared: only a verified kernel" in report_lines(report(against=missing))[-1]


def test_two_kernels_of_one_problem_may_be_compared_and_others_not() -> None:
    tiled, naive, axpy = (
        load_bundle(LIBRARY / n) for n in ("matmul_tiled", "matmul_register_blocked", "axpy")
    )
    require_same_problem(tiled, naive)
    with pytest.raises(ConfigError, match="differ in"):
        require_same_problem(tiled, axpy)


def test_the_report_survives_its_own_json() -> None:
    made = report(against=Against(bundle="c", verdict=verdict(), ratio=1.2, ci95=(1.1, 1.3)))
    assert ProfileReport.model_validate_json(made.to_json()) == made
