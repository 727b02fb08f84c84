"""Launch limits as arithmetic, on an H100-like device."""

from dataclasses import replace
from typing import Any

import pytest

from cuda_harness.tools.execute.cuda.limits import (
    DeviceLimits,
    KernelLimits,
    refuse,
    refuse_cluster,
    refuse_cooperative,
)

DEVICE = DeviceLimits(
    max_threads_per_block=1024, max_block=(1024, 1024, 64), max_grid=(2**31 - 1, 65_535, 65_535), shared_bytes_optin=232_448,
    registers_per_block=65_536, num_sms=132, has_clusters=True,
)  # fmt: skip
KERNEL = KernelLimits("k", registers=32, static_shared_bytes=0, max_threads=1024)
LAUNCH: dict[str, Any] = {"grid": (1, 1, 1), "block": (256, 1, 1), "shared_bytes": 0, "cluster": None}


def told(kernel: KernelLimits = KERNEL, device: DeviceLimits = DEVICE, **changes: Any) -> str | None:
    return refuse(kernel, device, **{**LAUNCH, **changes})


def test_a_usual_launch_is_not_refused() -> None:
    assert told() is None
    assert told(block=(1024, 1, 1), grid=(2**31 - 1, 65_535, 65_535), shared_bytes=232_448) is None


def test_registers_are_explained_as_in_the_design() -> None:
    heavy = replace(KERNEL, registers=168, max_threads=384)
    assert told(heavy, block=(1024, 1, 1)) == (
        "k needs 168 x 1024 = 172032 registers > 65536; use a block of at most 384 or __launch_bounds__"
    )
    assert told(heavy, block=(384, 1, 1)) is None


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"block": (1, 1, 65)}, "block.z is 65; at most 64"),
        ({"block": (32, 64, 1)}, "32 x 64 x 1 = 2048 threads; at most 1024"),
        ({"grid": (1, 65_536, 1)}, "grid.y is 65536; at most 65535"),
        ({"shared_bytes": 232_449}, "232449 of dynamic and 0 of static"),
        ({"grid": (6, 1, 1), "cluster": (4, 1, 1)}, "grid.x is 6, not a multiple of cluster.x = 4"),
    ],
)
def test_each_limit_is_named(changes: dict[str, Any], part: str) -> None:
    message = told(**changes)
    assert message is not None
    assert part.replace(" of dynamic", " bytes of dynamic") in message or part in message


def test_launch_bounds_and_static_shared_memory_count() -> None:
    assert "at most 128 threads" in str(told(replace(KERNEL, max_threads=128)))
    message = str(told(replace(KERNEL, static_shared_bytes=4096), shared_bytes=232_448))
    assert "= 236544 bytes; this device allows 232448" in message


def test_clusters_need_a_device_that_has_them() -> None:
    assert "no thread block clusters" in str(told(device=replace(DEVICE, has_clusters=False), cluster=(1, 1, 1)))  # fmt: skip
    assert told(grid=(8, 2, 1), cluster=(4, 2, 1)) is None
    assert refuse_cluster(KERNEL, (8, 2, 1), most=16) is None
    assert "8 x 4 x 1 = 32 blocks; this kernel can have at most 16" in str(refuse_cluster(KERNEL, (8, 4, 1), most=16))  # fmt: skip


def test_cooperative_launches_fit_at_once() -> None:
    assert refuse_cooperative(KERNEL, DEVICE, grid=(264, 1, 1), per_sm=2) is None
    message = str(refuse_cooperative(KERNEL, DEVICE, grid=(265, 1, 1), per_sm=2))
    assert "265 blocks; 132 multiprocessors x 2 blocks = 264" in message
