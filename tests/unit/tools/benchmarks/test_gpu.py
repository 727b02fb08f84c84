"""Which GPU a program sees."""

import pytest

from cuda_harness.tools.benchmarks.gpu import only


@pytest.mark.parametrize(
    ("index", "environment", "visible"),
    [
        (0, {}, "0"),
        (1, {}, "1"),
        (1, {"CUDA_VISIBLE_DEVICES": "5, 3"}, "3"),
        (0, {"CUDA_VISIBLE_DEVICES": "MIG-ab-cd"}, "MIG-ab-cd"),
        (0, {"CUDA_VISIBLE_DEVICES": ""}, "0"),
    ],
)
def test_a_program_sees_the_device_of_its_executor(
    index: int, environment: dict[str, str], visible: str
) -> None:
    assert only(index, environment) == {"CUDA_VISIBLE_DEVICES": visible}


def test_the_order_of_devices_is_the_executors() -> None:
    assert only(1, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1",
    }  # fmt: skip
