"""Hardware counters through CUPTI's range profiler, for machines without Nsight Compute. Runs in a GPU child.

Every launch is a range of its own. More counters are wanted than the device counts at once, so the whole plan runs
again for each pass on the same contents. Before each launch a kernel of ours reads twice the size of L2: caches are
cold in every pass, and hold nothing that has yet to be written.
Structures and calls: NVIDIA's headers cupti_range_profiler.h, cupti_profiler_host.h and cupti_profiler_target.h.
"""

import contextlib
import ctypes
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuda_harness.tools.execute.cuda.faults import check
from cuda_harness.tools.execute.cuda.kernels import Modules, attribute
from cuda_harness.tools.execute.cuda.runner import Runner

_RANGE_PROFILER, _AUTO_RANGE, _USER_REPLAY = 0, 1, 3
_MOST_PASSES = 64
_PARTS, _LEAST_REGISTERS = 4, 16
"""Parts of a multiprocessor, and registers that a thread has at least."""
_VECTOR = 16
"""Bytes of one vector access."""
_WORDS = {
    26: "another profiler or monitor holds the counters",
    35: "counters are forbidden to this user; the administrator allows them (NVreg_RestrictProfilingToAdminUsers=0)",
    40: "counters are forbidden on this virtual GPU",
    41: "counters are not to be had while the GPU computes in confidence",
    43: "CUPTI does not count on a MIG slice",
    45: "CUPTI does not count under WSL",
}
"""CUptiResult -> what it means to the user."""
_LIBRARIES = ("libnvperf_host.so", "libnvperf_target.so")
"""What CUPTI opens by name, from a folder that the loader need not know."""


class Refused(Exception):  # noqa: N818 - why there are no counters, which is nobody's error
    """CUPTI does not count here."""


class _Enough(Exception):  # noqa: N818 - ends a pass whose launches are all counted
    """What follows in the plan is not counted."""


def _params(name: str, **fields: Any) -> type[ctypes.Structure]:  # noqa: ANN401 - ctypes types
    """Return the structure of a call's parameters; all of CUPTI's begin alike."""
    head = [("structSize", ctypes.c_size_t), ("pPriv", ctypes.c_void_p)]
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *fields.items()]})


_P, _SIZE, _TEXT, _INT, _U16 = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_uint16,
)
_FIELDS: dict[str, dict[str, Any]] = {
    "ProfilerInitialize": {},
    "DeviceGetChipName": {"device": _SIZE, "chip": _TEXT},
    "ProfilerGetCounterAvailability": {"context": _P, "size": _SIZE, "image": _P},
    "ProfilerHostInitialize": {"type": _INT, "chip": _TEXT, "availability": _P, "host": _P},
    "ProfilerHostDeinitialize": {"host": _P},
    "ProfilerHostConfigAddMetrics": {"host": _P, "names": _P, "count": _SIZE},
    "ProfilerHostGetConfigImageSize": {"host": _P, "size": _SIZE},
    "ProfilerHostGetConfigImage": {"host": _P, "size": _SIZE, "image": _P},
    "ProfilerHostGetNumOfPasses": {"size": _SIZE, "image": _P, "passes": _SIZE},
    "ProfilerHostEvaluateToGpuValues": {
        "host": _P, "data": _P, "size": _SIZE, "range": _SIZE, "names": _P, "count": _SIZE, "values": _P,
    },
    "RangeProfilerEnable": {"context": _P, "profiler": _P},
    "RangeProfilerGetCounterDataSize": {
        "profiler": _P, "names": _P, "count": _SIZE, "ranges": _SIZE, "nodes": ctypes.c_uint32, "size": _SIZE,
    },
    "RangeProfilerCounterDataImageInitialize": {"profiler": _P, "size": _SIZE, "data": _P},
    "RangeProfilerSetConfig": {
        "profiler": _P, "config_size": _SIZE, "config": _P, "data_size": _SIZE, "data": _P, "range_mode": _INT,
        "replay_mode": _INT, "ranges_per_pass": _SIZE, "nesting_levels": _U16, "first_level": _U16, "pass_index": _SIZE,
        "target_level": _U16,
    },
    "RangeProfilerStart": {"profiler": _P},
    "RangeProfilerStop": {"profiler": _P, "pass_index": _SIZE, "target_level": _SIZE, "is_complete": ctypes.c_uint8},
    "RangeProfilerDecodeData": {"profiler": _P, "dropped": _SIZE},
    "RangeProfilerGetCounterDataInfo": {"data": _P, "size": _SIZE, "ranges": _SIZE},
}  # fmt: skip
"""Function without its prefix -> what its parameters have beyond the head, in the headers' order."""
_PARAMS = {name: _params(name, **fields) for name, fields in _FIELDS.items()}


