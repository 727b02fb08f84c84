"""Figures, scores, pairs and pages over made-up results with known answers."""

import json
from pathlib import Path

import pytest

from cuda_harness.state.errors import ConfigError
from cuda_harness.tools.benchmarks.figures import compare, figures, sign_test, summary, verdicts
from cuda_harness.tools.benchmarks.results import FIELDS, Results, empty_row, read_rows
from cuda_harness.tools.benchmarks.score import (
    DURATION,
    METRICS,
    PEAK_BYTES,
    SM_RATE,
    NotScored,
    Score,
    performance_score,
    read_ncu,
)  # fmt: skip
from cuda_harness.tools.benchmarks.side_by_side import changed_rows, facts, figure_rows, side_by_side, write
from cuda_harness.tools.benchmarks.table import dispute_rows, markdown, page
from cuda_harness.tools.benchmarks.task import Task

TASK = Task.model_validate(
    {"id": 3, "task_name": "T<b>", "inputs": [], "outputs": [{"name": "y", "dtype": "float32", "shape": "(4,)"}], "level1_prompt": "p"}
)  # fmt: skip


def row(number: int, **known: object) -> dict[str, object]:
    made = empty_row(TASK.model_copy(update={"id": number}), 1, 1)
    return {**made, "status": "verified", "graded_by": "program", "calls": 2, "input_tokens": 10, "output_tokens": 5,
            "usd": None, "seconds": 1.0, **known}  # fmt: skip


ROWS = [
    row(
        0,
        comp=True,
        func=True,
        func_official=True,
        outcome="accepted",
        speed_vs_reference=2.0,
        score=0.5,
        sol_fraction=0.8,
    ),
    row(1, comp=True, func=True, func_official=True, outcome="rejected", speed_vs_reference=0.5, score=0.1),
    row(2, comp=True, func=False, func_official=True, outcome="accepted"),
    row(3, comp=False, func=False, func_official=False, status="refused"),
    row(4, outcome="undecided"),
]


def test_figures_count_failures_as_zero_and_leave_out_what_was_not_graded() -> None:
    found = figures(ROWS)
    assert (found["results"], found["graded"], found["not_graded"], found["refused"]) == (5, 4, 1, 1)
    assert (found["comp_percent"], found["func_percent"], found["func_official_percent"]) == (
        75.0,
        50.0,
        75.0,
    )
    assert found["speed_vs_reference_mean_with_zeros"] == pytest.approx(2.5 / 4)
    assert found["speed_vs_reference_geomean_functional"] == pytest.approx(1.0)
    assert found["speed_vs_reference_median_functional"] == pytest.approx(1.25)
    assert found["score_mean_with_zeros"] == pytest.approx(0.6 / 4)
    assert (found["calls"], found["output_tokens"], found["usd"]) == (10, 25, None)


def test_a_functional_program_that_could_not_be_timed_is_no_zero() -> None:
    found = figures([*ROWS, row(5, comp=True, func=True, func_official=True)])
    assert found["speed_vs_reference_mean_with_zeros"] == pytest.approx(2.5 / 4)
    assert (found["graded"], found["timed"]) == (5, 2)


def test_nothing_measured_is_null_never_zero() -> None:
    found = figures([row(0, comp=True, func=True, func_official=True)])
    assert found["score_mean_with_zeros"] is None
    assert found["speed_vs_reference_geomean_functional"] is None
    assert figures([])["func_percent"] is None


def test_best_of_several_samples() -> None:
    rows = [
        row(0, comp=True, func=False, func_official=False),
        {**row(0, comp=True, func=True, func_official=True), "sample": 2},
    ]
    found = figures(rows)
    assert (found["func_percent_first_sample"], found["func_percent_best_sample"], found["func_percent"]) == (
        0.0,
        100.0,
        50.0,
    )


def test_verdicts_against_the_benchmark() -> None:
    found = verdicts(ROWS)
    assert (found["accepted_correct"], found["accepted_wrong"], found["rejected_correct"]) == (1, 1, 1)
    assert found["undecided_correct"] + found["undecided_wrong"] == 0
    assert found["agreement_percent"] == pytest.approx(100 / 3)
    assert found["false_acceptances_percent_of_accepted"] == 50.0
    assert found["false_rejections_percent_of_correct"] == 50.0
    assert [d["id"] for d in found["disputed"]] == [1, 2]


