import numpy as np
from scipy.special import softmax


def reference(inputs, dims, scalars):
    return {"y": softmax(np.float64(scalars["scale"]) * inputs["x"].astype(np.float64), axis=1)}
