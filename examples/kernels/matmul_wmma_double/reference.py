import numpy as np


def reference(inputs, dims, scalars):
    return {"c": inputs["a"] @ inputs["b"]}
