import numpy as np


def reference(inputs, dims, scalars):
    key, x, keys = inputs["key"], inputs["x"], dims["keys"]
    start = {"least": (np.minimum, 2**32 - 1), "most": (np.maximum, 0), "every": (np.bitwise_and, 2**32 - 1), "some": (np.bitwise_or, 0), "parity": (np.bitwise_xor, 0)}
    out = {}
    for name, (operation, neutral) in start.items():
        out[name] = np.full(keys, neutral, np.uint32)
        operation.at(out[name], key, x)
    return out
