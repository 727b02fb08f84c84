"""Draws the inputs of Softmax and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1004)
x = rng.standard_normal((64, 320)).astype(np.float32)
wide = x.astype(np.float64)
powers = np.exp(wide - wide.max(axis=1, keepdims=True))
expected = powers / powers.sum(axis=1, keepdims=True)

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
expected.astype(np.float32).tofile("data/y_ref.bin")
