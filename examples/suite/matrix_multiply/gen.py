"""Draws the inputs of Matrix_Multiply and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1005)
a = rng.standard_normal((64, 96)).astype(np.float32)
b = rng.standard_normal((96, 48)).astype(np.float32)
expected = a.astype(np.float64) @ b.astype(np.float64)

Path("data").mkdir(exist_ok=True)
a.tofile("data/a.bin")
b.tofile("data/b.bin")
expected.astype(np.float32).tofile("data/c_ref.bin")
