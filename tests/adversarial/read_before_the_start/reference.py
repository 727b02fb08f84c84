import numpy as np


def reference(inputs, dims, scalars):
    p = np.pad(inputs["x"].astype(np.float64), 1)
    return {"y": (p[:-2] + p[1:-1] + p[2:]) / 3}
