import numpy as np


def reference(inputs, dims, scalars):
    return {"y": inputs["x"] + np.uint8(1)}
