"""Draws the inputs of ReLU and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1001)
x = rng.standard_normal((128, 256)).astype(np.float32)
expected = np.maximum(x, 0.0)

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
expected.astype(np.float32).tofile("data/y_ref.bin")
