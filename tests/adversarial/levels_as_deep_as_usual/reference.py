import numpy as np


def reference(inputs, dims, scalars):
    start, to = inputs["start"], inputs["to"]
    level = np.full(dims["n"], -1, np.int32)
    level[0], front, depth = 0, np.array([0]), 0
    while len(front):
        depth += 1
        ends = np.unique(np.concatenate([to[start[v] : start[v + 1]] for v in front]))
        front = ends[level[ends] == -1]
        level[front] = depth
    return {"level": level}
