import numpy as np


def reference(inputs, dims, scalars):
    return {"loss": np.array([((inputs["a"].astype(np.float64) - inputs["b"]) ** 2).mean()])}
