import numpy as np


def reference(inputs, dims, scalars):
    return {"norm": np.array([np.linalg.norm(inputs["x"].astype(np.float64))])}
