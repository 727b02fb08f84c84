"""Draws the inputs of Row_Sum and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1003)
x = rng.standard_normal((96, 300)).astype(np.float32)
expected = x.astype(np.float64).sum(axis=1)

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
expected.astype(np.float32).tofile("data/sums_ref.bin")
