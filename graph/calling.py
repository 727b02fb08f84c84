"""A delivered kernel called on arrays: what is checked before anything runs, and the two places where it runs."""

import contextlib
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cuda_harness.agents.context import RunContext, Services
from cuda_harness.graph.arrays import Array, Given, one_device, read_array
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.kernel import Kernel
from cuda_harness.tools.export.exported.expressions import solved

if TYPE_CHECKING:
    from cuda_harness.tools.execute.protocol import Executor
    from cuda_harness.tools.export.exported.kernel import CudaKernel


def call(
    kernel: Kernel,
    ir: KernelIR,
    arrays: tuple[Any, ...],
    scalars: dict[str, float],
    *,
    context: RunContext,
    run_dir: Path,
    loaded: MutableMapping[str, "CudaKernel"],
) -> Any:  # noqa: ANN401 - one array or a dict of them
    """Return the kernel's output on `arrays`, a dict when there are several; host arrays on an executor, CUDA arrays here.

    Args:
        kernel: The kernel.
        ir: Its IR.
        arrays: Inputs in IR order.
        scalars: By name.
        context: Of the run.
        run_dir: The run's folder.
        loaded: Kernels that are on a GPU already, by device; a new one is added.

    Raises:
        ConfigError: On a wrong number of arrays, dtype, shape, device, layout or scalar; the user acts.
    """
    given = read_inputs(ir, arrays)
    check_inputs(ir, given)
    device = one_device(given)
    dims = infer_dims(ir, {name: g.shape for name, g in given.items()})
    values = check_scalars(ir, scalars)
    services = Services(context, run_dir)
    try:
        if device == "cpu":
            inputs = {name: np.ascontiguousarray(g.array) for name, g in given.items()}
            with host_executor(services) as executor:
                outputs = run_kernel(
                    kernel, ir, inputs, dims, values, executor=executor, target=services.target
                )
        else:
            if device not in loaded:
                loaded[device] = load_on(device, kernel, ir, services)
            outputs = run_on_gpu(loaded[device], device, {n: g.array for n, g in given.items()}, values)
    finally:
        services.close()
    back = next(iter(given.values())).back if given else _as_it_is
    made = {name: back(array) for name, array in outputs.items()}
    return next(iter(made.values())) if len(made) == 1 else made


def _as_it_is(array: Array) -> Array:
    return array


def load_on(device: str, kernel: Kernel, ir: KernelIR, services: Services) -> "CudaKernel":
    """Return the kernel as an export holds it: its cubin for this GPU, and its source for other sizes.

    Raises:
        ExecutorUnavailable: If the GPU cannot be used from here.
    """
    from cuda_harness.state.errors import CompilerUnavailable, ExecutorUnavailable
    from cuda_harness.tools.export.cuda_core import compile_for, load

    try:
        from cuda.core import Device

        major, minor = Device(int(device.partition(":")[2])).compute_capability
    except Exception as exc:
        remedy = "pip install 'cuda-harness[cu13]', and see `cuda-harness doctor`"
        raise ExecutorUnavailable(device, f"{type(exc).__name__}: {exc}", remedy=remedy) from exc
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    try:
        key, cubin = compile_for(ir, kernel, arch=arch, compiler=services.compiler)
    except CompilerUnavailable:
        return load(ir, kernel)
    return load(ir, kernel, {key: cubin})


