"""One candidate of a timing session: its plan as queued operations on one stream, between two events."""

import hashlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cuda_harness.tools.execute.cuda.faults import Failed, check, fault
from cuda_harness.tools.execute.cuda.kernels import config_of
from cuda_harness.tools.execute.cuda.memory import GUARD, Bytes, Memory, require_room
from cuda_harness.tools.execute.cuda.runner import Runner
from cuda_harness.tools.execute.dtypes import np_dtype

Action = Callable[[], None]
_MAX_HOLD_NS = 4_000_000


class SharingRunner(Runner):
    """A runner that takes buffers of others, and allocates only what none of them has."""

    def __init__(self, header: dict[str, Any], cubin: bytes, device: Any, pool: dict[Any, Memory]) -> None:  # noqa: ANN401 - cuda.core Device
        self._pool = pool
        super().__init__(header, cubin, device)

    def _allocate(self) -> None:
        """Take buffers of equal role, name and size from the pool; the rest must fit what is free."""
        keys = {
            n: (b["role"], n, b["count"] * np_dtype(b["dtype"]).itemsize) for n, b in self.buffers.items()
        }
        missing = {n: key[2] for n, key in keys.items() if key not in self._pool}
        free, _ = check(self.driver.cuMemGetInfo(), "asking for free memory")
        require_room(missing, guard=2 * GUARD, free=int(free))
        for name, size in missing.items():
            self._pool[keys[name]] = Memory(self.driver, size, GUARD)
        self.memory = {n: self._pool[key] for n, key in keys.items()}


class Lane:
    """Runs its plan without waiting in between, so that the time between the events is the device's."""

    def __init__(
        self, header: dict[str, Any], cubin: bytes, device: Any, stream: Any, pool: dict[Any, Memory]  # noqa: ANN401 - cuda.core
    ) -> None:  # fmt: skip
        """Load the candidate.

        Args:
            header: The program as the parent encodes it.
            cubin: Compiled code.
            device: cuda.core Device.
            stream: The stream all lanes share.
            pool: Buffers by role, name and size: lanes share equal ones, so that addresses make no difference.
        """
        from cuda.core import EventOptions

        self.runner = SharingRunner(header, cubin, device, pool)
        self.runner.stream = stream
        self.stream, self.header = stream, header
        options = EventOptions(timing_enabled=True)
        self.begin, self.end = device.create_event(options), device.create_event(options)
        self.host_driven = any(op["op"] == "while" for op in header["ops"])
        """A `while` reads its flag on the host: no graph can hold the plan, and its gaps are part of its time."""
        self.actions: list[Action] = [self._action(op) for op in header["ops"]]
        self.enqueue_ns = 0
        self.samples_us: list[float] = []

    @property
    def outputs(self) -> list[str]:
        """Names of the buffers that are compared, in plan order."""
        return [b["name"] for b in self.header["buffers"] if b["role"] in {"out", "inout"}]

    def enqueue(self) -> None:
        """Queue the whole plan."""
        for action in self.actions:
            action()

    def timed_us(self, hold: Callable[[int], None] | None) -> float:
        """Return microseconds of one run.

        `hold(ns)` keeps the device busy first, so that the plan is queued by the time it may start.
        """
        if hold is not None:
            hold(min(_MAX_HOLD_NS, self.enqueue_ns * 3 // 2 + 10_000))
        began = time.perf_counter_ns()
        self.stream.record(self.begin)
        self.enqueue()
        self.stream.record(self.end)
        spent = time.perf_counter_ns() - began
        self.enqueue_ns = spent if not self.enqueue_ns else (self.enqueue_ns * 3 + spent) // 4
        self.end.sync()
        return float(self.end - self.begin) * 1000.0

    def digest(self, room: dict[int, Bytes]) -> tuple[str, list[Bytes]]:
        """Return the hash of all outputs and their bytes, which stay until the next call with the same room.

        Args:
            room: Host memory by place and size, used again: new pages cost more than the copy.
        """
        found = hashlib.sha256()
        views = []
        for place, name in enumerate(self.outputs):
            memory = self.runner.memory[name]
            host = room.get(place)
            if host is None or host.size != memory.size:
                host = room[place] = np.empty(memory.size, dtype=np.uint8)
            memory.read_into(host)
            found.update(host.data)
            views.append(host)
        return found.hexdigest()[:32], views

    # ---- operations ----
    def _action(self, op: dict[str, Any]) -> Action:
        """Return what queues one operation; all that can be looked up before is."""
        runner, driver, handle = self.runner, self.runner.driver, self.stream.handle
        kind = op["op"]
        if kind == "launch":
            return self._launch(op)
        if kind == "fill":
            return fill_action(driver, runner.memory[op["buffer"]], bytes.fromhex(op["pattern"]), handle)
        if kind == "copy":
            source, target = runner.memory[op["from"]], runner.memory[op["to"]]
            return copy_action(driver, target.address, source.address, source.size, handle)
        if kind == "symbol":
            name = op["symbol"].encode()
            address, size = check(driver.cuLibraryGetGlobal(runner.code.handle, name), "finding a symbol")
            source = runner.memory[op["from"]]
            if source.size > size:
                message = f"symbol {op['symbol']!r} holds {size} bytes, {op['from']!r} has {source.size}"
                raise Failed(fault("launch_config", message))
            return copy_action(driver, int(address), source.address, source.size, handle)
        return self._loop(op)

    def _launch(self, op: dict[str, Any]) -> Action:
        from cuda.core import launch

        kernel = self.runner.kernels[op["kernel"]]
        self.runner.prepare(op)
        config = config_of(op)
        args = [self.runner.argument(a) for a in op["args"]]
        stream = self.stream
        return lambda: launch(stream, config, kernel, *args)

    def _loop(self, op: dict[str, Any]) -> Action:
        """Return a loop that waits for the stream before each look at its flag."""
        flag = self.runner.memory[op["flag"]]
        item = flag.size // max(1, self.runner.buffers[op["flag"]]["count"])
        body = [self._action(inner) for inner in op["body"]]

        def run() -> None:
            for _ in range(op["limit"]):
                self.stream.sync()
                if not flag.read()[:item].any():
                    return
                for action in body:
                    action()

        return run


def copy_action(driver: Any, target: int, source: int, size: int, handle: Any) -> Action:  # noqa: ANN401 - driver
    """Return what queues a copy on the device."""
    if not size:
        return lambda: None
    return lambda: check(driver.cuMemcpyDtoDAsync(target, source, size, handle), "copying a buffer")


def fill_action(driver: Any, memory: Memory, pattern: bytes, handle: Any) -> Action:  # noqa: ANN401 - driver objects
    """Return what sets every element of a buffer to `pattern`, in stream order for every width."""
    width, size, address = len(pattern), memory.size, memory.address
    if not size:
        return lambda: None
    if len(set(pattern)) == 1:
        return lambda: check(driver.cuMemsetD8Async(address, pattern[0], size, handle), "filling a buffer")
    word = int.from_bytes(pattern[:4], "little")
    if width == 2:
        return lambda: check(driver.cuMemsetD16Async(address, word, size // 2, handle), "filling a buffer")
    if width == 4 or pattern[:4] == pattern[4:]:
        return lambda: check(driver.cuMemsetD32Async(address, word, size // 4, handle), "filling a buffer")
    high = int.from_bytes(pattern[4:8], "little")

    def halves() -> None:
        """Set low and high words in two strided passes."""
        for offset, value in ((0, word), (4, high)):
            check(
                driver.cuMemsetD2D32Async(address + offset, 8, value, 1, size // 8, handle),
                "filling a buffer",
            )

    return halves
