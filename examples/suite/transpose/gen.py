"""Draws the inputs of Transpose and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1006)
x = rng.standard_normal((96, 130)).astype(np.float32)
expected = x.T

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
expected.astype(np.float32).tofile("data/y_ref.bin")
