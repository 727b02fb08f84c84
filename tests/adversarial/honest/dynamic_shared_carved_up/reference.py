import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    return {"mean": x.mean(1), "var": x.var(1)}
