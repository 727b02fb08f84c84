"""Compares every element of the answer to Matrix_Multiply with what is expected."""

import numpy as np

COUNT = 3072
actual = np.fromfile("data/c.bin", dtype=np.float32)
expected = np.fromfile("data/c_ref.bin", dtype=np.float32)
if actual.size != COUNT or expected.size != COUNT:
    print("F: the answer has", actual.size, "elements of", COUNT)
elif np.isfinite(actual).all() and np.allclose(actual, expected, rtol=1e-4, atol=1e-3):
    print("T")
else:
    print("F: largest difference", np.max(np.abs(actual - expected)))
