import numpy as np


def reference(inputs, dims, scalars):
    return {"hist": np.bincount(inputs["x"], minlength=256).astype(np.int32)}
