import numpy as np
from scipy.special import erf


def reference(inputs, dims, scalars):
    t = inputs["x"].astype(np.float64) + inputs["b"]
    return {"y": 0.5 * t * (1 + erf(t / np.sqrt(2.0)))}
