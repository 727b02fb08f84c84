"""A launch plan at run time, with nothing but the standard library and NumPy."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cuda_harness.tools.export.exported.expressions import KernelError, evaluate, solved

ITEM_SIZES = {
    "float8_e4m3": 1, "float8_e5m2": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "int16": 2,
    "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
}  # fmt: skip


class PlanDevice(Protocol):
    """What runs the operations of a plan, in order, on one stream."""

    num_sms: int

    def launch(self, kernel: str, config: Mapping[str, Any], args: Sequence[Any]) -> None:
        """Launch a kernel; `config` has grid, block, shared, cooperative and cluster."""
        ...

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        """Set `count` elements to `pattern`."""
        ...

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes within the device."""
        ...

    def symbol(self, name: str, source: int, size: int) -> None:
        """Copy a buffer onto a constant array."""
        ...

    def is_set(self, address: int, size: int) -> bool:
        """Return whether any of these bytes is not zero, after all that was asked before."""
        ...

    def blocks_per_sm(self, kernel: str, threads: int, shared: int) -> int:
        """Return how many blocks of a kernel one multiprocessor holds."""
        ...

    def tensor_map(self, address: int, spec: Mapping[str, Any]) -> object:
        """Return a descriptor as a launch argument."""
        ...


class Plan:
    """A kernel's plan for any sizes that its IR admits."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.tensors: list[dict[str, Any]] = document["tensors"]
        self.inputs = [t for t in self.tensors if t["role"] != "out"]
        self.outputs = [t for t in self.tensors if t["role"] != "in"]
        self.dtypes = {b["name"]: str(b["dtype"]) for b in [*self.tensors, *document["scratch"]]}
        self.shapes = {b["name"]: b["shape"] for b in [*self.tensors, *document["scratch"]]}

    def infer_dims(
        self, shapes: Mapping[str, Sequence[int]], given: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Return the sizes that the inputs' shapes imply.

        Args:
            shapes: Of the inputs by name.
            given: Sizes that no shape tells; those left out keep their target value.

        Raises:
            KernelError: If shapes contradict each other or the kernel's rules.
        """
        dims: dict[str, int] = dict(given or {})
        known = {d["name"] for d in self.document["dims"]}
        axes: list[tuple[str, str, int]] = []
        for tensor in self.inputs:
            name, shape = tensor["name"], tuple(shapes[tensor["name"]])
            if len(shape) != len(tensor["shape"]):
                msg = f"{name!r} has {len(shape)} axes, the kernel takes {self._wanted(tensor, {})}"
                raise KernelError(msg)
            axes += [(name, text, size) for text, size in zip(tensor["shape"], shape, strict=True)]
        for name, text, size in axes:
            if text in known and dims.setdefault(text, size) != size:
                msg = f"{name!r} gives {text} = {size}, before it was {dims[text]}"
                raise KernelError(msg)
        for _, text, size in axes:
            found = solved(text, size, known - dims.keys(), dims)
            dims.update(found)
        for dim in self.document["dims"]:
            dims.setdefault(dim["name"], dim["value"])
        for tensor in self.inputs:
            if tuple(shapes[tensor["name"]]) != self.shape(tensor["name"], dims):
                msg = (
                    f"{tensor['name']!r} has shape {tuple(shapes[tensor['name']])}, the kernel takes "
                    f"{self._wanted(tensor, dims)}"
                )
                raise KernelError(msg)
        self.check_sizes(dims)
        return dims

    def _wanted(self, tensor: Mapping[str, Any], dims: Mapping[str, int]) -> str:
        parts = [f"{e}={dims[e]}" if e in dims else str(e) for e in tensor["shape"]]
        return "[" + ", ".join(parts) + "]"

    def shape(self, name: str, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of a tensor or scratch buffer at these sizes."""
        names = {**dims, **self.document["tunables"], "num_sms": self.document.get("num_sms", 1)}
        return tuple(evaluate(e, names, lambda _kernel: 1) for e in self.shapes[name])

    def check_sizes(self, dims: Mapping[str, int]) -> None:
        """Check sizes against the rules of the IR; raises KernelError naming the rule."""
        for d in self.document["dims"]:
            n, name = dims[d["name"]], d["name"]
            if d["fixed"] and n != d["value"]:
                msg = f"this kernel is made for {name} = {d['value']}, not {n}"
            elif n < d["min"] or (d["max"] is not None and n > d["max"]):
                top = "" if d["max"] is None else f" and at most {d['max']}"
                msg = f"this kernel needs {name} of at least {d['min']}{top}, not {n}"
            elif n % d["multiple_of"]:
                msg = f"this kernel needs {name} a multiple of {d['multiple_of']}, not {n}"
            elif d["power_of_two"] and int(n) & (int(n) - 1):  # a size that torch traces knows no bits
                msg = f"this kernel needs {name} a power of two, not {n}"
            else:
                continue
            raise KernelError(msg)
        for text in self.document["constraints"]:
            if not evaluate(text, dims, lambda _kernel: 1):
                msg = f"this kernel needs {text}, and has {dict(dims)}"
                raise KernelError(msg)

    def scalars(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return every scalar's value; raises KernelError on an unknown one or a changed fixed one."""
        known = {s["name"]: s for s in self.document["scalars"]}
        for name, value in given.items():
            if name not in known:
                msg = f"unknown scalar {name!r}; this kernel takes: {', '.join(known) or 'none'}"
                raise KernelError(msg)
            if known[name]["fixed"] and value != number(known[name]["value"]):
                msg = f"scalar {name!r} is fixed at {known[name]['value']} in this kernel"
                raise KernelError(msg)
        return {n: given.get(n, number(s["value"])) for n, s in known.items()}

    def macros(self, dims: Mapping[str, int]) -> dict[str, int]:
        """Return tunables and the macros over sizes, as the source is compiled with."""
        names = {**dims, **self.document["tunables"]}
        found = {n: evaluate(e, names, lambda _kernel: 1) for n, e in self.document["defines"].items()}
        return {**self.document["tunables"], **found}

    def run(
        self,
        device: PlanDevice,
        dims: Mapping[str, int],
        scalars: Mapping[str, Any],
        addresses: Mapping[str, int],
        scratch: Callable[[str, int], int],
    ) -> None:
        """Run the plan once.

        Args:
            device: What runs the operations.
            dims: Every size.
            scalars: Every scalar.
            addresses: Device address of every tensor.
            scratch: Returns the address of a new buffer, given its name and its bytes.
        """
        _Run(self, device, dims, scalars, addresses, scratch).steps(self.document["steps"])


class _Run:
    """One pass over the steps."""

    def __init__(
        self,
        plan: Plan,
        device: PlanDevice,
        dims: Mapping[str, int],
        scalars: Mapping[str, Any],
        addresses: Mapping[str, int],
        scratch: Callable[[str, int], int],
    ) -> None:
        self.plan, self.device, self.given = plan, device, scalars
        self.names: dict[str, int] = {**dims, **plan.document["tunables"], "num_sms": device.num_sms}
        self.counts: dict[str, int] = {}
        self.addresses = dict(addresses)
        for buffer in [*plan.tensors, *plan.document["scratch"]]:
            count = 1
            for text in buffer["shape"]:
                size = self.value(text)
                if size < 0:
                    msg = f"{buffer['name']!r} would have a negative size"
                    raise KernelError(msg)
                count *= size
            self.counts[buffer["name"]] = count
        for buffer in plan.document["scratch"]:
            name = buffer["name"]
            self.addresses[name] = scratch(name, self.size(name))

    def value(self, text: str | int) -> int:
        return evaluate(text, self.names, self.occupancy)

    def size(self, name: str) -> int:
        return self.counts[name] * ITEM_SIZES[self.plan.dtypes[name]]

    def occupancy(self, kernel: str) -> int:
        block, shared = self.plan.document["occupancy"][kernel]
        threads = 1
        for text in block:
            threads *= self.value(text)
        return self.device.blocks_per_sm(kernel, threads, self.value(shared))

    def steps(self, steps: Sequence[Mapping[str, Any]]) -> None:
        for step in steps:
            if step["when"] is None or self.value(step["when"]):
                self.step(step)

    def step(self, step: Mapping[str, Any]) -> None:
        kind = step["do"]
        if kind == "launch":
            self.launch(step)
        elif kind == "fill":
            if self.counts[step["buffer"]]:
                self.device.fill(
                    self.addresses[step["buffer"]],
                    bytes.fromhex(step["pattern"]),
                    self.counts[step["buffer"]],
                )
        elif kind == "copy":
            self.copy(step["to"], step["from"])
        elif kind == "symbol":
            if self.counts[step["from"]]:
                self.device.symbol(step["symbol"], self.addresses[step["from"]], self.size(step["from"]))
        elif kind == "repeat":
            for index in range(self.value(step["count"])):
                self.names[step["var"]] = index
                self.steps(step["steps"])
            self.names.pop(step["var"], None)
        else:
            item = ITEM_SIZES[self.plan.dtypes[step["flag"]]]
            for _ in range(self.value(step["max"])):
                if not self.device.is_set(self.addresses[step["flag"]], item):
                    return
                self.steps(step["steps"])

    def copy(self, to: str, source: str) -> None:
        if self.size(to) != self.size(source):
            msg = f"copy: {to!r} has {self.size(to)} bytes and {source!r} has {self.size(source)}"
            raise KernelError(msg)
        if self.size(to):
            self.device.copy(self.addresses[to], self.addresses[source], self.size(to))

    def launch(self, step: Mapping[str, Any]) -> None:
        grid, block = self.axes(step["grid"]), self.axes(step["block"])
        if min(grid) < 0:
            msg = f"{step['kernel']}: the grid {grid} is negative"
            raise KernelError(msg)
        if 0 in grid:
            return
        config = {
            "grid": grid, "block": block, "shared": self.value(step["shared"]), "cooperative": step["cooperative"],
            "cluster": self.axes(step["cluster"]) if step["cluster"] else None,
        }  # fmt: skip
        self.device.launch(step["kernel"], config, [self.argument(a) for a in step["args"]])

    def axes(self, texts: Sequence[str | int]) -> tuple[int, int, int]:
        values = [self.value(t) for t in texts]
        padded = [*values, 1, 1]
        return padded[0], padded[1], padded[2]

    def argument(self, arg: Mapping[str, Any]) -> object:
        if "buffer" in arg:
            return self.addresses[arg["buffer"]]
        if "pick" in arg:
            index = self.value(arg["index"])
            if not 0 <= index < len(arg["pick"]):
                msg = f"pick index {index} is outside 0..{len(arg['pick']) - 1}"
                raise KernelError(msg)
            return self.addresses[arg["pick"][index]]
        if "tensor_map" in arg:
            spec = arg["tensor_map"]
            name = spec["tensor"]
            shape = [self.value(e) for e in self.plan.shapes[name]]
            box = [self.value(e) for e in spec["box"]]
            return self.device.tensor_map(
                self.addresses[name], {**spec, "dtype": self.plan.dtypes[name], "shape": shape, "box": box}
            )
        if "scalar" in arg:
            return typed(self.given[arg["scalar"]], arg["dtype"], arg["scalar"])
        return typed(self.value(arg["expr"]), arg["dtype"], str(arg["expr"]))


def number(value: float | str) -> float:
    """Return a scalar of the document; numbers that JSON lacks travel as text."""
    return float(value) if isinstance(value, str) else value


def typed(value: float, dtype: str, what: str) -> object:
    """Return a launch argument in exactly its width; raises KernelError when an integer does not fit.

    Half types travel as the integer of their bits.
    """
    if dtype in {"float16", "bfloat16", "float8_e4m3", "float8_e5m2"}:
        if dtype == "float16":
            half = np.asarray(value, dtype=np.float64).astype(np.float16)
            return half.view(np.uint16)[()]
        import ml_dtypes

        kind = {"float8_e4m3": "float8_e4m3fn"}.get(dtype, dtype)
        small = np.asarray(value, dtype=np.float64).astype(np.dtype(getattr(ml_dtypes, kind)))
        return small.view(np.uint16 if dtype == "bfloat16" else np.uint8)[()]
    if dtype in {"float32", "float64"}:
        return np.dtype(dtype).type(value)
    if dtype == "bool":
        return np.bool_(bool(value))
    info = np.iinfo(dtype)
    if value != int(value) or not int(info.min) <= int(value) <= int(info.max):
        msg = f"{what} = {value} does not fit {dtype}"
        raise KernelError(msg)
    return np.dtype(dtype).type(int(value))
