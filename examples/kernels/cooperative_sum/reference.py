import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    return {"y": x / np.abs(x).sum()}
