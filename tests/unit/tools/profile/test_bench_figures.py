"""The `gpu.*` figures of `make bench`: read from a report, or null with the reason."""

import json
from pathlib import Path

import pytest
from tests.bench.gpu import NAMES, figures


def test_without_a_report_every_figure_is_null_and_says_how_to_get_it(tmp_path: Path) -> None:
    found = figures(tmp_path)
    assert set(found) == set(NAMES)
    assert all(value is None and "run_all.sh" in note for value, note in found.values())


def test_figures_are_the_worst_of_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_REPORT", str(tmp_path))
    rows = [
        {"bundle": "a", "cold": {"total_s": 2.0, "sanitizer_s": 1.5}, "warm": [{"total_s": 1.1}]},
        {"bundle": "b", "cold": {"total_s": 3.0, "sanitizer_s": 1.7}, "warm": [{"total_s": 1.4}]},
        {"bundle": "c", "error": "broken"},
    ]
    (tmp_path / "overhead.json").write_text(json.dumps({"rows": rows}))
    timing = {
        "ceilings": {"bandwidth_bytes_per_s": 4e12}, "A against A, 4 Mi elements": {"trials": 100, "told_apart": 1},
        "A against A, 64 Ki elements": {"trials": 100, "told_apart": 3},
        "streams": [{"kernel": "copy", "timing": {"gb_s": 3800.0}}, {"kernel": "axpy", "timing": {"gb_s": 3600.0}}, {"kernel": "x", "error": "e"}],
    }  # fmt: skip
    (tmp_path / "timing.json").write_text(json.dumps(timing))
    values = {n: v for n, (v, _) in figures(tmp_path).items()}
    assert values == {
        "gpu.candidate_s": 3.0, "gpu.warm_candidate_s": 1.4, "gpu.sanitizer_s": 1.7, "gpu.a_a_win_rate": 0.02, "gpu.stream_fraction": 0.9,
    }  # fmt: skip


def test_a_damaged_report_is_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_REPORT", str(tmp_path))
    (tmp_path / "timing.json").write_text("[1]")
    (tmp_path / "overhead.json").write_text("{")
    assert all(value is None for value, _ in figures(tmp_path).values())
