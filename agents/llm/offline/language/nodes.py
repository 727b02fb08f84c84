"""The syntax tree of formulas; the language itself lives in `tools.formula`, where the quorum uses it too."""

from cuda_harness.tools.formula.nodes import *  # noqa: F403 - the same names under their former path
