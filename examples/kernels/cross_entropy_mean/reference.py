import numpy as np
from scipy.special import logsumexp


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    return {"loss": np.array((logsumexp(x, axis=1) - x[np.arange(len(x)), inputs["label"]]).mean())}
