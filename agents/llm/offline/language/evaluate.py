"""Formulas evaluated directly; the language itself lives in `tools.formula`, where the quorum uses it too."""

from cuda_harness.tools.formula.evaluate import *  # noqa: F403 - the same names under their former path
