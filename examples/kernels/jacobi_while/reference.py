import numpy as np
from scipy.linalg import solve_banded


def reference(inputs, dims, scalars):
    # The fixed point itself: tridiagonal system with 4 on the diagonal and -1 beside it.
    n = dims["n"]
    bands = np.vstack([np.full(n, -1.0), np.full(n, 4.0), np.full(n, -1.0)])
    return {"x": solve_banded((1, 1), bands, inputs["b"].astype(np.float64))}
