import numpy as np


def reference(inputs, dims, scalars):
    return {"y": inputs["x"].transpose(0, 2, 1).copy()}
