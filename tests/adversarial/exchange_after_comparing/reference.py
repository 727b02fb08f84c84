import numpy as np


def reference(inputs, dims, scalars):
    return {"most": inputs["x"].astype(np.float64).max(0)}
