import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"]
    return {"value": x.max(1).astype(np.float64), "index": x.argmax(1).astype(np.int32)}
