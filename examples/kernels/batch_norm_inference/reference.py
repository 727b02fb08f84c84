import numpy as np


def reference(inputs, dims, scalars):
    per = lambda name: inputs[name].astype(np.float64)[None, :, None, None]
    y = (inputs["x"].astype(np.float64) - per("mean")) / np.sqrt(per("var") + np.float64(scalars["eps"]))
    return {"y": y * per("gamma") + per("beta")}
