"""A driver whose memory is the host's and whose kernels are functions of Python: it runs programs, and measures nothing."""

import ctypes
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.fakes.recording_driver import OK, Code, Kernel, Recorder

Body = Callable[..., None]


class Bad(Code):
    def __init__(self, name: str) -> None:
        self.name = name

    def __int__(self) -> int:
        return 1


class Machine(Recorder):
    """Runs Python functions as kernels; each test says what they do."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: dict[str, Body] = {}
        self.symbols: dict[bytes, Any] = {}
        self.attributes: list[tuple[str, int]] = []
        self.free, self.allocations_left = 1 << 33, 1_000
        self.sync_result: Code = OK
        self.static_shared, self.cluster_most, self.per_sm = 0, 16, 2

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().install(monkeypatch)
        driver = sys.modules["cuda.bindings.driver"]
        names = {f"CU_FUNC_ATTRIBUTE_{n}": n for n in ("MAX_DYNAMIC_SHARED_SIZE_BYTES", "NON_PORTABLE_CLUSTER_SIZE_ALLOWED")}  # fmt: skip
        driver.CUfunction_attribute = types.SimpleNamespace(**names)  # type: ignore[attr-defined]
        driver.CUkernel = driver.CUdevice = int  # type: ignore[attr-defined]
        code = types.SimpleNamespace(get_kernel=self.kernel, handle=1)
        sys.modules["cuda.core"].ObjectCode.from_cubin = lambda _: code

    def kernel(self, name: str) -> Kernel:
        made = Kernel(name)
        made.attributes.shared_size_bytes = self.static_shared
        made.occupancy = types.SimpleNamespace(  # type: ignore[attr-defined]
            max_potential_cluster_size=lambda _config, stream: self.cluster_most,
            max_active_blocks_per_multiprocessor=lambda _threads, _shared: self.per_sm,
        )
        return made

    def _launch(self, stream: Any, config: Any, kernel: Kernel, *args: Any) -> None:
        super()._launch(stream, config, kernel, *args)
        self.bodies[kernel.name](*args)

    @property
    def launched(self) -> int:
        return sum(line[0] == "launch" for line in self.log)

    @property
    def taken(self) -> int:
        return len(self._blocks)

    def cuMemAlloc(self, size: int) -> tuple[Code, int]:  # noqa: N802 - the driver's names
        self.allocations_left -= 1
        return (
            super().cuMemAlloc(size) if self.allocations_left >= 0 else (Bad("CUDA_ERROR_OUT_OF_MEMORY"), 0)
        )

    def cuMemGetInfo(self) -> tuple[Code, int, int]:  # noqa: N802
        return OK, self.free, 1 << 34

    def cuMemsetD8(self, address: int, value: int, size: int) -> tuple[Code]:  # noqa: N802
        self.log.append(("fill", address, value, size))
        return super().cuMemsetD8(address, value, size)

    def cuStreamSynchronize(self, _handle: Any) -> tuple[Code]:  # noqa: N802
        return (self.sync_result,)

    def cuKernelSetAttribute(self, name: str, value: int, _kernel: Any, _device: Any) -> tuple[Code]:  # noqa: N802
        self.attributes.append((name, value))
        return (OK,)

    def cuLibraryGetGlobal(self, _library: Any, name: bytes) -> tuple[Any, ...]:  # noqa: N802
        if name not in self.symbols:
            return Bad("CUDA_ERROR_NOT_FOUND"), 0, 0
        return OK, ctypes.addressof(self.symbols[name]), ctypes.sizeof(self.symbols[name])


def floats(address: int, count: int = 64) -> Any:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))
