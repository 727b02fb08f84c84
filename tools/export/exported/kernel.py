"""A kernel that is called on CUDA arrays."""

import base64
import contextlib
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cuda_harness.tools.export.exported.arrays import ArrayView, CudaError, DeviceArray, checked
from cuda_harness.tools.export.exported.device import StreamDevice
from cuda_harness.tools.export.exported.expressions import KernelError
from cuda_harness.tools.export.exported.plan import ITEM_SIZES, Plan


class CudaKernel:
    """One kernel with its plan, callable on CUDA arrays."""

    def __init__(
        self,
        document: Mapping[str, Any],
        prelude: str,
        source: str,
        cubins: Mapping[str, bytes] | None = None,
    ) -> None:
        """Keep the parts; nothing touches CUDA before the first call.

        Args:
            document: IR and plan as data.
            prelude: Text before every kernel.
            source: The kernel, includes resolved.
            cubins: Compiled code by `key(arch, macros)`; what is not there is compiled by NVRTC when it is needed.
        """
        self.plan = Plan(document)
        self._prelude, self._source = prelude, source
        self._cubins = dict(cubins or {})
        self._loaded: dict[tuple[str, int], Any] = {}
        self._lock = threading.Lock()

    @staticmethod
    def key(arch: str, macros: Mapping[str, int]) -> str:
        """Return the name of compiled code: architecture and macros."""
        return hashlib.sha256(json.dumps([arch, sorted(macros.items())]).encode()).hexdigest()

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None, **scalars: Any) -> Any:
        """Run the kernel on CUDA arrays, inputs in IR order, and return its output, a dict when there are several.

        Torch tensors give torch tensors on torch's current stream; other arrays give `DeviceArray`s. Inputs are
        never changed: an array that the kernel updates in place is copied first.

        Args:
            arrays: The inputs.
            out: Array, or dict of arrays by name, that receives the outputs; `None`: new ones.
            stream: A stream, or its handle; `None`: torch's current one, else the default stream.
            scalars: By name; those left out take the IR's value. A size that no shape tells is given the same way.

        Raises:
            KernelError: If an array, a size or a scalar does not fit the kernel.
            CudaError: If the driver refuses something.
        """
        inputs = self.plan.inputs
        if len(arrays) != len(inputs):
            listed = ", ".join(f"{t['name']}: {t['dtype']}{t['shape']}" for t in inputs)
            msg = f"{len(inputs)} arrays are needed ({listed}), {len(arrays)} were given"
            raise KernelError(msg)
        views = {t["name"]: ArrayView(t["name"], a) for t, a in zip(inputs, arrays, strict=True)}
        for tensor in inputs:
            views[tensor["name"]].check(tensor["dtype"])
        sizes = {d["name"] for d in self.plan.document["dims"]}
        dims = self.plan.infer_dims(
            {n: v.shape for n, v in views.items()}, {n: int(v) for n, v in scalars.items() if n in sizes}
        )
        values = self.plan.scalars({n: v for n, v in scalars.items() if n not in sizes})
        with cuda_errors(), context_kept():
            return self._run_on(views, arrays[0] if arrays else None, dims, values, out, stream)

    def _run_on(
        self, views: Mapping[str, ArrayView], first: Any, dims: Mapping[str, int], values: Mapping[str, Any], out: Any,
        stream: Any,
    ) -> Any:  # fmt: skip
        """Run the kernel on checked inputs and return what `__call__` returns."""
        torch = sys.modules.get("torch") if hasattr(first, "data_ptr") else None
        device_id = one_device(views) or 0
        handle = _stream_handle(stream, torch, device_id)
        made = self._outputs(out, dims, torch, first, device_id, handle)
        results = {n: ArrayView(n, a) for n, a in made.items()}
        one_device({**views, **results})
        for tensor in self.plan.outputs:
            name = tensor["name"]
            results[name].check(tensor["dtype"])
            if results[name].shape != self.plan.shape(name, dims):
                msg = (
                    f"out {name!r} has shape {results[name].shape}, it must be {self.plan.shape(name, dims)}"
                )
                raise KernelError(msg)
        for view in views.values():
            _wait_for(view.stream, handle)
        other = _other_stream(torch, device_id, handle)
        addresses = {n: v.pointer for n, v in {**views, **results}.items()}
        copies = {n: v.pointer for n, v in views.items() if n in results}
        keep: list[Any] = []

        def scratch(_name: str, size: int) -> int:
            if torch is not None and first is not None:
                kept = first.new_empty(max(size, 256), dtype=torch.uint8)
                keep.append(kept)
                return int(kept.data_ptr())
            kept = allocate(device_id, max(size, 256), handle)
            keep.append(kept)
            return int(kept.handle)

        self.run(addresses, dims, values, stream=handle, device_id=device_id, scratch=scratch, initial=copies)
        if other is not None:
            for array in [*keep, *(made.values() if out is None else ())]:
                array.record_stream(other)
        return next(iter(made.values())) if len(made) == 1 else made

    def run(
        self,
        addresses: Mapping[str, int],
        dims: Mapping[str, int],
        scalars: Mapping[str, Any],
        *,
        stream: int,
        device_id: int,
        scratch: Callable[[str, int], int],
        initial: Mapping[str, int] | None = None,
    ) -> None:
        """Run the plan on device addresses that the caller answers for; returns when all is asked for, not done.

        Args:
            addresses: Of every tensor.
            dims: Every size.
            scalars: Every scalar.
            stream: Handle of the stream.
            device_id: Number of the device.
            scratch: Returns the address of a buffer, given its name and its bytes; it lives until the stream is done.
            initial: Addresses whose contents go first into the tensors of these names.
        """
        from cuda.core import Device, Stream

        device = Device(device_id)
        device.set_current()
        code = self._code(device, self.plan.macros(dims))
        runner = StreamDevice(code, device, Stream.from_handle(stream) if stream else device.default_stream)
        for name, source in (initial or {}).items():
            size = (
                int(np.prod(self.plan.shape(name, dims), dtype=np.int64)) * ITEM_SIZES[self.plan.dtypes[name]]
            )
            if size and source != addresses[name]:
                runner.copy(addresses[name], source, size)
        self.plan.run(runner, dims, scalars, addresses, scratch)

    def _outputs(
        self, out: Any, dims: Mapping[str, int], torch: Any, first: Any, device_id: int, stream: int
    ) -> dict[str, Any]:
        outputs = self.plan.outputs
        if out is not None:
            given = out if isinstance(out, Mapping) else {outputs[0]["name"]: out}
            if set(given) != {t["name"] for t in outputs}:
                msg = f"out names {sorted(given)}, the outputs are {[t['name'] for t in outputs]}"
                raise KernelError(msg)
            return dict(given)
        made: dict[str, Any] = {}
        for t in outputs:
            shape = self.plan.shape(t["name"], dims)
            if torch is not None:
                kind = {"float8_e4m3": "float8_e4m3fn"}.get(t["dtype"], t["dtype"])
                made[t["name"]] = first.new_empty(shape, dtype=getattr(torch, kind))
            else:
                size = int(np.prod(shape, dtype=np.int64)) * ITEM_SIZES[t["dtype"]]
                buffer = allocate(device_id, max(size, 256), stream)
                made[t["name"]] = DeviceArray(buffer, shape, t["dtype"], stream=stream, device_id=device_id)
        return made

    def _code(self, device: Any, macros: Mapping[str, int]) -> Any:
        major, minor = device.compute_capability
        arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        key = self.key(arch, macros)
        with self._lock:
            if (key, device.device_id) not in self._loaded:
                from cuda.core import ObjectCode

                cubin = self._cubins.get(key)
                self._loaded[key, device.device_id] = (
                    ObjectCode.from_cubin(cubin) if cubin is not None else self._compiled(arch, macros)
                )
            return self._loaded[key, device.device_id]

    def _compiled(self, arch: str, macros: Mapping[str, int]) -> Any:
        """Compile the source for another device or other sizes than the shipped code."""
        from cuda.core import Program, ProgramOptions
        from cuda.pathfinder import find_nvidia_header_directory

        folders = [f for f in map(find_nvidia_header_directory, ("cudart", "cccl")) if f]
        wide = {n: "" if -(2**31) <= v < 2**31 else "LL" for n, v in macros.items()}
        defines = "".join(f"#define {n} {macros[n]}{wide[n]}\n" for n in sorted(macros))
        chosen = self.plan.document["compile"]
        options = ProgramOptions(
            name="kernel.cu", arch=arch, std="c++17", include_path=folders,
            use_fast_math=chosen["fast_math"] or None, max_register_count=chosen["max_registers"],
        )  # fmt: skip
        text = f'{self._prelude}\n{defines}#line 1 "kernel.cu"\n{self._source}'
        return Program(text, "c++", options).compile("cubin")


