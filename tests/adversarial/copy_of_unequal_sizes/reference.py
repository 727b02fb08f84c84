import numpy as np
from scipy.special import expit


def reference(inputs, dims, scalars):
    h = dims["h"]
    x = inputs["x"].astype(np.float64)
    return {"y": expit(x[:, :h]) * x[:, h:]}
