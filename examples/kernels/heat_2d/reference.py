import numpy as np


def reference(inputs, dims, scalars):
    u = inputs["u"].astype(np.float64)
    alpha = np.float64(scalars["alpha"])
    for _ in range(dims["steps"]):
        v = u.copy()
        v[1:-1, 1:-1] += alpha * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        u = v
    return {"v": u}
