import numpy as np


def reference(inputs, dims, scalars):
    c = inputs["img"].astype(np.uint32)
    return {"out": (np.uint32(255) << np.uint32(24)) | (c[:, 2] << np.uint32(16)) | (c[:, 1] << np.uint32(8)) | c[:, 0]}
