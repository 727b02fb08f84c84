import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"]
    return {"y": (np.cumsum(x, axis=1) - x).astype(np.int32)}
