import numpy as np


def reference(inputs, dims, scalars):
    x = inputs["x"].astype(np.float64)
    h, w = dims["h"], dims["w"]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    padded = np.pad(padded, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    windows = windows[:, :, : (h + 1) // 2, : (w + 1) // 2].reshape(*x.shape[:2], (h + 1) // 2, (w + 1) // 2, 9)
    win = windows.argmax(-1)
    i = 2 * np.arange((h + 1) // 2)[:, None] - 1 + win // 3
    j = 2 * np.arange((w + 1) // 2)[None, :] - 1 + win % 3
    return {"y": windows.max(-1), "at": (i * w + j).astype(np.int32)}
