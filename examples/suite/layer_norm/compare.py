"""Compares every element of the answer to Layer_Norm with what is expected."""

import numpy as np

COUNT = 16384
actual = np.fromfile("data/y.bin", dtype=np.float32)
expected = np.fromfile("data/y_ref.bin", dtype=np.float32)
if actual.size != COUNT or expected.size != COUNT:
    print("F: the answer has", actual.size, "elements of", COUNT)
elif np.isfinite(actual).all() and np.allclose(actual, expected, rtol=1e-3, atol=1e-4):
    print("T")
else:
    print("F: largest difference", np.max(np.abs(actual - expected)))
