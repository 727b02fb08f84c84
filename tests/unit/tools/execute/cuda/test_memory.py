"""Guard bytes, poison and patterns of a buffer; host memory stands where the device's would be."""

import ctypes
from typing import Any

import numpy as np
import pytest

from cuda_harness.tools.execute.cuda.memory import GUARD, Memory, poison


class Ok:
    name = "CUDA_SUCCESS"

    def __int__(self) -> int:
        return 0


class HostMemory:
    """The six calls a buffer makes, on host memory."""

    def __init__(self) -> None:
        self.taken: dict[int, Any] = {}
        self.copies = 0

    def cuMemAlloc(self, size: int) -> tuple[Any, int]:  # noqa: N802 - the driver's name
        block = ctypes.create_string_buffer(size)
        self.taken[ctypes.addressof(block)] = block
        return Ok(), ctypes.addressof(block)

    def cuMemFree(self, address: int) -> tuple[Any]:  # noqa: N802 - the driver's name
        del self.taken[address]
        return (Ok(),)

    def cuMemsetD8(self, address: int, value: int, size: int) -> tuple[Any, None]:  # noqa: N802 - the driver's name
        ctypes.memset(address, value, size)
        return Ok(), None

    def cuMemcpyHtoD(self, to: int, source: int, size: int) -> tuple[Any, None]:  # noqa: N802 - the driver's name
        self.copies += 1
        ctypes.memmove(to, source, size)
        return Ok(), None

    cuMemcpyDtoH = cuMemcpyDtoD = cuMemcpyHtoD  # noqa: N815 - the driver's names


@pytest.mark.parametrize("shift", [0, 256, 1792])
@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (0, None),
        (99, None),
        (100, ("past the end", 0)),
        (107, ("past the end", 7)),
        (-1, ("before the start", 1)),
        (-40, ("before the start", 40)),
    ],
)
def test_a_write_beside_the_buffer_is_found_with_its_distance(
    shift: int, offset: int, found: tuple[str, int] | None
) -> None:
    memory = Memory(HostMemory(), 100, GUARD, shift)
    ctypes.memset(memory.address + offset, 0x11, 1)
    assert memory.guard_fault() == found


def test_what_is_written_comes_back_and_the_guards_stay() -> None:
    driver = HostMemory()
    memory = Memory(driver, 1000, GUARD)
    data = np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8)
    memory.write(data.tobytes())
    assert np.array_equal(memory.read(), data)
    assert memory.guard_fault() is None
    memory.free()
    assert not driver.taken


@pytest.mark.parametrize("size", [0, 1, 7, 4099, 4100, 100_000])
@pytest.mark.parametrize("width", [1, 2, 3, 8, 4099])
def test_a_pattern_is_repeated_on_the_device_in_few_copies(size: int, width: int) -> None:
    driver = HostMemory()
    memory = Memory(driver, size, GUARD)
    pattern = poison(3, 1, width)
    memory.repeat(pattern)
    assert np.array_equal(memory.read(), np.resize(pattern, size))
    assert memory.guard_fault() is None
    assert driver.copies <= 22


def test_empty_buffers_have_an_address_and_guards() -> None:
    memory = Memory(HostMemory(), 0, GUARD)
    memory.write(b"")
    assert memory.read().size == 0
    ctypes.memset(memory.address, 1, 1)
    assert memory.guard_fault() == ("past the end", 0)


def test_without_guards_nothing_is_watched() -> None:
    memory = Memory(HostMemory(), 16, 0)
    assert memory.guard_fault() is None
