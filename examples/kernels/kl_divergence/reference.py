import numpy as np
from scipy.special import rel_entr


def reference(inputs, dims, scalars):
    return {"kl": np.array(rel_entr(inputs["p"].astype(np.float64), inputs["q"].astype(np.float64)).sum(1).mean())}
