import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    return {"y": (x - x.mean()) / np.sqrt(x.var() + scalars["eps"])}
