import numpy as np


def reference(inputs, dims, scalars):
    return {"y": np.sort(inputs["x"])}
