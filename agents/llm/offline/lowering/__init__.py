"""From an IR to a kernel and its launch plan: one parametrised skill a module, chosen by the shape of the formulas."""
