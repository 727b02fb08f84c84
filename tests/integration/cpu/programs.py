"""Small programs around one kernel `k(const float* x, float* y, float* w, int n)`, for the CPU executor's tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    Arg,
    Buffer,
    Job,
    JobResult,
    LaunchOp,
    Mode,
    Op,
    PointerArg,
    Program,
    ValueArg,
)

Array = NDArray[Any]
HEAD = 'extern "C" __global__ void k(const float* x, float* y, float* w, int n) {\n'
"""Line 1 of every body given to `kernel`."""


def kernel(body: str, *, before: str = "") -> str:
    """Return a source with the usual entry around `body`; `before` stands above it."""
    return before + HEAD + body + "\n}\n"


@dataclass(frozen=True)
class Shape:
    """Launch and sizes of a case; `m` and `scratch` default to `n`."""

    n: int = 64
    m: int | None = None
    scratch: int | None = None
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (64, 1, 1)
    shared_bytes: int = 0
    cooperative: bool = False
    launches: int = 1

    def program(self, *, macros: Mapping[str, int] | None = None) -> Program:
        """Return the program: inputs `x`, output `y`, scratch `w`, `launches` launches of `k`."""
        m = self.n if self.m is None else self.m
        scratch = self.n if self.scratch is None else self.scratch
        args: tuple[Arg, ...] = (
            PointerArg("x"),
            PointerArg("y"),
            PointerArg("w"),
            ValueArg("int32", self.n),
        )
        launch = LaunchOp("k", self.grid, self.block, self.shared_bytes, args, cooperative=self.cooperative)
        return Program(
            buffers=(
                Buffer("x", "float32", self.n, "in"),
                Buffer("y", "float32", m, "out"),
                Buffer("w", "float32", scratch, "scratch"),
            ),
            ops=(launch,) * self.launches,
            macros=tuple((macros or {}).items()),
        )


@dataclass(frozen=True)
class Case:
    """A body and what must be said about it; the faulty line carries `// HERE`."""

    name: str
    body: str
    fault: str | None = None
    """Class of the fault, `None` for an honest kernel."""
    says: tuple[str, ...] = ()
    """Pieces of the message."""
    warns: str = ""
    """Piece of a warning that an honest kernel may give; empty: no warning at all."""
    before: str = ""
    shape: Shape = field(default_factory=Shape)
    mode: Mode = "check"
    deadline_s: float = 20.0

    @property
    def source(self) -> str:
        return kernel(self.body, before=self.before)

    @property
    def line(self) -> int | None:
        """Line of the mark, counted from 1."""
        for number, text in enumerate(self.source.splitlines(), start=1):
            if "// HERE" in text:
                return number
        return None

    def job(self, mode: Mode | None = None) -> Job:
        x = np.arange(self.shape.n, dtype=np.float32) + 1
        return Job(
            self.source,
            self.shape.program(),
            ({"x": x},),
            mode=mode or self.mode,
            deadline_s=self.deadline_s,
        )

    def run(self, executor: CpuExecutor, mode: Mode | None = None) -> JobResult:
        return executor.run(self.job(mode))


def program(
    buffers: Mapping[str, tuple[str, int, str]], ops: tuple[Op, ...], macros: Mapping[str, int] | None = None
) -> Program:
    """Return a program of buffers given as name -> (dtype, count, role)."""
    made = tuple(Buffer(name, dtype, count, role) for name, (dtype, count, role) in buffers.items())  # type: ignore[arg-type]
    return Program(made, ops, tuple((macros or {}).items()))


def launch(
    name: str,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    *args: str | tuple[str, float],
    **more: Any,
) -> LaunchOp:
    """Return a launch; a string argument is a buffer, a pair is (dtype, value)."""

    def three(axes: int | tuple[int, ...]) -> tuple[int, int, int]:
        listed = (axes,) if isinstance(axes, int) else axes
        x, y, z = (*listed, 1, 1)[:3]
        return x, y, z

    passed = tuple(PointerArg(a) if isinstance(a, str) else ValueArg(a[0], a[1]) for a in args)
    return LaunchOp(name, three(grid), three(block), more.pop("shared_bytes", 0), passed, **more)


def values(dtype: str, data: Any) -> Array:
    """Return `data` as a flat array of an IR element type."""
    return np.ascontiguousarray(np.asarray(data).astype(np_dtype(dtype)).ravel())
