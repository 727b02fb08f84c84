"""Draws the inputs of Argmax and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1009)
x = rng.standard_normal((64, 200)).astype(np.float32)
expected = x.argmax(axis=1)

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
expected.astype(np.int32).tofile("data/index_ref.bin")
