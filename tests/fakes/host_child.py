"""The GPU child's own loop on the machine of `host_machine`: it takes the arguments of the real one; kernels are the functions below."""

import sys
import time
from typing import Any

import numpy as np
import pytest
from tests.fakes.host_machine import Bad, Machine, floats
from tests.fakes.recording_driver import OK

from cuda_harness.tools.execute.cuda import child

MACHINE = Machine()


def twice(y: int, x: int) -> None:
    floats(y)[:] = 2 * floats(x)
    MACHINE.sync_result = OK


def stray(y: int, x: int) -> None:
    twice(y, x)
    floats(y + 4 * 64, 1)[0] = 1.0


def sticky(_y: int, _x: int) -> None:
    MACHINE.sync_result = Bad("CUDA_ERROR_ILLEGAL_ADDRESS")


def endless(_y: int, _x: int) -> None:
    time.sleep(600)


def probe(x: int) -> None:
    floats(x)[:] = (np.arange(64, dtype=np.uint64) * 2654435761).astype(np.uint32).view(np.float32)


def facts(_device: Any) -> dict[str, Any]:
    return {
        "name": "host memory", "uuid": str(MACHINE.uuid), "arch": "sm_90a", "num_sms": 4, "max_threads_per_block": 1024,
        "max_block": [1024, 1024, 64], "max_grid": [2**31 - 1, 65535, 65535], "shared_bytes_optin": 232448,
        "registers_per_block": 65536, "l2_bytes": 4096, "free_bytes": 1 << 33, "memory_bytes": 1 << 34, "driver_cuda": 13000,
    }  # fmt: skip


def main() -> None:
    patch = pytest.MonkeyPatch()
    MACHINE.install(patch)
    MACHINE.bodies = {f.__name__: f for f in (twice, stray, sticky, endless, probe)}
    patch.setattr(child, "open_device", lambda _index: MACHINE)
    patch.setattr(child, "device_facts", facts)
    child.main(sys.argv[1:])


if __name__ == "__main__":
    main()
