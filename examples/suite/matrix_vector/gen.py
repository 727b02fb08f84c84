"""Draws the inputs of Matrix_Vector and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1011)
a = rng.standard_normal((200, 300)).astype(np.float32)
x = rng.standard_normal((300,)).astype(np.float32)
expected = a.astype(np.float64) @ x.astype(np.float64)

Path("data").mkdir(exist_ok=True)
a.tofile("data/a.bin")
x.tofile("data/x.bin")
expected.astype(np.float32).tofile("data/y_ref.bin")
