"""A recorded run of a request that the built-in templates cannot do, replayed without a network.

`recordings/wave_step.jsonl` was recorded through langchain-openai over loopback HTTP; the answers were written by
hand from the prompts alone (2-D wave equation step), so they show that the prompts can be answered, not how a
particular model does.
"""

from pathlib import Path

import numpy as np
import pytest

from cuda_harness import Settings, generate
from cuda_harness.state.budget import Budget

RECORDING = Path(__file__).parent / "recordings" / "wave_step.jsonl"
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
