"""Timing in the GPU child: interleaved candidates, changed contents, flushed L2, events on our own stream.

Protocol (DESIGN.md "Time"): before each timed call the inputs are copied in from a randomly chosen content set,
outputs and scratch are poisoned and L2 is overwritten, all outside the events; a small kernel then holds the device
until the whole plan is queued. Candidates take turns in random order on buffers at the same addresses; the outputs of
randomly chosen timed calls go back to the parent, which compares them.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from cuda_harness.tools.execute.cuda.faults import Failed, check
from cuda_harness.tools.execute.cuda.lane import Lane, copy_action
from cuda_harness.tools.execute.cuda.memory import Bytes, Memory
from cuda_harness.tools.execute.cuda.sensors import Sensors

_SETTLED = 0.02
"""Warm-up ends when the medians and clocks of two successive windows agree this well."""
_WARM_LEAST_S, _WARM_MOST_S = 0.25, 2.0
_RETURNED_BYTES = 1 << 30
"""Most output bytes sent back; beyond that only hashes."""
_GRAPH_S = 0.004
_GRAPH_REPLAYS = 500
Cache = Literal["cold", "warm"]


class Measurement:
    """All candidates of one session on one device."""

    def __init__(self, header: dict[str, Any], blobs: list[bytes], device: Any) -> None:  # noqa: ANN401 - cuda.core
        from cuda.bindings import driver

        self.driver, self.header, self.device = driver, header, device
        self.rng = np.random.default_rng(header["seed"])
        self.stream = device.create_stream()
        self.sensors = Sensors(str(device.uuid))
        programs = header["programs"]
        pool: dict[Any, Memory] = {}
        self.lanes = [Lane(p, c, device, self.stream, pool) for p, c in zip(programs, blobs, strict=False)]
        rest = blobs[len(programs) :]
        self.hold = _holder(rest.pop(0), self.stream) if header.get("hold") else None
        self.sets = header["sets"]
        self.contents = _contents(driver, programs[0]["inputs"], self.sets, rest)
        self.flush_bytes = 2 * int(device.properties.l2_cache_size)
        self.flush = int(check(driver.cuMemAlloc(max(self.flush_bytes, 1)), "allocating the flush buffer"))
        check(driver.cuCtxSynchronize(), "setting up")
        self.checked: list[list[dict[str, Any]]] = [[] for _ in self.lanes]
        self.blobs: list[list[bytes]] = [[] for _ in self.lanes]
        self.returned = 0
        self._room: dict[int, Bytes] = {}
        self._extra_s = float(header["limit_s"]) / 4
        """Wall seconds each for warm calls and for graph replays."""

    def prepare(self, lane: Lane, chosen: int, *, only_inout: bool = False) -> None:
        """Queue contents and poison for one call, in place."""
        handle = self.stream.handle
        for name, addresses in self.contents.items():
            if only_inout and lane.runner.buffers[name]["role"] != "inout":
                continue
            memory = lane.runner.memory[name]
            copy_action(self.driver, memory.address, addresses[chosen], memory.size, handle)()
        for name, b in lane.runner.buffers.items():
            memory = lane.runner.memory[name]
            if not only_inout and b["role"] in {"out", "scratch"} and memory.size:
                byte = int(self.rng.integers(1, 255))
                check(self.driver.cuMemsetD8Async(memory.address, byte, memory.size, handle), "poisoning")

    def once(self, lane: Lane, cache: Cache, among: list[int] | None = None) -> tuple[float, int]:
        """Return microseconds of one call and the content set it got, drawn from `among` (default: all)."""
        chosen = int(self.rng.choice(among or range(max(1, self.sets))))
        self.prepare(lane, chosen)
        if cache == "cold":
            byte = int(self.rng.integers(255))
            check(
                self.driver.cuMemsetD8Async(self.flush, byte, self.flush_bytes, self.stream.handle),
                "flushing L2",
            )
        else:
            lane.enqueue()  # leaves in L2 what a call just before would leave
            self.prepare(lane, chosen, only_inout=True)
        if lane.host_driven:
            self.stream.sync()
        return lane.timed_us(None if lane.host_driven else self.hold), chosen

    def warm_up(self) -> None:
        """Run until times and clocks of two windows agree; plans of seconds get one call each."""
        began, last = time.monotonic(), (0.0, 0.0)
        while (spent := time.monotonic() - began) < _WARM_MOST_S:
            times: list[float] = []
            for index in range(3 * len(self.lanes)):
                times.append(self.once(self.lanes[index % len(self.lanes)], "cold")[0])
                if index + 1 >= len(self.lanes) and time.monotonic() - began > _WARM_MOST_S:
                    return
            now = (float(np.median(times)), float(self.sensors.read().get("sm_mhz", 1.0)))
            settled = all(abs(a - b) <= _SETTLED * b for a, b in zip(now, last, strict=True))
            if settled and spent >= _WARM_LEAST_S:
                return
            last = now

    def rounds(self) -> list[list[float]]:
        """Time cold calls in rounds, each candidate once a round in random order; fills `samples_us` of the lanes."""
        header, lanes = self.header, self.lanes
        began, examining = time.monotonic(), 0.0
        chosen_rounds = [self._examined_rounds() for _ in lanes]
        count = 0
        while True:
            for index in self.rng.permutation(len(lanes)):
                lane = lanes[int(index)]
                examined = count in chosen_rounds[int(index)]
                sample, chosen = self.once(lane, "cold", header.get("truths") if examined else None)
                lane.samples_us.append(sample)
                if examined:
                    looked = time.monotonic()
                    self._examine(int(index), chosen)
                    examining += time.monotonic() - looked
            self.sensors.sample()
            count += 1
            spent = time.monotonic() - began - examining
            precise = count >= header["least"] and all(
                _half_width(x.samples_us) <= header["precision"] for x in lanes
            )
            if precise or count >= header["most"] or spent > header["limit_s"]:
                return [lane.samples_us for lane in lanes]

    def _examined_rounds(self) -> set[int]:
        """Return two rounds: one of the first three, so that a slow plan is examined as well, and any other."""
        least = int(self.header["least"])
        first = int(self.rng.integers(min(3, least)))
        return {first, (first + 1 + int(self.rng.integers(max(1, least - 1)))) % least}

    def _examine(self, index: int, chosen: int) -> None:
        """Keep the hash of a timed call's outputs, and the bytes unless an equal call of any lane gave the same."""
        digest, views = self.lanes[index].digest(self._room)
        size = sum(v.size for v in views)
        known = [chosen, digest] in self.header.get("known", []) or any(
            c["digest"] == digest and c["set"] == chosen and c["sent"] for lane in self.checked for c in lane
        )
        send = self.header.get("outputs", True) and not known and self.returned + size <= _RETURNED_BYTES
        self.checked[index].append({"set": chosen, "digest": digest, "sent": send})
        if send:
            self.returned += size
            self.blobs[index].extend(v.tobytes() for v in views)

    def warm(self, rounds: int) -> list[list[float]]:
        """Return times with the plan's own data in L2."""
        found: list[list[float]] = [[] for _ in self.lanes]
        until = time.monotonic() + self._extra_s
        for _ in range(rounds):
            for index in self.rng.permutation(len(self.lanes)):
                found[int(index)].append(self.once(self.lanes[int(index)], "warm")[0])
            if time.monotonic() > until:
                break
        return found

    def graphs(self, rounds: int) -> tuple[list[list[float]], list[str]]:
        """Return microseconds per plan of back-to-back replays of a CUDA graph, and why a lane has none."""
        found: list[list[float]] = [[] for _ in self.lanes]
        why = [_no_graph(lane) for lane in self.lanes]
        executables: dict[int, Any] = {}
        until = time.monotonic() + self._extra_s
        for index, lane in enumerate(self.lanes):
            if not why[index]:
                try:
                    executables[index] = _capture(self.driver, lane, self.stream.handle)
                except Failed as exc:
                    why[index] = str(exc)
        for _ in range(rounds):
            for index in self.rng.permutation(len(self.lanes)):
                if int(index) in executables:
                    lane = self.lanes[int(index)]
                    found[int(index)].append(self._replayed_us(lane, executables[int(index)]))
            if time.monotonic() > until:
                break
        return found, why

    def _replayed_us(self, lane: Lane, executable: Any) -> float:  # noqa: ANN401 - CUgraphExec
        single = min(lane.samples_us) if lane.samples_us else 10.0
        replays = int(np.clip(_GRAPH_S * 1e6 / single, 2, _GRAPH_REPLAYS))
        self.prepare(lane, int(self.rng.integers(self.sets)) if self.sets else 0)
        handle = self.stream.handle
        check(self.driver.cuGraphLaunch(executable, handle), "replaying a graph")
        if self.hold is not None:
            self.hold(min(4_000_000, 3_000 * replays))
        self.stream.record(lane.begin)
        for _ in range(replays):
            check(self.driver.cuGraphLaunch(executable, handle), "replaying a graph")
        self.stream.record(lane.end)
        lane.end.sync()
        return float(lane.end - lane.begin) * 1000.0 / replays


