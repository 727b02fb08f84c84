import numpy as np
from scipy.special import log_softmax


def reference(inputs, dims, scalars):
    return {"y": log_softmax(inputs["x"].astype(np.float64), axis=1)}
