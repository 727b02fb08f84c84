import numpy as np


def reference(inputs, dims, scalars):
    return {"y": np.sort(inputs["x"], axis=1).astype(np.float64)}