@contextlib.contextmanager
def cuda_errors() -> Iterator[None]:
    """Turn what the libraries of CUDA raise, each in a class of its own, into CudaError."""
    try:
        yield
    except CudaError:
        raise
    except Exception as exc:
        if type(exc).__module__.split(".")[0] != "cuda":
            raise
        raise CudaError(str(exc)) from exc


@contextlib.contextmanager
def context_kept() -> Iterator[None]:
    """Leave the thread's current CUDA context as it was, if there was one: a call changes nobody's current device."""
    from cuda.bindings import driver

    code, before = driver.cuCtxGetCurrent()
    try:
        yield
    finally:
        if not int(code) and int(before):
            checked(driver.cuCtxSetCurrent(before), "going back to the current context")


def one_device(views: Mapping[str, ArrayView]) -> int | None:
    """Return the device that all arrays share, `None` when none has memory; raises KernelError naming two that differ."""
    known = {name: number for name, view in views.items() if (number := view.device()) is not None}
    first = next(iter(known), None)
    for name, number in known.items():
        if number != known[first or name]:
            msg = f"{first!r} is on cuda:{known[first or name]}, {name!r} is on cuda:{number}: bring all arrays to one device"
            raise KernelError(msg)
    return known[first] if first is not None else None


def allocate(device_id: int, size: int, stream: int) -> Any:
    """Return a new buffer of cuda.core on a device, ordered on the stream of this handle."""
    from cuda.core import Device, Stream

    device = Device(device_id)
    device.set_current()
    return device.allocate(size, stream=Stream.from_handle(stream) if stream else device.default_stream)


