import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    return {"y": np.cumsum(x, 0) / np.arange(1, len(x) + 1)[:, None]}
