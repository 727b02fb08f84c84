import numpy as np


def reference(inputs, dims, scalars):
    return {"total": np.array([inputs["x"].sum(dtype=np.int64)])}
