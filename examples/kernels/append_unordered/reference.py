import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"]
    even = x[x % 2 == 0]
    found = np.zeros_like(x)
    found[: len(even)] = even
    return {"found": found, "found.defined": np.arange(len(x)) < len(even), "count": np.array([len(even)], np.int32)}
