import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    m = np.abs(x).max(1, keepdims=True)
    return {"y": np.divide(x, m, out=np.zeros_like(x), where=m > 0)}
