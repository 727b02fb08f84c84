import numpy as np


def reference(inputs, dims, scalars):
    order = np.argsort(-inputs["x"], axis=1, kind="stable")[:, : dims["k"]]
    return {"values": np.take_along_axis(inputs["x"], order, 1).astype(np.float64), "indices": order.astype(np.int32)}
