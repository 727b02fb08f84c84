"""What `generate` returns: the outcome, its evidence, and the kernel as a function."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cuda_harness.agents.context import RunContext, Services
from cuda_harness.graph.arrays import Array, Given, one_device, read_array
from cuda_harness.state.errors import ConfigError, StateError
from cuda_harness.state.harness import HarnessState, Result
from cuda_harness.state.ir import Assumption, KernelIR, Tensor
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Timing, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cuda_harness.graph.report.figures import Kind
    from cuda_harness.tools.execute.protocol import Executor


class RunResult:
    """A finished run. Call it on arrays to run the kernel."""

    def __init__(self, state: HarnessState, context: RunContext) -> None:
        if state.result is None:
            msg = "the run ended without a result"
            raise StateError(msg)
        self._result: Result = state.result
        self._context = context
        self.state = state

    @property
    def status(self) -> Literal["verified", "unverified", "failed", "question"]:
        """`verified`: accepted; `unverified`: the best kernel is undecided; `failed`: there is none.

        `question`: the run waits for an answer; see `question`.
        """
        return self._result.status

    @property
    def run_dir(self) -> Path:
        """The run's folder."""
        return Path(self._result.run_dir)

    @property
    def document(self) -> dict[str, Any]:
        """The content of `result.json`."""
        return self._result.document

    @property
    def ir(self) -> KernelIR | None:
        """The IR, `None` if planning failed."""
        return self.state.ir

    @property
    def kernel(self) -> Kernel | None:
        """The delivered kernel, `None` when there is none."""
        if self._result.best is None:
            return None
        from cuda_harness.tools.archive.run_folder import RunFolder

        return RunFolder(self.run_dir).load_kernel(self._result.best)

    @property
    def verdict(self) -> Verdict | None:
        """The judgement of the delivered kernel, or of the one that came furthest."""
        found = self.document.get("verdict")
        return Verdict.model_validate(found) if found else None

    @property
    def timing(self) -> Timing | None:
        """Its time on a GPU, `None` where it was not measured."""
        found = self.document.get("timing")
        return Timing.model_validate(found) if found else None

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Choices that the request left open."""
        return self.ir.assumptions if self.ir else ()

    @property
    def question(self) -> dict[str, Any] | None:
        """What the run asks: `understood`, `sizes` and `assumptions`; `None` when it waits for nothing."""
        return self.document.get("question")

    @property
    def stop(self) -> dict[str, Any]:
        """Why the run ended: `reason` and `detail`."""
        found: dict[str, Any] = self.document["stop"]
        return found

    def __repr__(self) -> str:
        reason = self.stop["reason"]
        return f"<RunResult {self.status} ({reason}) in {str(self.run_dir)!r}>"

    def _repr_html_(self) -> str:
        """Return the notebook's view: status, ladder, kernel, time, lineage; every text of the run is escaped."""
        from cuda_harness.graph.report.evidence import read_evidence
        from cuda_harness.graph.report.page import fragment

        return fragment(read_evidence(self.run_dir, result=self.document))

    def report(self, out: str | Path | None = None) -> Path:
        """Write the self-contained HTML report and return its path (default: `report.html` in the run's folder).

        Raises:
            ConfigError: If it cannot be written; the user acts.
        """
        from cuda_harness.graph.report.page import write_report

        return write_report(self.run_dir, Path(out) if out is not None else None)

    def plot(self, kind: "Kind" = "ladder") -> "Figure":
        """Return a figure: `ladder` (seconds by stage), `time` (by attempt) or `roofline`; needs the extra `plots`.

        Raises:
            ConfigError: If matplotlib is missing, or nothing of it was measured; the user acts.
        """
        from cuda_harness.graph.report.evidence import read_evidence
        from cuda_harness.graph.report.figures import figure_of

        return figure_of(read_evidence(self.run_dir), kind)

    def __call__(self, *arrays: Any, **scalars: float) -> Any:  # noqa: ANN401 - one array or a dict of them
        """Run the kernel on `arrays` (inputs in IR order) and return the output, a dict when there are several.

        Dims follow from the shapes; a scalar left out takes the IR's value. Inputs are never changed. Host arrays
        (NumPy, or any library's through DLPack) run on the CPU executor, CUDA arrays on their GPU; the outputs are
        arrays of the first input's library on its device.

        Raises:
            ConfigError: On a wrong number of arrays, dtype, shape, device, layout or scalar; the user acts.
        """
        kernel = self.kernel
        if kernel is None or self.ir is None:
            msg = f"this run has no kernel to call (status {self.status!r})"
            raise ConfigError(msg, remedy=f"see {str(self.run_dir / 'result.json')!r}")
        given = read_inputs(self.ir, arrays)
        inputs = check_inputs(self.ir, {name: g.array for name, g in given.items()})
        device = one_device(given)
        dims = infer_dims(self.ir, inputs)
        values = check_scalars(self.ir, scalars)
        services = Services(self._context, self.run_dir)
        try:
            with executor_for(device, services) as executor:
                outputs = run_kernel(
                    kernel, self.ir, inputs, dims, values, executor=executor, target=services.target
                )
        finally:
            services.close()
        back = next(iter(given.values())).back if given else _as_it_is
        made = {name: back(array) for name, array in outputs.items()}
        return next(iter(made.values())) if len(made) == 1 else made


