import numpy as np


def reference(inputs, dims, scalars):
    return {"most": np.array([np.abs(inputs["x"].astype(np.float64)).max()])}
