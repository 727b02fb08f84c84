"""Properties as a mismatch's name, and how far a kernel's outputs may be off in them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import Compare, KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case
from cuda_harness.tools.synthesize.properties import METAMORPHIC, violation
from cuda_harness.tools.synthesize.suite import Answer, Suite
from cuda_harness.tools.verify.tolerance import exponent_argument, tolerance

Array = NDArray[Any]


def slack_of(ir: KernelIR, tensor: Tensor, case: Case, answer: Answer, inputs: Mapping[str, Array]) -> Array:
    """Return by how much each element of an output may be off in a property: what the comparison allows it."""
    truth = answer.arrays[tensor.name]
    rule = tensor.compare or Compare(mode="close" if tensor.dtype in FLOATS else "exact")
    if rule.mode == "exact":
        return np.zeros(truth.shape)
    if tensor.dtype not in FLOATS:
        return np.full(truth.shape, np.inf)
    sense = answer.sensitivity.get(tensor.name)
    with np.errstate(all="ignore"):
        return tolerance(ir, tensor, case.dims, truth, sense, exponent_argument(ir, inputs)).element


def named(
    suite: Suite, case: Case, answer: Answer, got: Mapping[str, Array], inputs: Mapping[str, Array]
) -> str:
    """Return the property that a wrong output violates, as words to add to a mismatch, empty when there is none."""
    for prop in suite.properties:
        if prop.kind in METAMORPHIC or prop.output in answer.defined or prop.output not in got:
            continue
        tensor = suite.ir.tensor(prop.output)
        shape = tensor.dims(case.dims)
        if got[prop.output].size != answer.arrays[prop.output].size:
            continue
        slack = slack_of(suite.ir, tensor, case, answer, inputs)
        with np.errstate(all="ignore"):
            broken = violation(prop, [got[prop.output].reshape(shape)], [slack], inputs)
        if broken is not None:
            return broken
    return ""