def test_where_the_judge_is_at_fault_is_told_beside_the_dispute() -> None:
    rows = [ROWS[0], {**ROWS[1], "judge": ["it passes y all zeros"], "ours": False}]
    found = verdicts(rows)
    assert (found["agreement_percent"], found["agreement_percent_of_sound_judges"]) == (50.0, 100.0)
    (head, dispute) = dispute_rows(found)
    assert dict(zip(head, dispute, strict=True)) | {"id": "", "level": ""} == {
        "id": "", "kind": "T<b>", "level": "", "our verdict": "rejected", "benchmark": "correct", "our tolerance": "beyond",
        "faults of the judge": "it passes y all zeros", "detail": "",
    }  # fmt: skip
    document = {"title": "t", "suite": "s", "model": "m", "executor": "cpu", "target": "", **summary(rows)}
    assert "## Where they differ" in markdown(document, rows)
    assert "Where they differ" in page(document, rows)
    assert "Where they differ" not in page({**document, **summary(rows[:1])}, rows)


def test_pairs() -> None:
    better = [{**r, "func": True} for r in ROWS[:4]]
    found = compare(ROWS, better)
    assert (found["paired"], found["only_in_a"], found["only_b_functional"], found["both_functional"]) == (
        4,
        1,
        2,
        2,
    )
    assert found["speed_b_over_a_geomean"] == pytest.approx(1.0)
    assert sign_test(0, 6) == pytest.approx(2 / 64)
    assert (sign_test(0, 0), sign_test(3, 3)) == (None, 1.0)


KERNEL = dict.fromkeys(METRICS, 0.0) | {METRICS[0]: 128.0 * 100, SM_RATE: 1e9, PEAK_BYTES: 2000.0, METRICS[3]: 1e9,
                                        METRICS[4]: 1e12, METRICS[8]: 1e9}  # fmt: skip


def test_score_is_the_larger_of_compute_and_bandwidth() -> None:
    moving = performance_score({"copy": KERNEL})
    assert isinstance(moving, Score)
    assert moving.score == moving.bandwidth_utilization == pytest.approx(0.5)
    busy = performance_score({"mul": {**KERNEL, METRICS[7]: 12_000.0}})
    assert isinstance(busy, Score)
    assert busy.compute_efficiency == pytest.approx(2 * 12_000 / (2 * 12_800))
    assert busy.score == pytest.approx(max(busy.compute_efficiency, busy.bandwidth_utilization))


def test_the_busiest_of_several_kernels_is_scored() -> None:
    found = performance_score({"copy": KERNEL, "mul": {**KERNEL, METRICS[5]: 64.0, METRICS[4]: 1e9}})
    assert isinstance(found, Score)
    assert found.kernel == "mul"
    assert isinstance(performance_score({"copy": {SM_RATE: 1.0}}), NotScored)


def test_ncu_tables_are_read_with_means_over_launches_and_times_over_all() -> None:
    lines = ["==PROF== noise", '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"']
    for launch, value in ((0, "1,000"), (1, "3000")):
        lines += [
            f'"{launch}","k(int, float)","{METRICS[4]}","byte/second","{value}"',
            f'"{launch}","k(int, float)","{DURATION}","nsecond","2,500"',
        ]
    read = read_ncu("\n".join(lines))
    assert not isinstance(read, str)
    assert read == ({"k(int, float)": {METRICS[4]: 2000.0}}, 5.0)
    assert isinstance(read_ncu("==ERROR== nothing"), str)


def test_pages_escape_what_is_foreign() -> None:
    document = {
        "title": "x<script>",
        "suite": "s",
        "model": "m|`",
        "executor": "cpu",
        "target": "",
        **summary(ROWS),
    }
    text = page(document, [{**r, "detail": "<img src=x onerror=alert(1)>"} for r in ROWS])
    assert "<script" not in text
    assert "<img src=x" not in text
    assert "default-src 'none'" in text
    plain = markdown(document, [{**ROWS[0], "detail": "a|b\n# c <b>"}])
    assert "a\\|b # c &lt;b>" in plain


