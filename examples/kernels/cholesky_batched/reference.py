import numpy as np


def reference(inputs, dims, scalars):
    return {"l": np.linalg.cholesky(inputs["a"])}
