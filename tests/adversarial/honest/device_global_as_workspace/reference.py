import numpy as np


def reference(inputs, dims, scalars):
    return {"total": np.array([inputs["x"].astype(np.float64).sum()])}
