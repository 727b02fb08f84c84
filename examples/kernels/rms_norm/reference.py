import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    return {"y": x / np.sqrt((x**2).mean(1, keepdims=True) + np.float64(scalars["eps"])) * inputs["g"]}
