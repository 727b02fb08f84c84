import numpy as np


def reference(inputs, dims, scalars):
    a, b = inputs["x"].astype(np.float64).T
    by = np.float64(scalars["by"])
    turned = np.stack([np.cos(by) * a - np.sin(by) * b, np.sin(by) * a + np.cos(by) * b], -1)
    return {"r": np.hypot(a, b), "phi": np.arctan2(b, a), "turned": turned}
