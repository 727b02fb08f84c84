"""What `generate` returns: the outcome, its evidence, and the kernel as a function."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cuda_harness.agents.context import RunContext
from cuda_harness.graph.calling import call
from cuda_harness.state.errors import ConfigError, StateError
from cuda_harness.state.harness import HarnessState, Result
from cuda_harness.state.ir import Assumption, KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Timing, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cuda_harness.graph.report.figures import Kind
    from cuda_harness.tools.export.exported.kernel import CudaKernel


class RunResult:
    """A finished run. Call it on arrays to run the kernel."""

    def __init__(self, state: HarnessState, context: RunContext) -> None:
        if state.result is None:
            msg = "the run ended without a result"
            raise StateError(msg)
        self._result: Result = state.result
        self._context = context
        self._loaded: dict[str, CudaKernel] = {}
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
        (NumPy, or any library's through DLPack) run on the CPU executor, CUDA arrays on their GPU and in this process, as
        an export would run them: on torch's current stream for tensors, else on the default stream. The outputs are
        arrays of the first input's library on its device (`DeviceArray`s where it has none).

        Raises:
            ConfigError: On a wrong number of arrays, dtype, shape, device, layout or scalar; the user acts.
        """
        kernel = self.kernel
        if kernel is None or self.ir is None:
            msg = f"this run has no kernel to call (status {self.status!r})"
            raise ConfigError(msg, remedy=f"see {str(self.run_dir / 'result.json')!r}")
        return call(
            kernel, self.ir, arrays, scalars, context=self._context, run_dir=self.run_dir, loaded=self._loaded
        )
