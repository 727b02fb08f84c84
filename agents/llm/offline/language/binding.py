"""Formulas bound to an IR; the language itself lives in `tools.formula`, where the quorum uses it too."""

from cuda_harness.tools.formula.binding import *  # noqa: F403 - the same names under their former path
