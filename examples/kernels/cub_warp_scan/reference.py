import numpy as np


def reference(inputs, dims, scalars):
    y = np.maximum.accumulate(inputs["x"].astype(np.float64), axis=1)
    return {"y": y, "total": y.sum(1)}
