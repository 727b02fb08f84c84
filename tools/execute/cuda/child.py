"""The GPU child: makes the context, runs one job, answers on its private channel, ends.

A sticky CUDA error kills this process and nothing else. Started ahead of time, so that imports and context
creation are off the path of a candidate.
"""

import ctypes
import os
import sys
import time
from typing import Any, BinaryIO

import numpy as np

from cuda_harness.tools.frames import read_frame, write_frame

GUARD = 4096
"""Guard bytes on both sides of every buffer; a multiple of every alignment a kernel may rely on."""
_MAX_BLOBS = 200 << 30

FAULTS: tuple[tuple[str, str], ...] = (
    ("ILLEGAL_ADDRESS", "out_of_bounds"),
    ("MISALIGNED_ADDRESS", "misaligned"),
    ("LAUNCH_TIMEOUT", "timeout"),
    ("LAUNCH_OUT_OF_RESOURCES", "launch_config"),
    ("COOPERATIVE_LAUNCH_TOO_LARGE", "launch_config"),
    ("INVALID_CLUSTER_SIZE", "launch_config"),
    ("INVALID_VALUE", "launch_config"),
    ("INVALID_CONFIGURATION", "launch_config"),
    ("ASSERT", "crash"),
    ("ILLEGAL_INSTRUCTION", "crash"),
    ("INVALID_ADDRESS_SPACE", "crash"),
    ("INVALID_PC", "crash"),
    ("HARDWARE_STACK_ERROR", "crash"),
    ("LAUNCH_FAILED", "crash"),
)
"""Part of a driver error's name -> class of the candidate's failure."""


class Failed(Exception):  # noqa: N818 - carries an answer, not an error of ours
    """The job ends with this answer."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer.get("message", ""))
        self.answer = answer


def check(result: tuple[Any, ...], doing: str) -> Any:  # noqa: ANN401 - whatever the driver returns
    """Return the values of a driver call; a failed one raises `Failed` with its class."""
    code = result[0]
    if int(code) == 0:
        return result[1] if len(result) == 2 else result[1:]
    raise Failed(classify(code.name, doing))


def classify(name: str, doing: str) -> dict[str, Any]:
    """Return the answer for a driver error called `name` that came while `doing` something."""
    if "OUT_OF_MEMORY" in name:
        return {"status": "not_run", "reason": "resources", "message": f"{name} while {doing}"}
    for part, fault in FAULTS:
        if part in name:
            return {
                "status": "fault",
                "fault": fault,
                "message": f"{name} while {doing}",
                "evidence": {"code": name},
            }
    return {"status": "not_run", "reason": "environment", "message": f"{name} while {doing}"}


def poison(seed: int, index: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return `size` bytes that no kernel writes by chance: a tile of random bytes, repeated."""
    tile = np.random.default_rng([seed, index]).integers(0, 256, 4099, dtype=np.uint8)
    return np.resize(tile, size)