def _as_it_is(array: Array) -> Array:
    return array


@contextlib.contextmanager
def executor_for(device: str, services: Services) -> Iterator["Executor"]:
    """Lend the executor for arrays on `device`: CUDA arrays run on their GPU, host arrays on the CPU executor.

    An executor object of the caller's own takes host arrays itself; where there is no CPU executor (no g++) the
    run's does.

    Raises:
        ExecutorUnavailable: If the GPU cannot be used.
    """
    from cuda_harness.state.errors import ExecutorUnavailable
    from cuda_harness.tools.execute.registry import executor

    own = services.context.executor
    if device == "cpu" and own is not None and not isinstance(own, str):
        yield own
        return
    try:
        made = executor(device, settings=services.settings)
    except ExecutorUnavailable:
        if device != "cpu":
            raise
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


def check_inputs(ir: KernelIR, arrays: dict[str, Array]) -> dict[str, Array]:
    """Return the inputs as C-contiguous arrays if each has the exact dtype and rank; raises ConfigError."""
    from cuda_harness.tools.execute.dtypes import np_dtype

    found = {}
    for tensor in ir.inputs:
        array = arrays[tensor.name]
        wanted = np_dtype(tensor.dtype)
        if array.dtype != wanted:
            msg = f"{tensor.name!r} has dtype {array.dtype}, the kernel takes {tensor.dtype}"
            raise ConfigError(msg, remedy=f"convert it, for example {tensor.name}.astype({str(wanted)!r})")
        if array.ndim != len(tensor.shape):
            msg = f"{tensor.name!r} has shape {array.shape}, the kernel takes [{', '.join(map(str, tensor.shape))}]"
            raise ConfigError(msg, remedy="reshape it")
        found[tensor.name] = np.ascontiguousarray(array)
    return found


def infer_dims(ir: KernelIR, inputs: dict[str, Array]) -> dict[str, int]:
    """Return the dims that the input shapes imply; dims that no shape names keep their target value.

    Raises:
        ConfigError: If shapes contradict each other or the IR's rules.
    """
    dims: dict[str, int] = {}
    free = {d.name for d in ir.dims}
    for tensor in ir.inputs:
        for expr, size in zip(tensor.shape, inputs[tensor.name].shape, strict=True):
            if expr.text in free and dims.setdefault(expr.text, size) != size:
                msg = f"{tensor.name!r} gives {expr.text} = {size}, an earlier input gave {dims[expr.text]}"
                raise ConfigError(msg, remedy="make the shapes agree")
    for dim in ir.dims:
        dims.setdefault(dim.name, dim.value)
    for tensor in ir.inputs:
        if tensor.dims(dims) != inputs[tensor.name].shape:
            wanted = _shape_text(tensor, dims)
            msg = f"{tensor.name!r} has shape {inputs[tensor.name].shape}, the kernel takes {wanted}"
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
