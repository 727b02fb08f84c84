import numpy as np


def reference(inputs, dims, scalars):
    y = np.zeros(dims["n"])
    y[inputs["to"]] = 2.0 * inputs["x"].astype(np.float64)
    return {"y": y}
