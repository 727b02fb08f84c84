"""What is graded: a compiled program, or a kernel whose plan an executor runs."""

import shutil
import stat
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.tools.benchmarks.contain import contains, run_contained
from cuda_harness.tools.benchmarks.gpu import Gpu
from cuda_harness.tools.benchmarks.task import Task, TaskTensor
from cuda_harness.tools.execute.cuda.lock import LockTimeout
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import Executor, Job, JobNotRun, JobOk
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.process import Finished, ProgramMissing, allowed_environment, run
from cuda_harness.tools.toolchain.source import inspect

RUN_SECONDS = 60.0
BUILD_SECONDS = 120.0


@dataclass(frozen=True)
class Ran:
    """How one run ended; `not_run` says nothing about the candidate."""

    status: Literal["ok", "failed", "not_run"]
    message: str = ""
    seconds: float = 0.0


class Candidate(Protocol):
    """Something that turns the files of `folder/data` into outputs there."""

    graded_by: str

    def build(self) -> Ran:
        """Make it ready; called once."""
        ...

    def run(self, folder: Path, task: Task) -> Ran:
        """Run it once in a folder that holds the inputs and nothing else."""
        ...


class Binary:
    """A program: compiled by nvcc, or given as it is (`built`)."""

    def __init__(
        self, source: str, folder: Path, *, flags: tuple[str, ...] = (), built: Path | None = None, unsafe: bool = False,
        needs_gpu: bool = True, on: Gpu | None = None, trusted: bool = False,
    ) -> None:  # fmt: skip
        """Take a program.

        Args:
            source: Its text.
            folder: Where it is built.
            flags: Of nvcc.
            built: It is compiled already.
            unsafe: Run it also where it cannot be contained.
            needs_gpu: It needs device files.
            on: The GPU that it sees, whose lock it holds while it runs; `None`: whatever is there.
            trusted: Its host part is ours: it runs without containment.
        """
        self.source, self.folder, self.flags, self.unsafe = source, folder, flags, unsafe
        self.path, self.needs_gpu, self.on, self.trusted = built, needs_gpu, on, trusted
        self.graded_by = "program"

    def build(self) -> Ran:
        """Compile the program; a compiler that is missing is nobody's failure."""
        if self.path is not None:
            return Ran("ok")
        nvcc = shutil.which("nvcc")
        if nvcc is None:
            return Ran("not_run", "nvcc is not installed")
        text = self.folder / "program.cu"
        text.write_text(self.source, encoding="utf-8", errors="replace")
        target = self.folder / "program"
        try:
            done = run([nvcc, *self.flags, str(text), "-o", str(target)], timeout_s=BUILD_SECONDS)
        except ProgramMissing as exc:
            return Ran("not_run", str(exc))
        if not done.ok:
            why = "the compiler did not end" if done.status != "exited" else done.text()[-1500:]
            return Ran("failed", why, done.seconds)
        self.path = target
        return Ran("ok", "", done.seconds)

    def run(self, folder: Path, task: Task | None) -> Ran:  # noqa: ARG002 - the protocol's signature
        """Run the program in containment: it must end with 0 in time."""
        assert self.path is not None  # noqa: S101 - it was built
        local = folder / "program"
        shutil.copyfile(self.path, local)
        local.chmod(local.stat().st_mode | stat.S_IXUSR)
        try:
            with self.on.lock(alone=False) if self.on is not None else nullcontext():
                done = self._started(local, folder)
        except (ProgramMissing, LockTimeout) as exc:
            return Ran("not_run", str(exc))
        if done.status != "exited":
            return Ran("failed", f"it did not end within {RUN_SECONDS:.0f} s", done.seconds)
        code = done.returncode or 0
        if code != 0:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return Ran("failed", f"{how}: {done.text()[-300:]}", done.seconds)
        return Ran("ok", "", done.seconds)

    def _started(self, program: Path, folder: Path) -> Finished:
        sees = dict(self.on.environment) if self.on is not None else {}
        if self.trusted:
            return run([str(program)], timeout_s=RUN_SECONDS, cwd=folder, env=allowed_environment(sees))
        return run_contained(
            [str(program)], folder=folder, timeout_s=RUN_SECONDS, unsafe=self.unsafe, gpu=self.needs_gpu, environment=sees
        )  # fmt: skip