def run_on_gpu(
    kernel: "CudaKernel", device: str, arrays: Mapping[str, Any], scalars: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the kernel computes on CUDA arrays, by output name; raises ConfigError when it does not run on them."""
    from cuda_harness.tools.export.exported.arrays import CudaError
    from cuda_harness.tools.export.exported.expressions import KernelError

    try:
        made = kernel(*arrays.values(), **scalars)
    except KernelError as exc:
        raise ConfigError(str(exc), remedy="see dims, tensors and constraints in ir.json") from exc
    except CudaError as exc:
        msg = f"the kernel did not run on {device} with these inputs: {exc}"
        raise ConfigError(msg, remedy="after an illegal access this process must be started again") from exc
    outputs = kernel.plan.outputs
    return made if len(outputs) > 1 else {outputs[0]["name"]: made}


@contextlib.contextmanager
def host_executor(services: Services) -> Iterator["Executor"]:
    """Lend the executor for host arrays: the CPU executor, or an object of the caller's own.

    Where there is no CPU executor (no g++) the run's own takes them.
    """
    from cuda_harness.state.errors import ExecutorUnavailable
    from cuda_harness.tools.execute.registry import executor

    own = services.context.executor
    if own is not None and not isinstance(own, str):
        yield own
        return
    try:
        made = executor("cpu", settings=services.settings)
    except ExecutorUnavailable:
        yield services.executor
        return
    try:
        yield made
    finally:
        made.close()


def read_inputs(ir: KernelIR, arrays: tuple[Any, ...]) -> dict[str, Given]:
    """Return the arguments by input name, read but not yet checked; raises ConfigError."""
    expected = ir.inputs
    if len(arrays) != len(expected):
        names = ", ".join(f"{t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]" for t in expected)
        msg = f"{len(expected)} arrays are needed ({names}), {len(arrays)} were given"
        raise ConfigError(msg, remedy="pass the inputs in IR order; scalars by keyword")
    return {t.name: read_array(t.name, value) for t, value in zip(expected, arrays, strict=True)}


def check_inputs(ir: KernelIR, given: Mapping[str, Given]) -> None:
    """Check that each input has the exact dtype and rank; raises ConfigError."""
    from cuda_harness.tools.execute.dtypes import np_dtype

    for tensor in ir.inputs:
        found = given[tensor.name]
        if found.dtype != tensor.dtype:
            msg = f"{tensor.name!r} has dtype {found.dtype}, the kernel takes {tensor.dtype}"
            wanted = str(np_dtype(tensor.dtype))
            raise ConfigError(msg, remedy=f"convert it, for example {tensor.name}.astype({wanted!r})")
        if len(found.shape) != len(tensor.shape):
            msg = f"{tensor.name!r} has shape {found.shape}, the kernel takes [{', '.join(map(str, tensor.shape))}]"
            raise ConfigError(msg, remedy="reshape it")


def infer_dims(ir: KernelIR, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the dims that the input shapes imply; dims that no shape names keep their target value.

    Raises:
        ConfigError: If shapes contradict each other or the IR's rules.
    """
    dims: dict[str, int] = {}
    free = {d.name for d in ir.dims}
    for tensor in ir.inputs:
        for expr, size in zip(tensor.shape, shapes[tensor.name], strict=True):
            if expr.text in free and dims.setdefault(expr.text, size) != size:
                msg = f"{tensor.name!r} gives {expr.text} = {size}, an earlier input gave {dims[expr.text]}"
                raise ConfigError(msg, remedy="make the shapes agree")
    for tensor in ir.inputs:
        for expr, size in zip(tensor.shape, shapes[tensor.name], strict=True):
            dims |= solved(expr.text, size, free - dims.keys(), dims)
    for dim in ir.dims:
        dims.setdefault(dim.name, dim.value)
    for tensor in ir.inputs:
        if tensor.dims(dims) != shapes[tensor.name]:
            wanted = _shape_text(tensor, dims)
            msg = f"{tensor.name!r} has shape {shapes[tensor.name]}, the kernel takes {wanted}"
            raise ConfigError(msg, remedy="make the shapes agree")
    if not ir.admits(dims):
        rules = [f"{d.name}={dims[d.name]}" for d in ir.dims if not d.admits(dims[d.name])] or list(
            map(str, ir.constraints)
        )
        msg = f"the kernel is not made for these sizes: {', '.join(rules)}"
        raise ConfigError(msg, remedy="see dims and constraints in ir.json")
    return dims


def check_scalars(ir: KernelIR, given: dict[str, float]) -> dict[str, int | float | bool]:
    """Return all scalars by name; raises ConfigError on an unknown or fixed one."""
    known = {s.name: s for s in ir.scalars}
    values: dict[str, int | float | bool] = {s.name: s.value for s in ir.scalars}
    for name, value in given.items():
        if name not in known:
            msg = f"unknown scalar {name!r}"
            raise ConfigError(msg, remedy=f"this kernel takes: {', '.join(known) or 'none'}")
        if known[name].fixed and value != known[name].value:
            msg = f"scalar {name!r} is fixed at {known[name].value} in this kernel"
            raise ConfigError(msg, remedy="ask for a kernel in which it is free")
        values[name] = value
    return values


def run_kernel(
    kernel: Kernel,
    ir: KernelIR,
    inputs: dict[str, Array],
    dims: dict[str, int],
    scalars: dict[str, int | float | bool],
    *,
    executor: "Executor",
    target: str,
) -> dict[str, Array]:
    """Return what the kernel computes on `executor` by output name, shaped as the IR says.

    Raises:
        ConfigError: If the plan cannot run at these sizes, or the kernel fails on these inputs.
    """
    from cuda_harness.tools.execute.protocol import Job, JobOk
    from cuda_harness.tools.ir.program import PlanFault, expand
    from cuda_harness.tools.toolchain.source import inspect

    program = expand(
        ir, kernel.plan, dims=dims, scalars=scalars, tunables=None,
        kernels=inspect(kernel.source).kernels, device=executor.device(),
    )  # fmt: skip
    if isinstance(program, PlanFault):
        msg = f"the kernel cannot run at these sizes: {program.message}"
        raise ConfigError(msg)
    job = Job(
        source=kernel.source, program=program, calls=(inputs,), fast_math=kernel.plan.compile.fast_math,
        max_registers=kernel.plan.compile.max_registers, arch=target, deadline_s=600.0,
    )  # fmt: skip
    done = executor.run(job)
    if not isinstance(done, JobOk):
        msg = f"the kernel did not run on {executor.name} with these inputs: {done.message}"
        raise ConfigError(msg, remedy=getattr(done, "remedy", ""))
    return {t.name: done.calls[0].arrays[t.name].reshape(t.dims(dims)) for t in ir.outputs}


def _shape_text(tensor: Tensor, dims: dict[str, int]) -> str:
    sizes = tensor.dims(dims)
    return (
        "["
        + ", ".join(
            f"{e}={n}" if e.constant is None else str(n) for e, n in zip(tensor.shape, sizes, strict=True)
        )
        + "]"
    )
