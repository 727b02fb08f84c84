"""Compares every element of the answer to Argmax with what is expected."""

import numpy as np

COUNT = 64
actual = np.fromfile("data/index.bin", dtype=np.int32)
expected = np.fromfile("data/index_ref.bin", dtype=np.int32)
if actual.size != COUNT or expected.size != COUNT:
    print("F: the answer has", actual.size, "elements of", COUNT)
elif np.array_equal(actual, expected):
    print("T")
else:
    print("F: differs at", np.flatnonzero(actual != expected)[:5])