def time_job(header: dict[str, Any], blobs: list[bytes], device: Any) -> tuple[dict[str, Any], list[bytes]]:  # noqa: ANN401
    """Return samples per candidate in microseconds (cold; warm and graph where asked), readings, and checked outputs."""
    began = time.monotonic()
    measurement = Measurement(header, blobs, device)
    measurement.warm_up()
    cold = measurement.rounds()
    answer: dict[str, Any] = {
        "status": "ok", "samples_us": cold, "checked": measurement.checked, "clocks": measurement.sensors.readings[:200],
        "enqueue_us": [lane.enqueue_ns / 1000.0 for lane in measurement.lanes],
        "held": measurement.hold is not None,
    }  # fmt: skip
    if header.get("warm"):
        answer["warm_us"] = measurement.warm(int(header["warm"]))
    if header.get("graph"):
        with contextlib.suppress(Failed):  # a graph that cannot run is missing, the times stand
            answer["graph_us"], answer["graph_missing"] = measurement.graphs(int(header["graph"]))
    for lane in measurement.lanes:
        lane.runner.check_guards("the timed calls")
    answer["seconds"] = time.monotonic() - began
    return answer, [blob for lane in measurement.blobs for blob in lane]


def ceilings(device: Any) -> dict[str, Any]:  # noqa: ANN401 - cuda.core Device
    """Return the driver's own copy bandwidth in bytes/s, read plus write, over 1 GiB or a quarter of what is free."""
    from cuda.bindings import driver
    from cuda.core import EventOptions

    free = int(check(driver.cuMemGetInfo(), "asking for free memory")[0])
    size = min(1 << 30, free // 4)
    a, b = (int(check(driver.cuMemAlloc(size), "allocating")) for _ in range(2))
    stream = device.create_stream()
    begin, end = (device.create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    copies = []
    for _ in range(30):
        stream.record(begin)
        check(driver.cuMemcpyDtoDAsync(b, a, size, stream.handle), "copying")
        stream.record(end)
        end.sync()
        copies.append(float(end - begin) / 1000.0)
    for address in (a, b):
        check(driver.cuMemFree(address), "freeing")
    return {"driver_copy_bytes_per_s": 2 * size / float(np.median(copies[5:]))}


def _holder(cubin: bytes, stream: Any) -> Callable[[int], None]:  # noqa: ANN401 - cuda.core Stream
    """Return what keeps the device busy for so many nanoseconds."""
    from cuda.core import LaunchConfig, ObjectCode, launch

    kernel = ObjectCode.from_cubin(cubin).get_kernel("hold")
    config = LaunchConfig(grid=(1, 1, 1), block=(1, 1, 1))
    return lambda ns: launch(stream, config, kernel, np.int64(ns))


def _no_graph(lane: Lane) -> str:
    """Return why a plan is not replayed from a graph; empty when it can be."""
    if lane.host_driven:
        return "the plan has a while loop, whose flag the host reads"
    if any(b["role"] == "inout" for b in lane.runner.buffers.values()):
        return "the plan changes an input in place: replays would not repeat the same work"
    return ""


def _capture(driver: Any, lane: Lane, handle: Any) -> Any:  # noqa: ANN401 - driver objects
    """Return an executable graph of the lane's plan."""
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    check(driver.cuStreamBeginCapture(handle, mode), "beginning a capture")
    try:
        lane.enqueue()
    finally:
        graph = check(driver.cuStreamEndCapture(handle), "ending a capture")
    return check(driver.cuGraphInstantiate(graph, 0), "instantiating a graph")


def _contents(driver: Any, names: list[str], sets: int, blobs: list[bytes]) -> dict[str, list[int]]:  # noqa: ANN401
    """Put every content set on the device once; returns addresses by input and set."""
    found: dict[str, list[int]] = {name: [] for name in names} if sets else {}
    for index in range(sets):
        for position, name in enumerate(names):
            data = np.frombuffer(blobs[index * len(names) + position], dtype=np.uint8)
            address = int(check(driver.cuMemAlloc(max(data.size, 1)), "allocating a content set"))
            if data.size:
                check(driver.cuMemcpyHtoD(address, data.ctypes.data, data.size), "copying a content set")
            found[name].append(address)
    return found


def _half_width(samples: list[float]) -> float:
    """Return a quick relative half width of the median's 95 % interval: 1.57 IQR / sqrt(n) (McGill et al. 1978)."""
    quarter, median, three = np.percentile(samples, (25, 50, 75))
    return float(1.57 * (three - quarter) / np.sqrt(len(samples)) / median) if median > 0 else float("inf")
