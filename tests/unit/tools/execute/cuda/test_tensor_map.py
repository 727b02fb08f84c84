"""Tensor maps that the driver would refuse are refused with the rule they break."""

from typing import Any

import pytest

from cuda_harness.tools.execute.cuda.tensor_map import why_refused

GOOD: dict[str, Any] = {"dtype": "float32", "shape": (64, 64), "box": (32, 32), "swizzle": "none"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"shape": (64, 63)}, "here one is 252"),
        ({"shape": (2, 3, 4), "box": (1, 3)}, "a box of as many"),
        ({"box": (257, 32)}, "1 to 256"),
        ({"box": (32, 30)}, "here it is 120"),
        ({"swizzle": "64B"}, "128 bytes, more than the swizzle's 64B"),
    ],
)
def test_each_rule_names_its_figure(change: dict[str, Any], told: str) -> None:
    assert told in why_refused(GOOD | change)


@pytest.mark.parametrize(
    "change", [{}, {"swizzle": "128B"}, {"shape": (63, 64)}, {"dtype": "uint8", "box": (1, 16)}, {"shape": (100,), "box": (4,)}]
)  # fmt: skip
def test_honest_maps_pass(change: dict[str, Any]) -> None:
    assert why_refused(GOOD | change) == ""
