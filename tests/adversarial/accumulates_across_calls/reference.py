import numpy as np


def reference(inputs, dims, scalars):
    return {"count": np.array([(inputs["x"] > 0).sum()], np.int32)}