_PROBE = """#include <cstdio>
__global__ void probe(int* x) { *x = 7; }
int main() {
  int* x = nullptr;
  int host = 0;
  cudaError_t status = cudaMalloc(&x, sizeof host);
  if (status == cudaSuccess) probe<<<1, 1>>>(x);
  if (status == cudaSuccess) status = cudaMemcpy(&host, x, sizeof host, cudaMemcpyDeviceToHost);
  if (status != cudaSuccess) std::fprintf(stderr, "%s", cudaGetErrorString(status));
  return host == 7 ? 0 : 1;
}
"""


def cuda_in_containment(flags: tuple[str, ...], on: Gpu | None) -> str | None:
    """Return why CUDA programs do not run in containment here, `None` when they do; tried with a program of ours."""
    if not contains():
        return "Landlock or seccomp does not work here"
    with tempfile.TemporaryDirectory(prefix="cuda-harness-probe-") as name:
        folder = Path(name)
        (folder / "build").mkdir()
        (folder / "run").mkdir()
        probe = Binary(_PROBE, folder / "build", flags=flags, on=on)
        for ran in (probe.build(), probe.run(folder / "run", None) if probe.path else None):
            if ran is not None and ran.status != "ok":
                return f"a CUDA program does not run in containment: {ran.message}"[:300]
    return None


class PlanProgram:
    """A kernel run by an executor on the task's files: where no GPU is, this stands for the program."""

    def __init__(
        self, kernel: Kernel, ir: KernelIR, files: dict[str, TaskTensor], executor: Executor, *, target: str
    ) -> None:
        self.kernel, self.ir, self.files, self.executor, self.target = kernel, ir, files, executor, target
        self.graded_by = f"{'cpu' if executor.name.startswith('cpu') else executor.name} plan"

    def build(self) -> Ran:
        """Return at once: the executor compiles."""
        return Ran("ok")

    def run(self, folder: Path, task: Task) -> Ran:  # noqa: ARG002 - the protocol's signature
        """Run the plan at the task's sizes and write the outputs as the program would."""
        dims = self.ir.target_dims
        program = expand(
            self.ir, self.kernel.plan, dims=dims, scalars={}, tunables=None,
            kernels=inspect(self.kernel.source).kernels, device=self.executor.device(),
        )  # fmt: skip
        if isinstance(program, PlanFault):
            return Ran("failed", program.message)
        inputs = {
            t.name: np.frombuffer((folder / self.files[t.name].path).read_bytes(), dtype=np_dtype(t.dtype))
            for t in self.ir.inputs
        }
        done = self.executor.run(
            Job(
                source=self.kernel.source, program=program, calls=(inputs,), arch=self.target, deadline_s=RUN_SECONDS,
                fast_math=self.kernel.plan.compile.fast_math, max_registers=self.kernel.plan.compile.max_registers,
            )
        )  # fmt: skip
        if isinstance(done, JobNotRun):
            return Ran("not_run", f"{done.reason}: {done.message}")
        if not isinstance(done, JobOk) and done.fault == "timeout" and self.executor.name.startswith("cpu"):
            return Ran("not_run", f"the CPU does not get through these sizes within {RUN_SECONDS:.0f} s")
        if not isinstance(done, JobOk):
            return Ran("failed", f"{done.fault}: {done.message}")
        for t in self.ir.outputs:
            (folder / self.files[t.name].path).write_bytes(done.calls[0].arrays[t.name].tobytes())
        return Ran("ok", "", done.seconds)
