"""Timing in the GPU child: interleaved candidates, changed contents, flushed L2, events on our own stream.

Protocol (DESIGN.md "Time"): before each timed call the inputs are copied in from a randomly chosen content set,
outputs are poisoned and L2 is overwritten, all outside the events; candidates take turns in random order; the
outputs of randomly chosen timed calls go back to the parent, which compares them.
"""

import contextlib
import time
from typing import Any

import numpy as np

from cuda_harness.tools.execute.cuda.child import Runner, check

_SETTLED = 0.02
"""Warm-up ends when medians of two successive windows agree this well, or after `_WARM_S`."""
_WARM_S = 1.5
_CHECKED = 2
"""Timed calls per candidate whose outputs are returned."""


class Lane:
    """One candidate: its runner, and the events around its plan."""

    def __init__(self, header: dict[str, Any], cubin: bytes, device: Any, stream: Any) -> None:  # noqa: ANN401
        from cuda.core import EventOptions

        self.runner = Runner(header, cubin, device)
        self.runner.stream = stream
        self.stream = stream
        self.begin, self.end = (device.create_event(EventOptions(timing_enabled=True)) for _ in range(2))
        self.samples_us: list[float] = []
        self.checked: list[dict[str, Any]] = []
        self.blobs: list[bytes] = []

    def timed_us(self) -> float:
        """Run the plan once between two events and return microseconds."""
        self.stream.record(self.begin)
        for op in self.runner.header["ops"]:
            self._enqueue(op)
        self.stream.record(self.end)
        self.end.sync()
        return float(self.end - self.begin) * 1000.0

    def _enqueue(self, op: dict[str, Any]) -> None:
        """Queue one operation without waiting; only `while` must look at its flag."""
        from cuda.core import LaunchConfig, launch

        runner, driver, handle = self.runner, self.runner.driver, self.stream.handle
        kind = op["op"]
        if kind == "launch":
            grid, cluster = tuple(op["grid"]), tuple(op["cluster"]) if op["cluster"] else None
            if cluster:
                grid = tuple(g // c for g, c in zip(grid, cluster, strict=True))
            config = LaunchConfig(
                grid=grid, block=tuple(op["block"]), shmem_size=op["shared"], cluster=cluster,
                is_cooperative=op["cooperative"],
            )  # fmt: skip
            launch(
                self.stream, config, runner.kernels[op["kernel"]], *[runner.argument(a) for a in op["args"]]
            )
        elif kind == "fill":
            _fill(driver, runner.memory[op["buffer"]], bytes.fromhex(op["pattern"]), handle)
        elif kind == "copy":
            source, target = runner.memory[op["from"]], runner.memory[op["to"]]
            check(
                driver.cuMemcpyDtoDAsync(target.address, source.address, source.size, handle),
                "copying a buffer",
            )
        elif kind == "symbol":
            address, _ = check(
                driver.cuLibraryGetGlobal(runner.code.handle, op["symbol"].encode()), "finding a symbol"
            )
            source = runner.memory[op["from"]]
            check(
                driver.cuMemcpyDtoDAsync(int(address), source.address, source.size, handle),
                "filling a symbol",
            )
        else:
            runner.loop(op)


def _fill(driver: Any, memory: Any, pattern: bytes, handle: Any) -> None:  # noqa: ANN401 - driver objects
    width = len(pattern)
    if len(set(pattern)) == 1:
        check(driver.cuMemsetD8Async(memory.address, pattern[0], memory.size, handle), "filling a buffer")
    elif width in {2, 4}:
        setter = driver.cuMemsetD16Async if width == 2 else driver.cuMemsetD32Async
        check(
            setter(memory.address, int.from_bytes(pattern, "little"), memory.size // width, handle),
            "filling a buffer",
        )
    else:
        memory.write(np.resize(np.frombuffer(pattern, dtype=np.uint8), memory.size))


def time_job(header: dict[str, Any], blobs: list[bytes], device: Any) -> tuple[dict[str, Any], list[bytes]]:  # noqa: ANN401
    """Return samples per candidate in microseconds, clocks, and the outputs of checked calls."""
    from cuda.bindings import driver

    rng = np.random.default_rng(header["seed"])
    stream = device.create_stream()
    programs, sets = header["programs"], header["sets"]
    lanes = [Lane(p, cubin, device, stream) for p, cubin in zip(programs, blobs, strict=False)]
    contents = _contents(driver, programs[0]["inputs"], sets, blobs[len(programs) :])
    flush_bytes = 2 * int(device.properties.l2_cache_size)
    flush = int(check(driver.cuMemAlloc(max(flush_bytes, 1)), "allocating the flush buffer"))
    clocks: list[dict[str, Any]] = []
    cold = bool(header.get("cold", True))

    def once(lane: Lane) -> tuple[float, int]:
        chosen = int(rng.integers(sets))
        for name, addresses in contents.items():
            memory = lane.runner.memory[name]
            check(
                driver.cuMemcpyDtoDAsync(memory.address, addresses[chosen], memory.size, stream.handle),
                "setting inputs",
            )
        for name, b in lane.runner.buffers.items():
            if b["role"] in {"out", "scratch"} and lane.runner.memory[name].size:
                memory = lane.runner.memory[name]
                check(
                    driver.cuMemsetD8Async(
                        memory.address, int(rng.integers(1, 255)), memory.size, stream.handle
                    ),
                    "poisoning",
                )
        if cold:
            check(
                driver.cuMemsetD8Async(flush, int(rng.integers(255)), flush_bytes, stream.handle),
                "flushing L2",
            )
        stream.sync()
        return lane.timed_us(), chosen

    _warm_up(lanes, once)
    began = time.monotonic()
    while True:
        for index in rng.permutation(len(lanes)):
            lane = lanes[int(index)]
            sample, chosen = once(lane)
            lane.samples_us.append(sample)
            if len(lane.checked) < _CHECKED and (len(lane.samples_us) == 1 or rng.random() < 0.1):
                lane.checked.append({"set": chosen})
                for b in programs[int(index)]["buffers"]:
                    if b["role"] in {"out", "inout"}:
                        lane.blobs.append(lane.runner.memory[b["name"]].read().tobytes())
        clocks.append(_clock(device))
        count = len(lanes[0].samples_us)
        spent = time.monotonic() - began
        precise = count >= header["least"] and all(
            _half_width(x.samples_us) <= header["precision"] for x in lanes
        )
        if precise or count >= header["most"] or spent > header["limit_s"]:
            break
    for lane in lanes:
        lane.runner.check_guards("the timed calls")
    answer = {
        "status": "ok",
        "samples_us": [lane.samples_us for lane in lanes],
        "checked": [lane.checked for lane in lanes],
        "clocks": clocks[:: max(1, len(clocks) // 50)],
        "seconds": time.monotonic() - began,
    }
    return answer, [blob for lane in lanes for blob in lane.blobs]


def ceilings(device: Any) -> dict[str, Any]:  # noqa: ANN401 - cuda.core Device
    """Return measured limits of the device: copy bandwidth in bytes/s (read plus write), launch latency in us."""
    from cuda.bindings import driver
    from cuda.core import EventOptions

    size = 1 << 30
    a, b = (int(check(driver.cuMemAlloc(size), "allocating 1 GiB")) for _ in range(2))
    stream = device.create_stream()
    begin, end = (device.create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    copies = []
    for _ in range(12):
        stream.record(begin)
        check(driver.cuMemcpyDtoDAsync(b, a, size, stream.handle), "copying")
        stream.record(end)
        end.sync()
        copies.append(float(end - begin) / 1000.0)
    empty = []
    for _ in range(60):
        stream.record(begin)
        check(driver.cuMemsetD8Async(a, 0, 4, stream.handle), "a tiny operation")
        stream.record(end)
        end.sync()
        empty.append(float(end - begin) * 1000.0)
    for address in (a, b):
        check(driver.cuMemFree(address), "freeing")
    return {
        "bandwidth_bytes_per_s": 2 * size / float(np.median(copies[2:])),
        "launch_us": float(np.median(empty[10:])),
    }


def _contents(driver: Any, names: list[str], sets: int, blobs: list[bytes]) -> dict[str, list[int]]:  # noqa: ANN401
    """Put every content set on the device once; returns addresses by input and set."""
    found: dict[str, list[int]] = {name: [] for name in names}
    for index in range(sets):
        for position, name in enumerate(names):
            data = np.frombuffer(blobs[index * len(names) + position], dtype=np.uint8)
            address = int(check(driver.cuMemAlloc(max(data.size, 1)), "allocating a content set"))
            if data.size:
                check(driver.cuMemcpyHtoD(address, data.ctypes.data, data.size), "copying a content set")
            found[name].append(address)
    return found


def _warm_up(lanes: list[Lane], once: Any) -> None:  # noqa: ANN401 - the closure above
    """Run until two windows agree, so that clocks have settled."""
    began, last = time.monotonic(), None
    while time.monotonic() - began < _WARM_S:
        window = float(np.median([once(lane)[0] for _ in range(5) for lane in lanes]))
        if last is not None and abs(window - last) <= _SETTLED * last:
            return
        last = window


def _half_width(samples: list[float]) -> float:
    """Return a quick relative half width of the median's 95 % interval: 1.57 IQR / sqrt(n) (McGill et al. 1978)."""
    quarter, median, three = np.percentile(samples, (25, 50, 75))
    return float(1.57 * (three - quarter) / np.sqrt(len(samples)) / median) if median > 0 else float("inf")


def _clock(device: Any) -> dict[str, Any]:  # noqa: ANN401 - cuda.core Device
    """Return SM clock, temperature, power and throttle reasons; absent where NVML does not tell."""
    found: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        from cuda.bindings import nvml

        nvml.init_v2()
        handle = nvml.device_get_handle_by_uuid("GPU-" + str(device.uuid).removeprefix("GPU-"))
        found["sm_mhz"] = int(nvml.device_get_clock_info(handle, nvml.ClockType.CLOCK_SM))
        found["temperature_c"] = int(
            nvml.device_get_temperature_v(handle, nvml.TemperatureSensors.TEMPERATURE_GPU)
        )
        found["throttle"] = int(nvml.device_get_current_clocks_event_reasons(handle))
    return found
