"""Buffers on the device: guard bytes on both sides, poison inside, a plan of bytes before anything is taken."""

from typing import Any

import numpy as np

from cuda_harness.tools.execute.cuda.faults import Failed, check

GUARD = 4096
"""Guard bytes on both sides of every buffer; a multiple of every alignment a kernel may rely on."""
_GUARD_BYTE = 0xC3
_GRAIN = 512
"""The driver rounds allocations up to this."""
SPARE_BYTES = 256 << 20
"""Left free for stacks, printf buffers and the modules of kernels."""
_TILE = 4099
"""Bytes of the poison pattern: a prime, so that no power-of-two stride sees it repeat."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def poison(seed: int, index: int, size: int) -> Bytes:
    """Return `size` bytes that no kernel writes by chance: a tile of random bytes, repeated."""
    tile = np.random.default_rng([seed, index]).integers(0, 256, _TILE, dtype=np.uint8)
    return np.resize(tile, size)


def planned_bytes(sizes: list[int], *, guard: int) -> int:
    """Return the device bytes that buffers of these sizes take with their guards and the driver's rounding."""
    return sum(-(-max(1, s + 2 * guard) // _GRAIN) * _GRAIN for s in sizes)


def require_room(sizes: dict[str, int], *, guard: int, free: int) -> None:
    """Pass when the buffers fit the free bytes, else raise `Failed` with the arithmetic.

    Args:
        sizes: Bytes of each buffer by name.
        guard: Guard bytes on each side.
        free: Bytes that the driver calls free now.
    """
    needed = planned_bytes(list(sizes.values()), guard=guard)
    usable = max(0, free - SPARE_BYTES)
    if needed <= usable:
        return
    largest = sorted(sizes, key=lambda n: -sizes[n])[:3]
    told = ", ".join(f"{n} {sizes[n] / 2**20:.0f} MiB" for n in largest)
    raise Failed({
        "status": "not_run", "reason": "resources",
        "message": f"the buffers need {needed / 2**20:.0f} MiB (largest: {told}), {usable / 2**20:.0f} MiB are usable of {free / 2**20:.0f} MiB free",
        "evidence": {"needed_bytes": needed, "usable_bytes": usable, "free_bytes": free},
    })  # fmt: skip


class Memory:
    """One buffer with guard bytes around it."""

    def __init__(self, driver: Any, size: int, guard: int, shift: int = 0) -> None:  # noqa: ANN401 - the driver module
        self.driver, self.size, self.guard = driver, size, guard
        self.before, self.after = guard + shift, guard
        total = size + self.before + self.after
        self.base = int(check(driver.cuMemAlloc(max(total, 1)), f"allocating {size} bytes"))
        self.address = self.base + self.before
        if guard:
            check(driver.cuMemsetD8(self.base, _GUARD_BYTE, self.before), "setting guard bytes")
            check(driver.cuMemsetD8(self.address + size, _GUARD_BYTE, self.after), "setting guard bytes")

    def write(self, data: Any) -> None:  # noqa: ANN401 - bytes or an array of bytes
        """Copy host bytes onto the buffer."""
        if self.size:
            host = np.frombuffer(data, dtype=np.uint8)
            check(
                self.driver.cuMemcpyHtoD(self.address, host.ctypes.data, self.size), "copying to the device"
            )

    def read(self) -> Bytes:
        """Return the buffer's bytes."""
        host = np.empty(self.size, dtype=np.uint8)
        self.read_into(host)
        return host

    def read_into(self, host: Bytes) -> None:
        """Copy the buffer onto host memory of its size."""
        if self.size:
            check(
                self.driver.cuMemcpyDtoH(host.ctypes.data, self.address, self.size), "copying from the device"
            )

    def repeat(self, pattern: Bytes) -> None:
        """Fill the buffer with a pattern, on the device: one copy of it, then doubled."""
        done = min(pattern.size, self.size)
        if not done:
            return
        check(self.driver.cuMemcpyHtoD(self.address, pattern.ctypes.data, done), "copying to the device")
        while done < self.size:
            step = min(done, self.size - done)
            check(self.driver.cuMemcpyDtoD(self.address + done, self.address, step), "filling a buffer")
            done += step

    def guard_fault(self) -> tuple[str, int] | None:
        """Return side and distance in bytes of the guard byte nearest to the buffer that was written."""
        sides = (
            ("past the end", self.address + self.size, self.after),
            ("before the start", self.base, self.before),
        )
        for side, address, size in sides:
            if not size:
                continue
            host = np.empty(size, dtype=np.uint8)
            check(self.driver.cuMemcpyDtoH(host.ctypes.data, address, size), "reading guards")
            changed = np.flatnonzero(host != _GUARD_BYTE)
            if changed.size:
                return side, int(changed[0]) if side == "past the end" else int(size - changed[-1])
        return None

    def free(self) -> None:
        """Give the buffer back; a context that is gone frees it by itself."""
        self.driver.cuMemFree(self.base)
