import numpy as np


def reference(inputs, dims, scalars):
    return {"y": np.minimum(np.rint(inputs["x"] * np.float64(scalars["gain"])), 255).astype(np.uint8)}
