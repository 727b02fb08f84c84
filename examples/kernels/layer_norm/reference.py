import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    centred = x - x.mean(1, keepdims=True)
    inv = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + np.float64(scalars["eps"]))
    return {"y": centred * inv * inputs["gamma"] + inputs["beta"]}
