"""A recorded run of a request that the built-in templates cannot do, replayed without a network.

`recordings/wave_step.jsonl` was recorded through langchain-openai over loopback HTTP; the answers were written by
hand from the prompts alone (2-D wave equation step), so they show that the prompts can be answered, not how a
particular model does. `three_nearest.jsonl` and `haar_wavelet.jsonl` were answered, request by request, by a language
model that saw nothing but the prompts; the requests were CUDABench's tasks 422 (level 2) and 475 (level 3), said here
in our own words. So was `farthest_points.jsonl`, later prompts and task 405 (level 2).
"""

from pathlib import Path

import numpy as np
import pytest

from cuda_harness import Settings, generate
from cuda_harness.state.budget import Budget

RECORDINGS = Path(__file__).parent / "recordings"
RECORDING = RECORDINGS / "wave_step.jsonl"
REQUEST = (
    "One step of the 2-D wave equation on a float32 grid of 200 by 300 points: given the current field u, the "
    "previous field p and the squared wave speed c2 at every point, write the next field. Use the five-point "
    "Laplacian with unit spacing; points outside the grid count as zero. The time step dt is a parameter."
)


@pytest.mark.slow
def test_recorded_run_is_replayed_to_a_verified_kernel(tmp_path: Path) -> None:
    result = generate(
        REQUEST, model=f"replay:{RECORDING}", executor="cpu", out=tmp_path, settings=Settings(), seed=4
    )

    assert result.status == "verified", result.stop
    assert result.document["usage"]["calls"] == 4
    rng = np.random.default_rng(0)
    u, p = (rng.standard_normal((7, 5)).astype(np.float32) for _ in range(2))
    c2 = rng.random((7, 5)).astype(np.float32)
    padded = np.pad(u, 1)
    lap = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * u
    assert np.allclose(result(u, p, c2, dt=0.5), 2 * u - p + 0.25 * c2 * lap, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_recording_that_ends_early_stops_the_run_in_order(tmp_path: Path) -> None:
    short = tmp_path / "short.jsonl"
    short.write_text("".join(RECORDING.read_text().splitlines(keepends=True)[:2]))

    result = generate(
        REQUEST, model=f"replay:{short}", executor="cpu", out=tmp_path, settings=Settings(), seed=4
    )

    assert result.status == "failed"
    assert result.stop["reason"] == "model_failed"
    assert (result.run_dir / "result.json").is_file()


@pytest.mark.slow
def test_a_budget_stops_before_the_call_that_would_exceed_it(tmp_path: Path) -> None:
    result = generate(
        REQUEST, model=f"replay:{RECORDING}", executor="cpu", out=tmp_path, settings=Settings(), seed=4,
        budget=Budget(max_calls=2),
    )  # fmt: skip

    assert result.stop["reason"] == "budget"
    assert result.document["usage"]["calls"] == 2


@pytest.mark.slow
def test_a_round_of_branches_is_replayed_to_the_same_decision(tmp_path: Path) -> None:
    result = generate(
        "One-dimensional Haar wavelet transform of `signal` (512 float32) down to one average: `details_out` (512) and "
        "`approx_out` (1).",
        model=f"replay:{RECORDINGS / 'haar_wavelet.jsonl'}", executor="cpu", out=tmp_path, settings=Settings(),
        seed=7, budget=Budget(rounds=1, branches=2),
    )  # fmt: skip

    assert result.status == "verified", result.stop
    assert [(a["strategy"], a["status"]) for a in result.document["attempts"]] == [
        ("first", "verified"), ("sixteen_per_thread", "verified"),
    ]  # fmt: skip
    assert result.stop["reason"] == "budget"
    assert result.document["usage"]["calls"] == 6
    (round_,) = {b["round"] for b in result.document["branches"]}
    assert round_ == 1
    assert all(b["kept"] in {True, False} and b["reason"] for b in result.document["branches"])


@pytest.mark.slow
def test_a_recorded_answer_is_judged_on_fresh_data(tmp_path: Path) -> None:
    result = generate(
        "For every unknown point, the indices of the three nearest known points of its batch, nearest first.",
        model=f"replay:{RECORDINGS / 'three_nearest.jsonl'}", executor="cpu", out=tmp_path, settings=Settings(),
        seed=11, budget=Budget(rounds=0),
    )  # fmt: skip

    assert result.status == "verified", result.stop
    rng = np.random.default_rng(1)
    unknown, known = (rng.standard_normal((2, n, 3)).astype(np.float32) for n in (5, 9))
    distances = ((unknown[:, :, None] - known[:, None]) ** 2).sum(-1)
    assert np.array_equal(result(unknown, known), np.argsort(distances, axis=-1, kind="stable")[..., :3])


@pytest.mark.slow
def test_a_branch_of_the_rules_and_one_of_the_models_are_replayed(tmp_path: Path) -> None:
    result = generate(
        "Farthest-point sampling from given distances: `input_point_dists` (8, 128, 128) float32 holds the distances of 128 "
        "points for 8 clouds. Begin with point 0 and choose 32 points in all, each the one that is farthest from those chosen so "
        "far; `output_sampled_indices` (8, 32) float32 holds their indices.",
        model=f"replay:{RECORDINGS / 'farthest_points.jsonl'}", executor="cpu", out=tmp_path, settings=Settings(),
        seed=9, budget=Budget(rounds=1, branches=2),
    )  # fmt: skip

    assert result.status == "verified", result.stop
    assert {(b["strategy"], b["by"], b["kept"]) for b in result.document["branches"]} == {
        ("launch_bounds", "rules", True), ("overlap_chain_head", "model", False),
    }  # fmt: skip
    assert all(a["status"] == "verified" for a in result.document["attempts"])
    rng = np.random.default_rng(1)
    dists = rng.random((2, 128, 128)).astype(np.float32)
    chosen = np.zeros((2, 32), dtype=np.float32)
    nearest = np.full((2, 128), np.inf, dtype=np.float32)
    for step in range(1, 32):
        for cloud in range(2):
            nearest[cloud] = np.minimum(nearest[cloud], dists[cloud, int(chosen[cloud, step - 1])])
            chosen[cloud, step] = int(np.argmax(nearest[cloud]))
    assert np.array_equal(result(dists), chosen)
