import numpy as np


def reference(inputs, dims, scalars):
    return {"idx": inputs["x"].argmax(1).astype(np.int32)}
