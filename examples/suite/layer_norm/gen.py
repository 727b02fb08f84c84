"""Draws the inputs of Layer_Norm and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1007)
x = rng.standard_normal((64, 256)).astype(np.float32)
wide = x.astype(np.float64)
centred = wide - wide.mean(axis=1, keepdims=True)
expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
expected.astype(np.float32).tofile("data/y_ref.bin")
