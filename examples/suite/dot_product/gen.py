"""Draws the inputs of Dot_Product and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1008)
x = rng.standard_normal((20000,)).astype(np.float32)
z = rng.standard_normal((20000,)).astype(np.float32)
expected = np.array([np.dot(x.astype(np.float64), z.astype(np.float64))])

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
z.tofile("data/z.bin")
expected.astype(np.float32).tofile("data/dot_ref.bin")
