import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"]
    bit = (x[:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    weight = np.uint32(1) << np.arange(31, -1, -1, dtype=np.uint32)
    has = bit.any(1)
    return {
        "ones": bit.sum(1).astype(np.int32),
        "zeros": np.where(has, bit[:, ::-1].argmax(1), 32).astype(np.int32),
        "lowest": np.where(has, bit.argmax(1) + 1, 0).astype(np.int32),
        "mirrored": (bit * weight).sum(1, dtype=np.uint32),
        "swapped": x.byteswap(),
        "turned": (x << np.uint32(7)) | (x >> np.uint32(25)),
    }
