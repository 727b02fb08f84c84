import numpy as np


def reference(inputs, dims, scalars):
    return {"y": inputs["x"][:, ::-1].astype(np.float64)}