class Cupti:
    """The library, with errors as `Refused`."""

    def __init__(self, library: Any = None) -> None:  # noqa: ANN401 - a ctypes library
        """Load CUPTI from the packages or the toolkit, unless it is given.

        Raises:
            Refused: If it is not installed.
        """
        self._library = library or _load()

    def call(self, function: str, **given: Any) -> Any:  # noqa: ANN401 - ctypes values
        """Call `cupti...` with these parameters and return their structure, which holds the answers too."""
        params: Any = _PARAMS[function](**given)
        last = getattr(type(params), type(params)._fields_[-1][0])
        params.structSize = last.offset + last.size
        code = int(getattr(self._library, f"cupti{function}")(ctypes.byref(params)))
        if code:
            raise Refused(_WORDS.get(code, f"CUPTI's {function} ended with {code}"))
        return params


def _load() -> ctypes.CDLL:
    from cuda import pathfinder

    try:
        path = pathfinder.load_nvidia_dynamic_lib("cupti").abs_path
    except Exception as exc:  # its classes of errors are not alike between releases
        msg = "CUPTI is not installed (package nvidia-cuda-cupti, or the CUDA toolkit)"
        raise Refused(msg) from exc
    if path is None:
        msg = "CUPTI was loaded by another part of this process, from an unknown place"
        raise Refused(msg)
    for name in _LIBRARIES:
        with contextlib.suppress(OSError):  # a toolkit may have them where the loader finds them
            ctypes.CDLL(str(Path(path).with_name(name)), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(path)
    if not hasattr(library, "cuptiRangeProfilerEnable"):
        msg = "this CUPTI has no range profiler; that of CUDA 12.6 and later has"
        raise Refused(msg)
    return library


class Plan:
    """Which counters are counted on a chip, and in how many passes."""

    def __init__(self, cupti: Cupti, chip: bytes, metrics: Sequence[str], availability: Any = None) -> None:  # noqa: ANN401 - ctypes buffer
        """Find out what the chip knows of the metrics.

        Raises:
            Refused: If that is none of them, or more passes than are worth it.
        """
        self._cupti, self._chip, self._availability = cupti, chip, availability
        self.metrics = list(metrics)
        try:
            self.host, self.image = self._image(self.metrics)
        except Refused:
            # One unknown name spoils the configuration: each is tried alone.
            self.metrics = [m for m in metrics if self._is_known(m)]
            if not self.metrics:
                raise
            self.host, self.image = self._image(self.metrics)
        size = len(self.image)
        self.passes = int(
            cupti.call("ProfilerHostGetNumOfPasses", size=size, image=_address(self.image)).passes
        )
        if self.passes > _MOST_PASSES:
            msg = f"the counters need {self.passes} passes"
            raise Refused(msg)
        self.names = (ctypes.c_char_p * len(self.metrics))(*[m.encode() for m in self.metrics])

    def _image(self, metrics: Sequence[str]) -> tuple[int, Any]:
        made = self._cupti.call(
            "ProfilerHostInitialize", type=_RANGE_PROFILER, chip=self._chip, availability=_address(self._availability)
        )  # fmt: skip
        names = (ctypes.c_char_p * len(metrics))(*[m.encode() for m in metrics])
        try:
            self._cupti.call(
                "ProfilerHostConfigAddMetrics", host=made.host, names=_address(names), count=len(metrics)
            )
            size = self._cupti.call("ProfilerHostGetConfigImageSize", host=made.host).size
            image = (ctypes.c_uint8 * size)()
            self._cupti.call("ProfilerHostGetConfigImage", host=made.host, size=size, image=_address(image))
        except Refused:
            self._cupti.call("ProfilerHostDeinitialize", host=made.host)
            raise
        return made.host, image

    def _is_known(self, metric: str) -> bool:
        try:
            host, _ = self._image([metric])
        except Refused:
            return False
        self._cupti.call("ProfilerHostDeinitialize", host=host)
        return True


class Session:
    """Counts the first launches of a plan, pass by pass."""

    def __init__(self, cupti: Cupti, device: Any, context: int, metrics: Sequence[str], most: int) -> None:  # noqa: ANN401 - cuda.core Device
        self._cupti, self._most = cupti, most
        ranges = 2 * most - 1  # sweeps between the launches are ranges too
        cupti.call("ProfilerInitialize")
        chip = bytes(cupti.call("DeviceGetChipName", device=device.device_id).chip)
        self.plan = Plan(cupti, chip, metrics, self._available(context))
        self._profiler = cupti.call("RangeProfilerEnable", context=context).profiler
        names, count = _address(self.plan.names), len(self.plan.metrics)
        size = cupti.call(
            "RangeProfilerGetCounterDataSize", profiler=self._profiler, names=names, count=count, ranges=ranges, nodes=ranges
        ).size  # fmt: skip
        self._data = (ctypes.c_uint8 * size)()
        data = _address(self._data)
        cupti.call("RangeProfilerCounterDataImageInitialize", profiler=self._profiler, size=size, data=data)
        cupti.call(
            "RangeProfilerSetConfig", profiler=self._profiler, config_size=len(self.plan.image), config=_address(self.plan.image),
            data_size=size, data=data, range_mode=_AUTO_RANGE, replay_mode=_USER_REPLAY, ranges_per_pass=ranges, nesting_levels=1,
            first_level=1,
        )  # fmt: skip
        self.is_complete = False
        self._seen, self._counting = 0, False

    def _available(self, context: int) -> Any:  # noqa: ANN401 - ctypes buffer
        size = self._cupti.call("ProfilerGetCounterAvailability", context=context).size
        image = (ctypes.c_uint8 * size)()
        self._cupti.call("ProfilerGetCounterAvailability", context=context, size=size, image=_address(image))
        return image

    @property
    def has_enough(self) -> bool:
        """Whether this pass has had as many launches as are counted."""
        return self._seen == self._most

    @contextlib.contextmanager
    def one_pass(self) -> Iterator[None]:
        """Count what is launched inside, through `launch`, once more."""
        self._seen = 0
        with contextlib.suppress(_Enough):
            yield
        if self._counting:
            self._stop()

    @contextlib.contextmanager
    def launch(self) -> Iterator[None]:
        """Count one launch, which has ended when the block is left."""
        if self._seen == 0:
            self._cupti.call("RangeProfilerStart", profiler=self._profiler)
            self._counting = True
        yield
        self._seen += 1
        if self._counting and self._seen == self._most:
            self._stop()

    def _stop(self) -> None:
        self._counting = False
        self.is_complete = bool(self._cupti.call("RangeProfilerStop", profiler=self._profiler).is_complete)

    def values(self, launches: int) -> list[dict[str, float]]:
        """Return metric and value of so many launches; what has no value is left out.

        Raises:
            Refused: If there are not as many ranges as launches and sweeps: whose figures they are is not known then.
        """
        dropped = self._cupti.call("RangeProfilerDecodeData", profiler=self._profiler).dropped
        data, size, count = _address(self._data), len(self._data), len(self.plan.metrics)
        ranges = self._cupti.call("RangeProfilerGetCounterDataInfo", data=data, size=size).ranges
        if not self.is_complete or dropped or ranges != 2 * launches - 1:
            msg = f"CUPTI counted {ranges} ranges and dropped {dropped} of {launches} launches and the sweeps between them"
            raise Refused(msg)
        found = []
        for index in range(0, ranges, 2):
            values = (ctypes.c_double * count)()
            self._cupti.call(
                "ProfilerHostEvaluateToGpuValues", host=self.plan.host, data=data, size=size, range=index,
                names=_address(self.plan.names), count=count, values=_address(values),
            )  # fmt: skip
            pairs = zip(self.plan.metrics, values, strict=True)
            found.append({name: value for name, value in pairs if math.isfinite(value)})
        return found


def count_job(
    header: dict[str, Any], blobs: list[bytes], device: Any, modules: Modules, cupti: Cupti | None = None  # noqa: ANN401
) -> tuple[dict[str, Any], list[bytes]]:  # fmt: skip
    """Return the counters of a program's first launches: `counted`, one pair of kernel and values for each.

    Args:
        header: A job as for `run`, with `metrics` (CUPTI's names), `most` (launches) and `sweep`, a kernel `(to, from, n)`
            that reads `n` vectors of 16 bytes.
        blobs: The cubins of candidate and sweep, and the inputs of one call.
        device: cuda.core Device.
        modules: Loaded cubins.
        cupti: The library; `None`: the installed one.

    Where CUPTI does not count, `counted` is empty and `why` says so: the kernel is not to blame.
    """
    runner, sweep = Runner(header, blobs[0], device, modules), None
    contents = dict(zip(header["inputs"], blobs[2:], strict=False))
    launched: list[tuple[str, dict[str, float]]] = []
    try:
        sweep = Sweep(runner, modules.load(blobs[1]).get_kernel(header["sweep"]))
        context = int(check(runner.driver.cuCtxGetCurrent(), "asking for the context"))
        session = Session(cupti or Cupti(), device, context, header["metrics"], int(header["most"]))

        @contextlib.contextmanager
        def watch(op: dict[str, Any]) -> Iterator[None]:
            if session.has_enough:
                raise _Enough
            if turn == 0:
                launched.append((op["kernel"], launch_facts(runner, op)))
            sweep()
            with session.launch():
                yield

        runner.watch = watch
        for turn in range(_MOST_PASSES):
            with session.one_pass():
                runner.call(contents, turn)
            if session.is_complete or not launched:
                break
        values = session.values(len(launched)) if launched else []
    except Refused as exc:
        return {"status": "ok", "counted": [], "why": str(exc)}, []
    finally:
        if sweep is not None:
            sweep.free()
        runner.close()
    pairs = zip(launched, values, strict=True)
    counted = [[name, {**found, **facts}] for (name, facts), found in pairs]
    return {"status": "ok", "counted": counted, "passes": session.plan.passes}, []


class Sweep:
    """Reads twice the size of L2 and waits."""

    def __init__(self, runner: Runner, kernel: Any) -> None:  # noqa: ANN401 - cuda.core Kernel
        from cuda.core import LaunchConfig

        p = runner.device.properties
        self._runner, self._kernel, self._size = runner, kernel, 2 * int(p.l2_cache_size)
        self._config = LaunchConfig(grid=(2 * int(p.multiprocessor_count), 1, 1), block=(256, 1, 1))
        driver = runner.driver
        self._address = int(check(driver.cuMemAlloc(self._size + _VECTOR * 256), "allocating what is read"))
        check(driver.cuMemsetD8(self._address, 1, self._size + _VECTOR * 256), "setting what is read")

    def __call__(self) -> None:
        """Do so on the runner's stream."""
        from cuda.core import launch

        begin, vectors = self._address + _VECTOR * 256, np.int64(self._size // _VECTOR)
        launch(self._runner.stream, self._config, self._kernel, self._address, begin, vectors)
        result = self._runner.driver.cuStreamSynchronize(self._runner.stream.handle)
        check(result if isinstance(result, tuple) else (result,), "reading more than L2 holds")

    def free(self) -> None:
        """Give the memory back."""
        self._runner.driver.cuMemFree(self._address)


def launch_facts(runner: Runner, op: dict[str, Any]) -> dict[str, float]:
    """Return what Nsight Compute tells of a launch and CUPTI does not, under Nsight Compute's names."""
    kernel, p = runner.kernels[op["kernel"]], runner.device.properties
    threads, blocks = math.prod(op["block"]), math.prod(op["grid"])
    resident = int(kernel.occupancy.max_active_blocks_per_multiprocessor(threads, op["shared"]))
    registers = max(_LEAST_REGISTERS, attribute(kernel, "num_regs"))
    # Each of the multiprocessor's parts has a share of the registers, which warps take in units of 256.
    of_part = int(p.max_registers_per_multiprocessor) // _PARTS
    warps = of_part // (-(-registers * 32 // 256) * 256) * _PARTS
    shared = attribute(kernel, "shared_size_bytes") + op["shared"] + int(p.reserved_shared_memory_per_block)
    largest_carveout = int(p.max_shared_memory_per_multiprocessor)
    by_shared = largest_carveout // max(1, shared)
    found = {
        "launch__registers_per_thread": float(registers),
        "launch__occupancy_limit_registers": float(warps // -(-threads // 32)),
        "launch__occupancy_limit_shared_mem": float(min(int(p.max_blocks_per_multiprocessor), by_shared)),
    }
    if resident:
        found["launch__waves_per_multiprocessor"] = blocks / (resident * int(p.multiprocessor_count))
    return found


def _address(buffer: Any) -> int | None:  # noqa: ANN401 - a ctypes array
    return ctypes.addressof(buffer) if buffer is not None else None
