import numpy as np


def reference(inputs, dims, scalars):
    return {"y": np.cumsum(inputs["x"], dtype=np.int32)}