class Memory:
    """One buffer with guard bytes around it."""

    def __init__(self, driver: Any, size: int, guard: int) -> None:  # noqa: ANN401 - the driver module
        self.driver, self.size, self.guard = driver, size, guard
        total = size + 2 * guard
        self.base = int(check(driver.cuMemAlloc(max(total, 1)), f"allocating {size} bytes"))
        self.address = self.base + guard
        if guard:
            check(driver.cuMemsetD8(self.base, 0xC3, total), "setting guard bytes")

    def write(self, data: Any) -> None:  # noqa: ANN401 - bytes or an array of bytes
        """Copy host bytes onto the buffer."""
        if self.size:
            host = np.frombuffer(data, dtype=np.uint8)
            check(
                self.driver.cuMemcpyHtoD(self.address, host.ctypes.data, self.size), "copying to the device"
            )

    def read(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the buffer's bytes."""
        host = np.empty(self.size, dtype=np.uint8)
        if self.size:
            check(
                self.driver.cuMemcpyDtoH(host.ctypes.data, self.address, self.size), "copying from the device"
            )
        return host

    def guard_fault(self) -> tuple[str, int] | None:
        """Return side and distance in bytes of the guard byte nearest to the buffer that was written."""
        if not self.guard:
            return None
        host = np.empty(self.guard, dtype=np.uint8)
        check(
            self.driver.cuMemcpyDtoH(host.ctypes.data, self.address + self.size, self.guard), "reading guards"
        )
        if (host != 0xC3).any():
            return "past the end", int(np.flatnonzero(host != 0xC3)[0])
        check(self.driver.cuMemcpyDtoH(host.ctypes.data, self.base, self.guard), "reading guards")
        if (host != 0xC3).any():
            return "before the start", int(self.guard - np.flatnonzero(host != 0xC3)[-1])
        return None


class Runner:
    """Runs the operations of one program."""

    def __init__(self, header: dict[str, Any], cubin: bytes, device: Any) -> None:  # noqa: ANN401 - cuda.core Device
        from cuda.bindings import driver
        from cuda.core import ObjectCode

        from cuda_harness.tools.execute.dtypes import np_dtype

        self.driver, self.header = driver, header
        self.device = device
        self.stream = device.create_stream()
        try:
            self.code = ObjectCode.from_cubin(cubin)
            self.kernels = {n: self.code.get_kernel(n) for n in sorted(_kernel_names(header["ops"]))}
        except Exception as exc:
            raise Failed(_loading_failed(str(exc))) from exc
        self.buffers = {b["name"]: b for b in header["buffers"]}
        guard = 0 if header["own_allocations"] else GUARD
        self.memory = {}
        for name, b in self.buffers.items():
            self.memory[name] = Memory(driver, b["count"] * np_dtype(b["dtype"]).itemsize, guard)
        self.launches = 0

    def call(self, inputs: dict[str, bytes], round_: int) -> None:
        """Run the whole plan once on fresh contents: poison, inputs, operations, guards."""
        self.poisons = {}
        for index, (name, _b) in enumerate(self.buffers.items()):
            if name in inputs:
                self.memory[name].write(inputs[name])
            else:
                self.poisons[name] = poison(
                    self.header["poison"] * 1000 + round_, index, self.memory[name].size
                )
                self.memory[name].write(self.poisons[name])
        for op in self.header["ops"]:
            self.do(op)
        self.check_guards("the plan")

    def do(self, op: dict[str, Any]) -> None:
        """Run one operation and wait for it."""
        kind = op["op"]
        if kind == "launch":
            self.launch(op)
        elif kind == "fill":
            memory = self.memory[op["buffer"]]
            pattern = np.frombuffer(bytes.fromhex(op["pattern"]), dtype=np.uint8)
            memory.write(np.resize(pattern, memory.size))
        elif kind == "copy":
            source, target = self.memory[op["from"]], self.memory[op["to"]]
            if source.size:
                check(
                    self.driver.cuMemcpyDtoD(target.address, source.address, source.size), "copying a buffer"
                )
        elif kind == "symbol":
            address, size = check(
                self.driver.cuLibraryGetGlobal(self.code.handle, op["symbol"].encode()),
                f"finding symbol {op['symbol']!r}",
            )
            source = self.memory[op["from"]]
            if source.size > size:
                message = f"symbol {op['symbol']!r} holds {size} bytes, {op['from']!r} has {source.size}"
                raise Failed({"status": "fault", "fault": "launch_config", "message": message})
            check(self.driver.cuMemcpyDtoD(int(address), source.address, source.size), "filling a symbol")
        else:
            self.loop(op)

    def loop(self, op: dict[str, Any]) -> None:
        """Run a `while` until its flag's first element is zero."""
        flag = self.memory[op["flag"]]
        item = flag.size // max(1, self.buffers[op["flag"]]["count"])
        for _ in range(op["limit"]):
            if not flag.read()[:item].any():
                return
            for inner in op["body"]:
                self.do(inner)

    def launch(self, op: dict[str, Any]) -> None:
        """Launch one kernel and wait; the launch's own status and the kernel's are told apart."""
        from cuda.core import LaunchConfig, launch

        name, kernel = op["kernel"], self.kernels[op["kernel"]]
        grid, cluster = tuple(op["grid"]), tuple(op["cluster"]) if op["cluster"] else None
        if cluster:
            grid = tuple(g // c for g, c in zip(grid, cluster, strict=True))  # cuda.core counts clusters
        self._allow_shared(kernel, op)
        try:
            config = LaunchConfig(
                grid=grid, block=tuple(op["block"]), shmem_size=op["shared"], cluster=cluster,
                is_cooperative=op["cooperative"],
            )  # fmt: skip
            launch(self.stream, config, kernel, *[self.argument(a) for a in op["args"]])
        except Exception as exc:
            raise Failed(self._launch_failed(op, kernel, str(exc))) from exc
        result = self.driver.cuStreamSynchronize(self.stream.handle)
        self.launches += 1
        check(result if isinstance(result, tuple) else (result,), f"running {name} (launch {self.launches})")

    def _allow_shared(self, kernel: Any, op: dict[str, Any]) -> None:  # noqa: ANN401 - cuda.core Kernel
        static = attribute(kernel, "shared_size_bytes")
        limit = int(self.device.properties.max_shared_memory_per_block_optin)
        if static + op["shared"] > limit:
            message = (
                f"{op['kernel']} asks for {op['shared']} bytes of dynamic and {static} of static shared memory "
                f"= {static + op['shared']} bytes; this device allows {limit} a block"
            )
            raise Failed({"status": "fault", "fault": "launch_config", "message": message})
        if static + op["shared"] > 48 * 1024 or op["shared"] > 48 * 1024 - static:
            setting = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            handle = self.driver.CUkernel(int(kernel.handle))
            device = self.driver.CUdevice(self.device.device_id)
            check(
                self.driver.cuKernelSetAttribute(setting, op["shared"], handle, device),
                "raising shared memory",
            )

    def _launch_failed(self, op: dict[str, Any], kernel: Any, error: str) -> dict[str, Any]:  # noqa: ANN401
        registers = attribute(kernel, "num_regs")
        threads = int(np.prod(op["block"]))
        answer = classify(error, f"launching {op['kernel']} with grid {op['grid']} and block {op['block']}")
        if answer["status"] == "fault" and registers * threads > 65_536:
            most = 65_536 // registers // 32 * 32
            answer["message"] = (
                f"{op['kernel']} needs {registers} x {threads} = {registers * threads} registers > 65536; "
                f"use a block of at most {most} or __launch_bounds__"
            )
        return answer

    def argument(self, arg: dict[str, Any]) -> Any:  # noqa: ANN401 - what cuda.core takes
        """Return one launch argument."""
        if "pointer" in arg:
            return self.memory[arg["pointer"]].address
        if "tensor_map" in arg:
            return self._tensor_map(arg["tensor_map"])
        return typed_value(arg["value"], arg["dtype"])

    def _tensor_map(self, spec: dict[str, Any]) -> Any:  # noqa: ANN401 - a CUtensorMap
        from cuda_harness.tools.execute.cuda.tensor_map import encode

        return encode(self.driver, self.memory[spec["buffer"]].address, spec)

    def check_guards(self, after: str) -> None:
        """Raise an out-of-bounds fault when a guard byte changed."""
        for name, memory in self.memory.items():
            found = memory.guard_fault()
            if found is not None:
                where, distance = found
                message = f"a write {distance} bytes {where} of {name!r}, seen after {after}"
                raise Failed({
                    "status": "fault", "fault": "out_of_bounds", "message": message,
                    "evidence": {"buffer": name, "side": where, "distance_bytes": distance},
                })  # fmt: skip


def attribute(kernel: Any, name: str) -> int:  # noqa: ANN401 - cuda.core Kernel
    """Return an attribute of a kernel; cuda.core made these properties of methods between releases."""
    found = getattr(kernel.attributes, name)
    return int(found() if callable(found) else found)


def typed_value(value: Any, dtype: str) -> Any:  # noqa: ANN401 - a ctypes or NumPy scalar
    """Return a by-value argument in exactly its width; half types travel as their 16 bits."""
    from cuda_harness.tools.execute.dtypes import np_dtype

    number = float.fromhex(value) if isinstance(value, str) else value
    scalar = np.asarray(number).astype(np_dtype(dtype))
    if dtype == "bool":
        return ctypes.c_bool(bool(number))
    if dtype in {"float16", "bfloat16"}:
        return ctypes.c_uint16(int(scalar.view(np.uint16)))
    if dtype.startswith("float8"):
        return ctypes.c_uint8(int(scalar.view(np.uint8)))
    return scalar[()]


def run_job(header: dict[str, Any], blobs: list[bytes], device: Any) -> tuple[dict[str, Any], list[bytes]]:  # noqa: ANN401
    """Return the answer to a job and the output blobs, call by call."""
    runner = Runner(header, blobs[0], device)
    names, outputs, facts = header["inputs"], [], []
    results = [b["name"] for b in header["buffers"] if b["role"] in {"out", "inout"}]
    read_only = [b["name"] for b in header["buffers"] if b["role"] == "in"]
    spent = 0.0
    for index in range(header["calls"]):
        given = dict(zip(names, blobs[1 + index * len(names) :], strict=False))
        start = time.perf_counter()
        runner.call(given, index)
        spent += time.perf_counter() - start
        for name in read_only:
            if runner.memory[name].read().tobytes() != given[name]:
                message = f"input {name!r} was modified; inputs are read-only"
                return {
                    "status": "fault",
                    "fault": "input_modified",
                    "message": message,
                    "evidence": {"buffer": name},
                }, []
        unwritten = {}
        for name in results:
            data = runner.memory[name].read()
            if name in runner.poisons:
                item = max(1, data.size // max(1, runner.buffers[name]["count"]))
                kept = (
                    (data == runner.poisons[name]).reshape(-1, item).all(axis=1)
                    if data.size
                    else np.zeros(0, bool)
                )
                unwritten[name] = int(kept.sum()) * item
            if header["full_output"]:
                outputs.append(data.tobytes())
        facts.append(unwritten)
    return {
        "status": "ok",
        "seconds": spent,
        "outputs": results,
        "unwritten": facts,
        "launches": runner.launches,
    }, outputs


def _kernel_names(ops: list[dict[str, Any]]) -> set[str]:
    names = set()
    for op in ops:
        if op["op"] == "launch":
            names.add(op["kernel"])
        elif op["op"] == "while":
            names |= _kernel_names(op["body"])
    return names


def _loading_failed(error: str) -> dict[str, Any]:
    if "NO_BINARY_FOR_GPU" in error or "INVALID_IMAGE" in error or "UNSUPPORTED_PTX" in error:
        return {
            "status": "not_run",
            "reason": "environment",
            "message": f"the cubin does not fit this GPU: {error[:300]}",
        }
    if "NOT_FOUND" in error:
        return {
            "status": "fault",
            "fault": "launch_config",
            "message": f"a kernel of the plan is not in the cubin: {error[:300]}",
        }
    return {
        "status": "not_run",
        "reason": "environment",
        "message": f"loading the cubin failed: {error[:300]}",
    }


def device_facts(device: Any) -> dict[str, Any]:  # noqa: ANN401 - cuda.core Device
    """Return what the parent needs to know of the device."""
    from cuda.bindings import driver

    p = device.properties
    free, total = check(driver.cuMemGetInfo(), "asking for free memory")
    major, minor = device.compute_capability
    return {
        "name": str(device.name), "uuid": str(device.uuid), "arch": f"sm_{major}{minor}" + ("a" if major >= 9 else ""),
        "num_sms": int(p.multiprocessor_count), "max_threads_per_block": int(p.max_threads_per_block),
        "max_block": [int(p.max_block_dim_x), int(p.max_block_dim_y), int(p.max_block_dim_z)],
        "max_grid": [int(p.max_grid_dim_x), int(p.max_grid_dim_y), int(p.max_grid_dim_z)],
        "shared_bytes_optin": int(p.max_shared_memory_per_block_optin),
        "registers_per_block": int(p.max_registers_per_block), "l2_bytes": int(p.l2_cache_size),
        "free_bytes": int(free), "memory_bytes": int(total),
    }  # fmt: skip


def main() -> None:
    """Serve one job on the channel given as file descriptors `IN OUT`, on device `N`."""
    index, fd_in, fd_out = (int(a) for a in sys.argv[1:4])
    source: BinaryIO = os.fdopen(fd_in, "rb")
    answer: BinaryIO = os.fdopen(fd_out, "wb")
    try:
        from cuda.core import Device

        device = Device(index)
        device.set_current()
        write_frame(answer, {"status": "ready", "device": device_facts(device)})
    except Exception as exc:  # noqa: BLE001 - whatever keeps CUDA from starting is the answer
        write_frame(
            answer,
            {"status": "not_run", "reason": "environment", "message": f"{type(exc).__name__}: {exc}"[:500]},
        )
        return
    try:
        header, blobs = read_frame(source, max_bytes=_MAX_BLOBS)
        if header["do"] == "run":
            reply, data = run_job(header, blobs, device)
        else:
            from cuda_harness.tools.execute.cuda import clock

            if header["do"] == "time":
                reply, data = clock.time_job(header, blobs, device)
            else:
                reply, data = {"status": "ok", **clock.ceilings(device)}, []
    except EOFError:
        return
    except Failed as exc:
        reply, data = exc.answer, []
    except Exception as exc:  # noqa: BLE001 - a mistake of ours must not look like the candidate's
        reply, data = (
            {"status": "not_run", "reason": "environment", "message": f"{type(exc).__name__}: {exc}"[:500]},
            [],
        )
    write_frame(answer, reply, data)
    answer.close()
    os._exit(0)  # a context with a sticky error may hang in its own clean-up


if __name__ == "__main__":
    main()
