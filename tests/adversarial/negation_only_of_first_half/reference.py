import numpy as np


def reference(inputs, dims, scalars):
    return {"y": np.maximum(inputs["x"].astype(np.float64), 0)}