def test_results_survive_a_kill_and_refuse_a_mix(tmp_path: Path) -> None:
    head = {
        "suite": "s",
        "model": "m",
        "title": "t",
        "executor": "cpu",
        "target": "",
        "created": "now",
        "tasks": {},
    }
    results = Results(tmp_path, head)
    results.add(empty_row(TASK, 1, 1))
    with (tmp_path / "results.jsonl").open("a") as stream:
        stream.write('{"id": 3, "level": 1, "sam')
    again = Results(tmp_path, {**head, "created": "later"})
    assert again.done == {(3, 1, 1)}
    assert again.head["created"] == "now"
    again.add(empty_row(TASK, 1, 2))
    assert len(read_rows(tmp_path)) == 2
    with pytest.raises(ConfigError, match="another model"):
        Results(tmp_path, {**head, "model": "n"})


def test_finished_results_are_in_the_benchmarks_own_format(tmp_path: Path) -> None:
    results = Results(
        tmp_path,
        {
            "suite": "s",
            "model": "a/b:c",
            "title": "t",
            "executor": "cpu",
            "target": "",
            "created": "now",
            "tasks": {},
        },
    )
    path = results.program_path(TASK, 1, 1)
    path.parent.mkdir(parents=True)
    path.write_text("int main() {}")
    results.add({**empty_row(TASK, 1, 1), "comp": True, "func": False, "func_official": True, "status": "verified",
                 "program": str(path.relative_to(tmp_path)), "seconds": 1.0})  # fmt: skip
    results.add(
        {
            **empty_row(TASK, 1, 2),
            "comp": False,
            "func": False,
            "func_official": False,
            "status": "refused",
            "seconds": 1.0,
        }
    )
    document = results.finish([TASK])
    assert document["overall"]["results"] == 2
    (official,) = (tmp_path / "official").glob("*.jsonl")
    assert official.name == "a-b-c_level1_pass2.jsonl"
    line = json.loads(official.read_text())
    assert (line["id"], line["code1"], line["code2"]) == (3, "int main() {}", None)
    assert (line["correctness1"], line["functionality1"]) == (True, True)
    assert set(FIELDS) >= {"id", "kind", "level", "sample", "status", "comp", "func", "speed_vs_reference", "score",
                           "sol_fraction", "outcome", "failure_class", "calls", "input_tokens", "output_tokens", "usd",
                           "seconds", "program"}  # fmt: skip
    assert (tmp_path / "summary.html").is_file()


def stored(root: Path, title: str, rows: list[dict[str, object]]) -> Path:
    results = Results(
        root, {"suite": "s", "model": title, "title": title, "executor": "cpu", "target": "", "tasks": {}}
    )
    for r in rows:
        results.add(r)
    return root


def test_two_runs_are_shown_side_by_side(tmp_path: Path) -> None:
    a = stored(tmp_path / "a", "one-shot <b>", ROWS[:4])
    b = stored(tmp_path / "b", "harness", [*({**r, "comp": True, "func": True} for r in ROWS[:4]), row(9)])
    document = side_by_side(a, b)
    said = "\n".join(facts(document))
    assert "A: one-shot <b>; B: harness" in said
    assert "4 pairs (only in A: 0, only in B: 1)" in said
    assert "functional in both 2, only in A 0, only in B 2, in neither 0; sign test p = 0.5" in said
    rows = {r[0]: r[1:] for r in figure_rows(document)}
    assert rows["figure"] == ["level 1, A", "level 1, B", "all, A", "all, B"]
    assert rows["Func %"] == ["50", "100", "50", "100"]
    assert [r[0] for r in changed_rows(document)] == ["id", "2", "3"]
    write(document, tmp_path / "c")
    page = (tmp_path / "c" / "compare.html").read_text()
    assert "<b>" not in page
    assert "default-src 'none'" in page
    assert "| Func % | 50 | 100 | 50 | 100 |" in (tmp_path / "c" / "compare.md").read_text()
    assert (
        json.loads((tmp_path / "c" / "compare.json").read_text())["schema"] == "cuda-harness/bench-compare/1"
    )
    with pytest.raises(ConfigError, match="in common"):
        side_by_side(a, stored(tmp_path / "d", "other", [row(77)]))
