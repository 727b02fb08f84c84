import numpy as np
from scipy.special import ndtr


def reference(inputs, dims, scalars):
    s, k, t = (inputs[name].astype(np.float64) for name in "skt")
    r, vol = np.float64(scalars["r"]), np.float64(scalars["vol"])
    d1 = (np.log(s / k) + (r + vol**2 / 2) * t) / (vol * np.sqrt(t))
    d2 = d1 - vol * np.sqrt(t)
    discounted = k * np.exp(-r * t)
    return {"call": s * ndtr(d1) - discounted * ndtr(d2), "put": discounted * ndtr(-d2) - s * ndtr(-d1)}
