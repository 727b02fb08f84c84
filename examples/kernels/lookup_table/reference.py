import numpy as np


def reference(inputs, dims, scalars):
    knots = np.linspace(0, 1, 9)
    return {"y": np.interp(np.clip(inputs["x"].astype(np.float64), 0, 1), knots, knots**2)}
