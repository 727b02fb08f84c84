"""Draws the inputs of Axpy and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1000)
x = rng.standard_normal((16384,)).astype(np.float32)
b = rng.standard_normal((16384,)).astype(np.float32)
expected = 2.5 * x.astype(np.float64) + b

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
b.tofile("data/b.bin")
expected.astype(np.float32).tofile("data/y_ref.bin")
