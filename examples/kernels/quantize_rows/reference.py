import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    m = np.abs(x).max(1)
    q = np.rint(np.divide(x * 127, m[:, None], out=np.zeros_like(x), where=m[:, None] > 0))
    return {"q": q.astype(np.int8), "scale": m / 127}
