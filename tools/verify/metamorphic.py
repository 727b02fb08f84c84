"""Properties of the suite checked on a kernel's outputs, at the price of one further job at most."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.suite import Case, Property
from cuda_harness.tools.synthesize.properties import METAMORPHIC, cases_of, violation
from cuda_harness.tools.verify.cases import run_cases
from cuda_harness.tools.verify.climb import Climb, fail
from cuda_harness.tools.verify.properties import slack_of

Array = NDArray[Any]
Outputs = dict[str, dict[str, Array]]
CALLS = 8
"""Calls of the one further job that metamorphic properties may cost."""


def check_properties(climb: Climb, outputs: Outputs) -> str:
    """Return what was checked, in a few words, empty when there are no properties; ends the climb at a violation.

    Args:
        climb: The kernel; its suite has the properties.
        outputs: Of stage `values`, by case: what needs no other call is checked on these.
    """
    properties = climb.suite.properties
    direct = [p for p in properties if p.kind not in METAMORPHIC]
    asked = {c.id: c for c in climb.suite.cases("values", tunables=climb.tunables)}
    for prop in direct:
        for case in (asked[i] for i in outputs if i in asked):
            _check(climb, prop, [case], outputs)
    groups, left_out = _planned(climb)
    cases = list({c.id: c for group in groups.values() for c in group}.values())
    if cases:
        further: Outputs = {}
        run_cases(climb, "values", cases, climb.executor, "plain", keep=further)
        for prop, group in groups.items():
            if all(c.id in further for c in group):
                _check(climb, prop, group, further)
    checked = len(direct) + len(groups)
    more = f", {left_out} more would cost further jobs" if left_out else ""
    return f"; {checked} properties hold{more}" if properties else ""


def _planned(climb: Climb) -> tuple[dict[Property, list[Case]], int]:
    """Return the cases of each metamorphic property that fits one job, and how many properties do not."""
    base = next(iter(climb.suite.property_bases()), None)
    groups: dict[Property, list[Case]] = {}
    ids: set[str] = set()
    left_out = 0
    for prop in climb.suite.properties:
        if prop.kind not in METAMORPHIC or base is None:
            continue
        group = cases_of(prop, base)
        if len(ids | {c.id for c in group}) > CALLS:
            left_out += 1
            continue
        ids |= {c.id for c in group}
        groups[prop] = group
    return groups, left_out


def _check(
    climb: Climb, prop: Property, cases: list[Case], outputs: Mapping[str, Mapping[str, Array]]
) -> None:
    answers = climb.suite.answers(cases)
    if not isinstance(answers, dict) or any(prop.output in answers[c.id].defined for c in cases):
        return
    tensor = climb.ir.tensor(prop.output)
    shaped = [outputs[c.id][prop.output].reshape(tensor.dims(c.dims)) for c in cases]
    given = [climb.suite.inputs(c) for c in cases]
    slack = [slack_of(climb.ir, tensor, c, answers[c.id], i) for c, i in zip(cases, given, strict=True)]
    with np.errstate(all="ignore"):
        broken = violation(prop, shaped, slack, given[0])
    if broken is not None:
        fail(
            "values", "mismatch", f"a property is violated: {broken} [sizes {cases[0].dims}, regime {cases[0].regime}]",
            {"property": prop.words, "dims": cases[0].dims, "regime": cases[0].regime},
        )  # fmt: skip
