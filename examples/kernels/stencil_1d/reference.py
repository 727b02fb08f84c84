import numpy as np


def reference(inputs, dims, scalars):
    padded = np.pad(inputs["x"].astype(np.float64), 3)
    return {"y": np.lib.stride_tricks.sliding_window_view(padded, 7).sum(-1)}
