"""Draws the inputs of MSE_Loss and computes what is expected, in float64."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(1010)
x = rng.standard_normal((32, 512)).astype(np.float32)
target = rng.standard_normal((32, 512)).astype(np.float32)
expected = np.array([np.mean((x.astype(np.float64) - target) ** 2)])

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
target.tofile("data/target.bin")
expected.astype(np.float32).tofile("data/loss_ref.bin")
