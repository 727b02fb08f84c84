import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    return {"top": -np.sort(-x, axis=1)[:, :3], "spread": np.ptp(x, axis=1)}
