import numpy as np


def reference(inputs, dims, scalars):
    return {"y": np.clip(inputs["x"].astype(np.float64) * np.float64(scalars["inv"]), -448, 448)}
