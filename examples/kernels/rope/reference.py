import numpy as np


def reference(inputs, dims, scalars):
    x, half = inputs["x"].astype(np.float64), dims["half"]
    angle = np.arange(dims["seq"])[:, None, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return {"y": np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)}
