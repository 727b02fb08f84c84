"""Tensor maps as cuda.core's own options; only the driver's encoding is left out."""

from dataclasses import asdict
from typing import Any

import pytest

from cuda_harness.state.names import ITEM_BYTES
from cuda_harness.tools.execute.cuda.faults import Failed
from cuda_harness.tools.execute.cuda.tensor_map import encode, why_refused
from cuda_harness.tools.execute.protocol import TensorMapValue


class View:
    """Stands where cuda.core would ask the driver about the address."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.interface = interface

    @classmethod
    def from_cuda_array_interface(cls, raw: Any, stream_ptr: int) -> "View":
        assert stream_ptr == -1
        return cls(raw.__cuda_array_interface__)

    def as_tensor_map(self, *, options: Any) -> tuple[dict[str, Any], Any]:
        if self.interface["shape"][-1] % 4:
            msg = "strides must be multiples of 16 bytes"
            raise ValueError(msg)
        return self.interface, options


@pytest.fixture(autouse=True)
def view(monkeypatch: pytest.MonkeyPatch) -> None:
    import cuda.core.utils

    monkeypatch.setattr(cuda.core.utils, "StridedMemoryView", View)


def described(dtype: str = "float32", **changes: Any) -> dict[str, Any]:
    usual = {"shape": (64, 32), "box": (16, 8), "swizzle": "none", "l2": "none", "oob": "zero"}
    return asdict(TensorMapValue("x", dtype, **{**usual, **changes}))


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_every_element_type_has_its_width(dtype: str) -> None:
    interface, options = encode(4096, described(dtype, box=(8, 16)))
    assert int(interface["typestr"][2:]) == ITEM_BYTES[dtype]
    assert (interface["data"], interface["shape"], interface["strides"]) == ((4096, False), (64, 32), None)
    assert options.box_dim == (8, 16)
    assert (str(options.data_type) == "bfloat16") == (dtype == "bfloat16")


@pytest.mark.parametrize(
    ("changes", "field", "name"),
    [
        ({"swizzle": "none"}, "swizzle", "NONE"),
        ({"swizzle": "32B"}, "swizzle", "SWIZZLE_32B"),
        ({"swizzle": "64B"}, "swizzle", "SWIZZLE_64B"),
        ({"swizzle": "128B"}, "swizzle", "SWIZZLE_128B"),
        ({"l2": "none"}, "l2_promotion", "NONE"),
        ({"l2": "64B"}, "l2_promotion", "L2_64B"),
        ({"l2": "128B"}, "l2_promotion", "L2_128B"),
        ({"l2": "256B"}, "l2_promotion", "L2_256B"),
        ({"oob": "zero"}, "oob_fill", "NONE"),
        ({"oob": "nan"}, "oob_fill", "NAN_REQUEST_ZERO_FMA"),
    ],
)
def test_every_choice_of_a_plan_is_one_of_cuda_core(changes: dict[str, str], field: str, name: str) -> None:
    _, options = encode(4096, described(**changes))
    assert getattr(options, field).name == name


def test_what_is_refused_is_the_plans_matter() -> None:
    with pytest.raises(
        Failed, match=r"the tensor map of 'x' \(shape \[64, 31\], box \[16, 8\]\): strides"
    ) as caught:
        encode(4096, described(shape=(64, 31)))
    assert caught.value.answer["fault"] == "launch_config"


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
