"""One program on the device: buffers, operations in order, launches that were checked first. Runs in the GPU child."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from cuda_harness.tools.execute.cuda import limits
from cuda_harness.tools.execute.cuda.faults import Failed, check, classify, fault, loading_failed
from cuda_harness.tools.execute.cuda.kernels import (
    Modules,
    allow,
    allow_shared,
    config_of,
    device_limits,
    kernel_limits,
    ordered_stream,
    typed_value,
)
from cuda_harness.tools.execute.cuda.memory import GUARD, Memory, poison, require_room
from cuda_harness.tools.execute.dtypes import np_dtype

_RUN = 8
"""Bytes in a row that must hold their poison to be called unwritten."""


class Runner:
    """Runs the operations of one program."""

    def __init__(
        self, header: dict[str, Any], cubin: bytes, device: Any, modules: Modules | None = None,  # noqa: ANN401 - cuda.core Device
    ) -> None:  # fmt: skip
        from cuda.bindings import driver

        self.driver, self.header, self.device = driver, header, device
        self.stream = ordered_stream(device)
        self.memory: dict[str, Memory] = {}
        try:
            self.code = (modules or Modules()).load(cubin)
            self.kernels = {n: self.code.get_kernel(n) for n in sorted(_kernel_names(header["ops"]))}
        except Exception as exc:
            raise Failed(loading_failed(str(exc))) from exc
        self.buffers: dict[str, dict[str, Any]] = {b["name"]: b for b in header["buffers"]}
        self.poisons: dict[str, Any] = {}
        self.limits = device_limits(device)
        self.refused: dict[tuple[Any, ...], str | None] = {}
        self.launches = 0
        self.watch: Callable[[dict[str, Any]], AbstractContextManager[None]] = lambda _op: nullcontext()
        """Entered around each launch and its end."""
        self._allocate()

    def _allocate(self) -> None:
        """Take all buffers, or none: planned against what is free now."""
        guard = 0 if self.header["own_allocations"] else GUARD
        sizes = {n: b["count"] * np_dtype(b["dtype"]).itemsize for n, b in self.buffers.items()}
        free, _ = check(self.driver.cuMemGetInfo(), "asking for free memory")
        require_room(sizes, guard=2 * guard, free=int(free))
        shifts = np.random.default_rng(self.header["poison"]).integers(0, 8, len(sizes))
        moves = bool(self.header.get("vary_addresses")) and guard
        try:
            for (name, size), shift in zip(sizes.items(), shifts, strict=True):
                self.memory[name] = Memory(self.driver, size, guard, 256 * int(shift) if moves else 0)
        except Failed:
            self.close()
            raise

    def close(self) -> None:
        """Give the buffers back."""
        for memory in self.memory.values():
            memory.free()
        self.memory = {}

    def call(self, inputs: dict[str, bytes], round_: int) -> None:
        """Run the whole plan once on fresh contents: poison, inputs, operations, guards."""
        self.poisons = {}
        for index, name in enumerate(self.buffers):
            memory = self.memory[name]
            if name in inputs:
                memory.write(inputs[name])
            elif not self.header.get("unpoisoned"):
                self.poisons[name] = poison(
                    self.header["poison"] * 1000 + round_, index, min(memory.size, 4099)
                )
                memory.repeat(self.poisons[name])
        for op in self.header["ops"]:
            self.do(op)
        self.check_guards("the plan")

    def unwritten(self, name: str, data: Any) -> int:  # noqa: ANN401 - the bytes that came back
        """Return the bytes of whole elements of an output that still hold its poison."""
        if name not in self.poisons or not data.size:
            return 0
        item = int(max(1, data.size // max(1, self.buffers[name]["count"])))
        same: Any = data == np.resize(self.poisons[name], data.size)
        if item >= _RUN:
            return int(np.count_nonzero(same.reshape(-1, item).all(axis=1))) * item
        # A few bytes equal the poison by chance; a run of eight does not. Fewer in all tell nothing.
        if data.size < _RUN:
            return 0
        whole = data.size // _RUN * _RUN
        kept = int(np.count_nonzero(same[:whole].reshape(-1, _RUN).all(axis=1))) * _RUN
        return kept + (data.size - whole if same[-_RUN:].all() else 0)

    def do(self, op: dict[str, Any]) -> None:
        """Run one operation and wait for it."""
        kind = op["op"]
        if kind == "launch":
            self.launch(op)
        elif kind == "fill":
            pattern = np.frombuffer(bytes.fromhex(op["pattern"]), dtype=np.uint8)
            self.memory[op["buffer"]].repeat(pattern)
        elif kind == "copy":
            source, target = self.memory[op["from"]], self.memory[op["to"]]
            if source.size:
                check(
                    self.driver.cuMemcpyDtoD(target.address, source.address, source.size), "copying a buffer"
                )
        elif kind == "symbol":
            self._fill_symbol(op)
        else:
            self.loop(op)

    def _fill_symbol(self, op: dict[str, Any]) -> None:
        found = self.driver.cuLibraryGetGlobal(self.code.handle, op["symbol"].encode())
        if "NOT_FOUND" in found[0].name:
            raise Failed(
                fault("launch_config", f'symbol {op["symbol"]!r} is not in the cubin: declare it extern "C"')
            )
        address, size = check(found, f"finding symbol {op['symbol']!r}")
        source = self.memory[op["from"]]
        if source.size > size:
            message = f"symbol {op['symbol']!r} holds {size} bytes, {op['from']!r} has {source.size}"
            raise Failed(fault("launch_config", message))
        check(self.driver.cuMemcpyDtoD(int(address), source.address, source.size), "filling a symbol")

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
        from cuda.core import launch

        name, kernel = op["kernel"], self.kernels[op["kernel"]]
        self.prepare(op)
        with self.watch(op):
            try:
                launch(self.stream, config_of(op), kernel, *[self.argument(a) for a in op["args"]])
            except Failed:
                raise
            except Exception as exc:
                doing = f"launching {name} with grid {op['grid']} and block {op['block']}"
                raise Failed(classify(str(exc), doing)) from exc
            self.launches += 1
            result = self.driver.cuStreamSynchronize(self.stream.handle)
            check(
                result if isinstance(result, tuple) else (result,), f"running {name} (launch {self.launches})"
            )

    def prepare(self, op: dict[str, Any]) -> None:
        """Check a launch against the limits and allow what it asks for; raises `Failed` with the arithmetic."""
        key = (op["kernel"], tuple(op["grid"]), tuple(op["block"]), op["shared"], str(op["cluster"]))
        if key not in self.refused:
            self.refused[key] = self._refusal(op)
        message = self.refused[key]
        if message is not None:
            raise Failed(fault("launch_config", message, grid=op["grid"], block=op["block"]))

    def _refusal(self, op: dict[str, Any]) -> str | None:
        kernel, grid, block = self.kernels[op["kernel"]], tuple(op["grid"]), tuple(op["block"])
        cluster = tuple(op["cluster"]) if op["cluster"] else None
        facts = kernel_limits(op["kernel"], kernel)
        found = limits.refuse(
            facts, self.limits, grid=grid, block=block, shared_bytes=op["shared"], cluster=cluster
        )
        if found is not None:
            return found
        allow_shared(self.driver, kernel, facts, op["shared"], self.device.device_id)
        if cluster and math.prod(cluster) > limits.PORTABLE_CLUSTER:
            allow(self.driver, kernel, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1, self.device.device_id)
        if cluster and math.prod(cluster) > 1:
            most = int(kernel.occupancy.max_potential_cluster_size(config_of(op), stream=self.stream))
            found = limits.refuse_cluster(facts, cluster, most)
        if found is None and op["cooperative"]:
            per_sm = int(
                kernel.occupancy.max_active_blocks_per_multiprocessor(math.prod(block), op["shared"])
            )
            found = limits.refuse_cooperative(facts, self.limits, grid=grid, per_sm=per_sm)
        return found

    def argument(self, arg: dict[str, Any]) -> Any:  # noqa: ANN401 - what cuda.core takes
        """Return one launch argument."""
        if "pointer" in arg:
            return self.memory[arg["pointer"]].address
        if "tensor_map" in arg:
            from cuda_harness.tools.execute.cuda.tensor_map import encode

            spec = arg["tensor_map"]
            return encode(self.memory[spec["buffer"]].address, spec)
        return typed_value(arg["value"], arg["dtype"])

    def check_guards(self, after: str) -> None:
        """Raise an out-of-bounds fault when a guard byte changed."""
        for name, memory in self.memory.items():
            found = memory.guard_fault()
            if found is not None:
                where, distance = found
                message = f"a write {distance} bytes {where} of {name!r}, seen after {after}"
                raise Failed(
                    fault("out_of_bounds", message, buffer=name, side=where, distance_bytes=distance)
                )


def run_job(
    header: dict[str, Any], blobs: list[bytes], device: Any, modules: Modules | None = None,  # noqa: ANN401
) -> tuple[dict[str, Any], list[bytes]]:  # fmt: skip
    """Return the answer to a job and the output blobs, call by call; buffers are given back when the context lives."""
    runner = Runner(header, blobs[0], device, modules)
    try:
        return _calls(runner, header, blobs[1:])
    finally:
        runner.close()


def _calls(
    runner: Runner, header: dict[str, Any], contents: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    names, outputs, facts = header["inputs"], [], []
    results = [b["name"] for b in header["buffers"] if b["role"] in {"out", "inout"}]
    read_only = [b["name"] for b in header["buffers"] if b["role"] == "in"]
    spent = 0.0
    for index in range(header["calls"]):
        given = dict(zip(names, contents[index * len(names) :], strict=False))
        start = time.perf_counter()
        runner.call(given, index)
        spent += time.perf_counter() - start
        for name in read_only:
            before = np.frombuffer(given[name], dtype=np.uint8)
            if not np.array_equal(runner.memory[name].read(), before):
                message = f"input {name!r} was modified; inputs are read-only"
                return fault("input_modified", message, buffer=name), []
        unwritten = {}
        for name in results:
            data = runner.memory[name].read()
            unwritten[name] = runner.unwritten(name, data)
            if header["full_output"]:
                outputs.append(data.tobytes())
        facts.append(unwritten)
    return {
        "status": "ok", "seconds": spent, "outputs": results, "unwritten": facts, "launches": runner.launches,
    }, outputs  # fmt: skip


def _kernel_names(ops: list[dict[str, Any]]) -> set[str]:
    names = set()
    for op in ops:
        if op["op"] == "launch":
            names.add(op["kernel"])
        elif op["op"] == "while":
            names |= _kernel_names(op["body"])
    return names