def _stream_handle(stream: Any, torch: Any, device_id: int) -> int:
    if stream is None:
        return int(torch.cuda.current_stream(device_id).cuda_stream) if torch is not None else 0
    for name in ("cuda_stream", "handle", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    return int(stream)


def _other_stream(torch: Any, device_id: int, handle: int) -> Any:
    """Return torch's stream of this handle when it is not its current one, `None` else.

    New memory comes from the current stream, which may still use it, so the other one waits; whoever uses the
    result has to record that stream, so that the memory is not handed out again before it is done.
    """
    if torch is None:
        return None
    current = torch.cuda.current_stream(device_id)
    if handle == int(current.cuda_stream):
        return None
    other = torch.cuda.ExternalStream(handle, device=device_id)
    other.wait_stream(current)
    return other


def _wait_for(stream: Any, handle: int) -> None:
    """Wait for the stream on which an array is still being written; 1 is the default stream, as 0 is."""
    if stream is None or int(stream) == handle or {int(stream), handle} == {0, 1}:
        return
    from cuda.bindings import driver

    checked(driver.cuStreamSynchronize(driver.CUstream(int(stream))), "waiting for an input")


def decoded(text: str) -> bytes:
    """Return bytes that travel as text in a module."""
    return base64.b85decode(text)
