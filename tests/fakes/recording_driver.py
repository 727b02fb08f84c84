"""A driver that only notes what is queued, in order: it shows the protocol of timing, and measures nothing."""

import ctypes
import sys
import types
from typing import Any

import pytest


class Code:
    """A driver's result code."""

    name = "CUDA_SUCCESS"

    def __int__(self) -> int:
        return 0


OK = Code()


class Event:
    """An event that knows when it was recorded, in steps of the log."""

    def __init__(self, log: list[tuple[Any, ...]]) -> None:
        self.at, self._log = 0, log

    def sync(self) -> None:
        self._log.append(("event_sync",))

    def __sub__(self, other: "Event") -> float:
        return (self.at - other.at) * 1e-2


class Stream:
    handle = 7

    def __init__(self, log: list[tuple[Any, ...]]) -> None:
        self.log = log

    def record(self, event: Event) -> None:
        event.at = len(self.log)
        self.log.append(("record", event))

    def sync(self) -> None:
        self.log.append(("stream_sync",))


class Kernel:
    handle = 1

    def __init__(self, name: str) -> None:
        self.name = name
        self.attributes = types.SimpleNamespace(num_regs=16, shared_size_bytes=0, max_threads_per_block=1024)


class Recorder:
    """Memory is host memory; every queued operation is a line of `log`."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self._blocks: dict[int, Any] = {}
        self.uuid, self.device_id, self.compute_capability = "GPU-recorded", 0, (9, 0)
        self.properties = types.SimpleNamespace(
            max_threads_per_block=1024, max_block_dim_x=1024, max_block_dim_y=1024, max_block_dim_z=64, max_grid_dim_x=2**31 - 1,
            max_grid_dim_y=65_535, max_grid_dim_z=65_535, max_shared_memory_per_block_optin=232_448, max_registers_per_block=65_536,
            multiprocessor_count=4, l2_cache_size=4096, max_registers_per_multiprocessor=65_536, max_blocks_per_multiprocessor=32,
            max_shared_memory_per_multiprocessor=233_472, reserved_shared_memory_per_block=1024,
        )  # fmt: skip

    def create_stream(self, *_: Any, **__: Any) -> Stream:
        return Stream(self.log)

    def create_event(self, *_: Any, **__: Any) -> Event:
        return Event(self.log)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand in for cuda.core and the driver's bindings."""
        core, driver = types.ModuleType("cuda.core"), types.ModuleType("cuda.bindings.driver")
        names: dict[str, Any] = {
            "ObjectCode": types.SimpleNamespace(from_cubin=lambda _: types.SimpleNamespace(get_kernel=Kernel, handle=1)),
            "LaunchConfig": lambda **k: k, "EventOptions": lambda **k: k, "StreamOptions": lambda **k: k, "launch": self._launch,
        }  # fmt: skip
        for name, value in names.items():
            setattr(core, name, value)
        for name in dir(self):
            if name.startswith("cu"):
                setattr(driver, name, getattr(self, name))
        driver.CUstreamCaptureMode = types.SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "cuda.core", core)
        monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
        import cuda.bindings

        monkeypatch.setattr(cuda.bindings, "driver", driver, raising=False)

    def _launch(self, _stream: Any, config: Any, kernel: Kernel, *args: Any) -> None:
        self.log.append(("launch", kernel.name, config, args))

    # ---- the driver ----
    def cuMemAlloc(self, size: int) -> tuple[Code, int]:  # noqa: N802 - the driver's names
        block = (ctypes.c_ubyte * size)()
        self._blocks[ctypes.addressof(block)] = block
        return OK, ctypes.addressof(block)

    def cuMemFree(self, address: int) -> tuple[Code]:  # noqa: N802
        self._blocks.pop(int(address), None)
        return (OK,)

    def cuMemGetInfo(self) -> tuple[Code, int, int]:  # noqa: N802
        return OK, 1 << 33, 1 << 34

    def cuCtxGetCurrent(self) -> tuple[Code, int]:  # noqa: N802
        return OK, 3

    def cuCtxSynchronize(self) -> tuple[Code]:  # noqa: N802
        return (OK,)

    def cuMemsetD8(self, address: int, value: int, size: int) -> tuple[Code]:  # noqa: N802
        ctypes.memset(address, value, size)
        return (OK,)

    def cuMemsetD8Async(self, address: int, value: int, size: int, _handle: Any) -> tuple[Code]:  # noqa: N802
        self.log.append(("set", address, value, size))
        return self.cuMemsetD8(address, value, size)

    def cuMemsetD32Async(self, address: int, value: int, count: int, _handle: Any) -> tuple[Code]:  # noqa: N802
        self.log.append(("set32", address, value, count))
        return (OK,)

    def cuMemsetD2D32Async(  # noqa: N802
        self, address: int, pitch: int, value: int, _width: int, height: int, _handle: Any
    ) -> tuple[Code]:
        self.log.append(("set2d32", address, pitch, value, height))
        return (OK,)

    def cuMemcpyHtoD(self, target: int, source: int, size: int) -> tuple[Code]:  # noqa: N802
        ctypes.memmove(target, source, size)
        return (OK,)

    cuMemcpyDtoH = cuMemcpyDtoD = cuMemcpyHtoD  # noqa: N815

    def cuMemcpyDtoDAsync(self, target: int, source: int, size: int, _handle: Any) -> tuple[Code]:  # noqa: N802
        self.log.append(("copy", target, source, size))
        return self.cuMemcpyHtoD(target, source, size)

    def cuStreamBeginCapture(self, *_: Any) -> tuple[Code]:  # noqa: N802
        self.log.append(("capture",))
        return (OK,)

    def cuStreamEndCapture(self, *_: Any) -> tuple[Code, int]:  # noqa: N802
        self.log.append(("captured",))
        return OK, 5

    def cuGraphInstantiate(self, *_: Any) -> tuple[Code, int]:  # noqa: N802
        return OK, 6

    def cuGraphLaunch(self, *_: Any) -> tuple[Code]:  # noqa: N802
        self.log.append(("replay",))
        return (OK,)
