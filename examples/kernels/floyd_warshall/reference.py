import numpy as np


def reference(inputs, dims, scalars):
    d = inputs["d"].astype(np.int64)
    for k in range(dims["n"]):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return {"d": d.astype(np.int32)}
