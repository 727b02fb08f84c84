"""Regimes of values: where kernels that pass on N(0, 1) fail."""

import re

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS, INTEGERS
from cuda_harness.state.suite import Inputs, InputSpec

_CHOOSING = re.compile(r"near|neighb|arg_?m|top_?k|rank|sort|median")
HALF = frozenset({"float16", "bfloat16", "float8_e4m3", "float8_e5m2"})


def regimes_of(ir: KernelIR, specs: Inputs) -> tuple[str, ...]:
    """Return the regimes that mean something for these inputs, the most telling first.

    A given distribution is a domain: only regimes that stay inside it by drawing other points of it remain.
    """
    free = [t for t in ir.inputs if t.name not in specs.specs and t.dtype in FLOATS and not t.unused]
    given = [t for t in ir.inputs if t.name in specs.specs and not t.unused]
    integers = [t for t in ir.inputs if t.name not in specs.specs and t.dtype in INTEGERS and not t.unused]
    found = ["normal"]
    if free:
        found += [
            "negated",
            "large",
            "small",
            "offset",
            "below",
            "equal",
            "ties",
            "outlier",
            "peaks",
            "sorted",
            "sparse",
            "zeros",
        ]
        if ir.numerics.nonfinite == "propagate":
            found += ["nonfinite"]
        if not any(t.dtype in HALF for t in free):
            found += ["subnormal"]
    elif given or integers:
        found += ["ties", "equal", "sorted"]
    if integers:
        found += ["extremes"]
    if any(_is_index(specs.specs[t.name]) for t in given):
        found += ["chain"]
    if any(t.dtype in INTEGERS for t in ir.outputs) and any(len(t.shape) > 1 for t in free):
        found += ["twins"]
    if free and not any(t.dtype in HALF for t in free):
        found += _far(ir)
    return tuple(dict.fromkeys(found))


def _is_index(spec: InputSpec) -> bool:
    """Return whether a distribution draws places in something as long as a dim says."""
    return spec.distribution == "integers" and isinstance(spec.high, str) and spec.low in (None, 0)


def in_quorum(regimes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the regimes that references are compared in: at their few elements, sparse data has rows of zeros already."""
    return tuple(r for r in regimes if r != "zeros")


def _far(ir: KernelIR) -> list[str]:
    """Return regimes of values far out, where a search that starts from 1e10 or pads with -1e30 finds nothing.

    Only for outputs that choose among inputs: sums and products of such values would overflow.
    """
    if all(t.dtype in FLOATS and t.compare is not None and t.compare.mode == "exact" for t in ir.outputs):
        return ["lowest", "highest"]
    words = " ".join((ir.name, ir.summary, *(s.op for s in ir.steps))).lower()
    indices = all(t.dtype in {"int32", "int64", "uint32"} for t in ir.outputs)
    return ["vast"] if indices and _CHOOSING.search(words) else []


def scale_of(regime: str, dtype: str) -> float:
    """Return the factor of a scaling regime; half types get factors that keep products in range."""
    if regime == "large":
        return 16.0 if dtype in HALF else 1e3
    if regime == "small":
        return 1 / 16 if dtype in HALF else 1e-3
    return 1.0
