import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"]
    order = np.argsort(x, axis=1, kind="stable")
    return {"y": np.take_along_axis(x, order, 1), "order": order.astype(np.int32)}
