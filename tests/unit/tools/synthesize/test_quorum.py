"""When two references say the same: by the rule of each output, and of the same elements."""

from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.suite import Case
from cuda_harness.tools.synthesize.quorum import Disagreement, smallest_difference
from cuda_harness.tools.synthesize.reply import Truth

CASE = Case(id="c", stage="tiny", dims={"n": 4})
X = np.array([3.0, 1.0, 3.0, 2.0], dtype=np.float32)


def differ(
    first: Any,
    second: Any,
    *,
    defined: tuple[Any, Any] = (None, None),
    dtype: str = "int32",
    shape: Any = ("n",),
    **rule: Any,
) -> Disagreement | None:
    ir = KernelIR.model_validate({
        "schema": KernelIR.KIND, "name": "k", "dims": [{"name": "n", "value": 4}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                    {"name": "y", "role": "out", "dtype": dtype, "shape": list(shape), "compare": {"mode": "exact", **rule}}],
    })  # fmt: skip
    a, b = (
        Truth({"y": np.asarray(v)}, {} if d is None else {"y": np.asarray(d, dtype=bool)})
        for v, d in zip((first, second), defined, strict=True)
    )
    return smallest_difference(ir, [CASE], [a], [b], {"c": {"x": X}})


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [([0], [2], True), ([0], [3], False), ([0], [9], False), ([-1], [0], False), ([2], [2], True)],
)
def test_free_ties_agree_by_the_values_that_they_name(first: Any, second: Any, agree: bool) -> None:
    found = differ(first, second, mode="index", of="x", ties="any", shape=(1,))

    assert (found is None) is agree


def test_lowest_ties_agree_by_the_index() -> None:
    assert differ([0], [2], mode="index", of="x", ties="lowest", shape=(1,)) is not None


def test_sets_agree_whatever_their_order_and_differ_in_how_often() -> None:
    assert differ([1, 2, 2, 3], [3, 2, 1, 2], mode="set") is None
    assert differ([1, 2, 2, 3], [3, 3, 1, 2], mode="set") is not None
    some = [1, 1, 0, 0]
    assert differ([1, 2, 7, 8], [2, 1, 0, 0], defined=(some, some), mode="set") is None


def test_references_must_agree_on_what_is_defined() -> None:
    found = differ([1, 2, 3, 4], [1, 2, 0, 0], defined=([1, 1, 1, 1], [1, 1, 0, 0]))

    assert found is not None
    assert found.index == (2,)
    assert "y[2], defined (1) or not (0), is 1 by the vectorised one and 0 by the loop one" in found.message


def test_what_one_reference_leaves_undefined_is_not_compared() -> None:
    assert differ([1, 2, 3, 4], [1, 2, 0, 0], defined=([1, 1, 0, 0], None)) is None
    assert differ([1, 2, 3, 4], [1, 9, 0, 0], defined=([1, 1, 0, 0], None)) is not None


def test_floats_agree_up_to_rounding_of_float64_and_not_further() -> None:
    y = np.array([1.0, 1e-9, np.nan, np.inf])

    assert differ(y, y * (1 + 1e-12), dtype="float32", mode="close") is None
    assert differ(y, np.array([1.0 + 1e-5, 1e-9, np.nan, np.inf]), dtype="float32", mode="close") is not None
    assert differ(y, np.array([1.0, 1e-9, 0.0, np.inf]), dtype="float32", mode="close") is not None
