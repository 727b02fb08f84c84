"""Draws the inputs of GELU and computes what is expected, in float64."""

from pathlib import Path

import numpy as np
from scipy.special import erf

rng = np.random.default_rng(1002)
x = rng.standard_normal((64, 512)).astype(np.float32)
wide = x.astype(np.float64)
expected = 0.5 * wide * (1.0 + erf(wide / np.sqrt(2.0)))

Path("data").mkdir(exist_ok=True)
x.tofile("data/x.bin")
expected.astype(np.float32).tofile("data/y_ref.bin")
