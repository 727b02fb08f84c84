import numpy as np
from scipy.ndimage import median_filter


def reference(inputs, dims, scalars):
    return {"y": median_filter(inputs["x"], size=3, mode="nearest")}
