"""The standalone program asks the runtime for what `expand` says, over the whole library and several sizes.

All programs are compiled at once by g++ against a stand-in that writes down launches, fills, copies and symbols.
"""

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.names import ITEM_BYTES
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    CopyOp,
    DeviceFacts,
    FillOp,
    LaunchOp,
    Op,
    PointerArg,
    Program,
    SymbolOp,
    ValueArg,
    WhileOp,
)  # fmt: skip
from cuda_harness.tools.export.cuda_core import load
from cuda_harness.tools.export.document import checked_program, plan_document
from cuda_harness.tools.export.exported.expressions import KernelError
from cuda_harness.tools.export.exported.plan import Plan
from cuda_harness.tools.export.standalone import Standalone, standalone
from cuda_harness.tools.export.subject import Subject, load_subject
from cuda_harness.tools.ir.program import expand
from cuda_harness.tools.synthesize.shapes import shapes
from cuda_harness.tools.toolchain.headers import include_folders
from cuda_harness.tools.toolchain.source import KernelSignature, inspect

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = sorted(p.parent.name for p in (ROOT / "examples" / "kernels").glob("*/ir.json"))
SINK = "kitchen_sink"
GUARDED = "guarded"
NAMES = [*LIBRARY, SINK, GUARDED]
SINK_SOURCE = """
#include <cuda_fp16.h>
extern "C" { __constant__ double taps[4]; }
extern "C" __global__ void first(const float* x, double* w, __half h, short k, bool flag, float f) { w[threadIdx.x] = x[0] * taps[0]; }
extern "C" __global__ void second(double* a, double* b, long long t, unsigned char last) { b[threadIdx.x] = a[threadIdx.x] + t; }
extern "C" __global__ void third(double* a, float* y, int grid) { y[threadIdx.x] = (float)a[threadIdx.x]; }
"""
"""What the library's plans do not all use: clusters, nested loops, macros over sizes, halves, negative and chained
expressions, fills of eight different bytes, conditions, occupancy."""


def sink() -> Subject:
    ir = KernelIR.model_validate({
        "name": SINK, "dims": [{"name": "n", "value": 40, "min": 4, "multiple_of": 4}, {"name": "m", "value": 3, "min": 1, "max": 12}],
        "constraints": ["m <= n"],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n", 2]}],
        "scalars": [{"name": "h", "dtype": "float16", "value": 0.3333}, {"name": "f", "dtype": "float64", "value": -2.5},
                    {"name": "flag", "dtype": "bool", "value": True}],
    })  # fmt: skip
    plan = LaunchPlan.model_validate({
        "tunables": {"BLOCK": [64, 32]}, "defines": {"TAPS": "min(BLOCK, 4)"},
        "scratch": [{"name": "a", "dtype": "float64", "shape": ["pow2_ceil(n)", "1 if m > 2 else 2"]},
                    {"name": "b", "dtype": "float64", "shape": ["pow2_ceil(n)", "1 if m > 2 else 2"]},
                    {"name": "four", "dtype": "float64", "shape": [4]}, {"name": "go", "dtype": "uint16", "shape": [2]}],
        "steps": [
            {"fill": "a", "value": "-inf"}, {"fill": "four", "value": 0.1}, {"fill": "go", "value": 259},
            {"symbol": "taps", "from": "four", "when": "1 <= m < 5"},
            {"launch": "first", "grid": ["2 * cdiv(n, BLOCK)", "m"], "block": ["BLOCK"], "cluster": [2, 1, 1],
             "shared_bytes": "8 * BLOCK", "args": ["x", "a", "h", "0 - n % 7:int16", "flag", "f"]},
            {"repeat": {"var": "i", "count": "m"}, "steps": [
                {"repeat": {"var": "j", "count": "i + 1"}, "when": "i % 2 == 0", "steps": [
                    {"launch": "second", "grid": ["(n - 1) // BLOCK + j"], "block": [32, 2],
                     "args": [{"pick": ["a", "b"], "index": "(i + j) % 2"}, {"pick": ["b", "a"], "index": "(i + j) % 2"},
                              "i * 2 ** j - n", "log2_ceil(n)"]}]}]},
            {"while": {"flag": "go", "max": "m + 1"}, "steps": [{"copy": ["b", "a"]}, {"fill": "go", "value": 0, "when": "m > 1"}]},
            {"launch": "third", "grid": ["num_sms * blocks_per_sm('third')"], "block": ["max(BLOCK, 32)"],
             "args": ["b", "y", "n"], "cooperative": True},
        ],
    })  # fmt: skip
    return Subject(ir, Kernel(source=SINK_SOURCE, plan=plan), None)


def guarded() -> Subject:
    """Return a kernel whose IR has every kind of rule for sizes."""
    ir = KernelIR.model_validate({
        "name": GUARDED, "constraints": ["p <= n"],
        "dims": [{"name": "n", "value": 64, "min": 8, "max": 4096, "multiple_of": 4},
                 {"name": "p", "value": 16, "min": 1, "power_of_two": True}, {"name": "c", "value": 3, "fixed": True}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n", "p"]},
                    {"name": "w", "role": "in", "dtype": "int32", "shape": ["c"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
        "scalars": [{"name": "s", "dtype": "int32", "value": 2, "fixed": True}, {"name": "k", "dtype": "int32", "value": 5}],
    })  # fmt: skip
    source = 'extern "C" __global__ void g(const float* x, const int* w, float* y, int n, int k) { y[0] = x[0] + w[0] + k; }'
    plan = {"steps": [{"launch": "g", "grid": [1], "block": [32], "args": ["x", "w", "y", "n", "k"]}]}
    return Subject(ir, Kernel(source=source, plan=LaunchPlan.model_validate(plan)), None)


def subject_of(name: str) -> Subject:
    if name in {SINK, GUARDED}:
        return sink() if name == SINK else guarded()
    return load_subject(ROOT / "examples" / "kernels" / name, allow_unverified=True)


@dataclass(frozen=True)
class Built:
    binary: Path
    subjects: dict[str, Subject]


def stand_ins(subject: Subject, program: Standalone) -> str:
    """Return what the host part names of the device part, for g++."""
    facts = inspect(subject.kernel.source)
    done = expanded(subject, subject.ir.target_dims)
    text = "namespace kernel_source {\n"
    text += "".join(f"void {k.name}() {{}}\n" for k in facts.kernels)
    text += "".join(f'Stand {g.name}{{"{g.name}"}};\n' for g in facts.globals if g.space == "constant")
    text += "}\nnamespace compiled {\n"
    text += "".join(f"constexpr long long {n}_ = {v};\n" for n, v in done.macros)
    text += "}\nnamespace fill_kernels { template <class T> void fill(T*, T, long long) {} }\n"
    known = [
        f'{{(const void*)&kernel_source::{k.name}, "{k.name}", {{{", ".join(map(str, sizes(k)))}}}}}'
        for k in facts.kernels
    ]
    known += [
        f'{{(const void*)&fill_kernels::fill<{word}>, "fill", {{8, sizeof({word}), 8}}}}'
        for word in ("unsigned char", "unsigned short", "unsigned int", "unsigned long long")
    ]
    text += f"void tell() {{ known() = {{{', '.join(known)}}}; }}\n"
    return text + program.main.replace("int main(", "int run(")


def sizes(kernel: KernelSignature) -> list[int]:
    return [0 if p.is_pointer else ITEM_BYTES[p.dtype or "int64"] for p in kernel.parameters]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("programs")
    subjects = {n: subject_of(n) for n in NAMES}
    programs = {n: standalone(s) for n, s in subjects.items()}
    text = '#include "recording_cuda.h"\n' + next(iter(programs.values())).support
    for name, program in programs.items():
        text += f"namespace program_{name} {{\n{stand_ins(subjects[name], program)}}}\n"
    text += "int main(int argc, char** argv) {\n  std::string name = argv[1];\n"
    for name in NAMES:
        text += f'  if (name == "{name}") {{ program_{name}::tell(); return program_{name}::run(argc - 1, argv + 1); }}\n'
    text += "  return 99;\n}\n"
    source = folder / "programs.cpp"
    source.write_text(text)
    binary = folder / "programs"
    argv = ["g++", "-std=c++17", "-O0", "-Wall", "-Werror", "-Wno-unused", f"-I{ROOT / 'tests' / 'fakes'}", str(source),
            "-o", str(binary)]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    yield Built(binary, subjects)
    shutil.rmtree(folder)


def expanded(subject: Subject, dims: dict[str, int]) -> Program:
    done = expand(
        subject.ir, subject.kernel.plan, dims=dims, scalars={}, tunables=None,
        kernels=inspect(subject.kernel.source).kernels, device=DeviceFacts("any"),
    )  # fmt: skip
    assert isinstance(done, Program), done
    return done


def expected_log(program: Program) -> list[str]:
    """Return what the stand-in would write for these operations."""
    names = [b.name for b in program.buffers]
    memory = {b.name: np.zeros(b.count * np_dtype(b.dtype).itemsize, np.uint8) for b in program.buffers}
    items = {b.name: np_dtype(b.dtype).itemsize for b in program.buffers}
    lines: list[str] = []

    def do(op: Op) -> None:
        match op:
            case LaunchOp():
                args = [encoded(a, names) for a in op.args]
                axes = [",".join(map(str, axis)) for axis in (op.grid, op.block)]
                extra = ["cooperative"] if op.cooperative else []
                extra += ["cluster " + ",".join(map(str, op.cluster))] if op.cluster else []
                lines.append(" ".join(["launch", op.kernel, *axes, str(op.shared_bytes), *args, *extra]))
            case FillOp():
                if memory[op.buffer].size:
                    one = op.pattern[:1] if len(set(op.pattern)) == 1 else op.pattern
                    lines.append(f"fill {names.index(op.buffer)} {one.hex()}")
                    memory[op.buffer][:] = np.resize(
                        np.frombuffer(op.pattern, np.uint8), memory[op.buffer].size
                    )
            case CopyOp():
                if memory[op.source].size:
                    size = memory[op.source].size
                    lines.append(f"copy {names.index(op.destination)} {names.index(op.source)} {size}")
                    memory[op.destination][:] = memory[op.source]
            case SymbolOp():
                if memory[op.source].size:
                    lines.append(f"symbol {op.symbol} {names.index(op.source)} {memory[op.source].size}")
            case WhileOp():
                for _ in range(op.limit):
                    if not memory[op.flag][: items[op.flag]].any():
                        return
                    for inner in op.body:
                        do(inner)

    for op in program.ops:
        do(op)
    return lines


def encoded(arg: object, names: list[str]) -> str:
    if isinstance(arg, PointerArg):
        return f"b{names.index(arg.buffer)}"
    assert isinstance(arg, ValueArg)
    if arg.dtype == "bool":
        return struct.pack("?", arg.value).hex()
    return np.asarray(arg.value).astype(np_dtype(arg.dtype)).tobytes().hex()


class Recorder:
    """A device that runs nothing and writes down what it is asked, as the C++ stand-in does."""

    num_sms = 132

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = [b.name for b in program.buffers]
        self.memory = [np.zeros(b.count * np_dtype(b.dtype).itemsize, np.uint8) for b in program.buffers]
        self.lines: list[str] = []

    def address(self, name: str) -> int:
        return (1 + self.names.index(name)) << 40

    def index(self, address: int) -> int:
        return (address >> 40) - 1

    def launch(self, kernel: str, config: Mapping[str, Any], args: Sequence[Any]) -> None:
        shown = [f"b{self.index(a)}" if type(a) is int else a.tobytes().hex() for a in args]
        axes = [",".join(map(str, config[k])) for k in ("grid", "block")]
        extra = ["cooperative"] if config["cooperative"] else []
        extra += ["cluster " + ",".join(map(str, config["cluster"]))] if config["cluster"] else []
        self.lines.append(" ".join(["launch", kernel, *axes, str(config["shared"]), *shown, *extra]))

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        one = pattern[:1] if len(set(pattern)) == 1 else pattern
        self.lines.append(f"fill {self.index(address)} {one.hex()}")
        assert count * len(pattern) == self.memory[self.index(address)].size
        self.memory[self.index(address)][:] = np.resize(
            np.frombuffer(pattern, np.uint8), count * len(pattern)
        )

    def copy(self, to: int, source: int, size: int) -> None:
        self.lines.append(f"copy {self.index(to)} {self.index(source)} {size}")
        self.memory[self.index(to)][:] = self.memory[self.index(source)]

    def symbol(self, name: str, source: int, size: int) -> None:
        self.lines.append(f"symbol {name} {self.index(source)} {size}")

    def is_set(self, address: int, size: int) -> bool:
        return bool(self.memory[self.index(address)][:size].any())

    def blocks_per_sm(self, kernel: str, threads: int, shared: int) -> int:
        return 2

    def tensor_map(self, address: int, spec: Mapping[str, Any]) -> object:
        raise AssertionError(spec)


@pytest.mark.parametrize("name", NAMES)
def test_python_export_makes_the_launches_of_the_plan(name: str) -> None:
    subject = subject_of(name)
    document = json.loads(json.dumps(plan_document(subject.ir, subject.kernel)))
    for dims in some_sizes(subject.ir):
        program = expanded(subject, dims)
        recorder, plan = Recorder(program), Plan(document)
        sizes = {b.name: b.count * np_dtype(b.dtype).itemsize for b in program.buffers}

        def scratch(name: str, size: int) -> int:
            assert size == sizes[name]  # noqa: B023 - called before the next round
            return recorder.address(name)  # noqa: B023 - as above

        plan.check_sizes(dims)
        addresses = {t.name: recorder.address(t.name) for t in subject.ir.tensors}
        plan.run(recorder, dims, plan.scalars({}), addresses, scratch)
        assert recorder.lines == expected_log(program), dims
        assert plan.macros(dims) == dict(program.macros)
        shown = {t.name: t.dims(dims) for t in subject.ir.inputs}
        named = {str(e) for t in subject.ir.inputs for e in t.shape}
        hidden = {n: v for n, v in dims.items() if not any(n in text for text in named)}
        assert plan.infer_dims(shown, hidden) == dims


def some_sizes(ir: KernelIR) -> list[dict[str, int]]:
    return shapes(ir, [32, 128, 256], count=3, budget=3_000_000, seed=7, largest=5_000)


@pytest.mark.parametrize("name", NAMES)
def test_program_makes_the_launches_of_the_plan(name: str, built: Built, tmp_path: Path) -> None:
    subject = built.subjects[name]
    for dims in some_sizes(subject.ir):
        for tensor in subject.ir.inputs:
            size = int(np.prod(tensor.dims(dims), dtype=np.int64)) * ITEM_BYTES[tensor.dtype]
            with (tmp_path / f"{tensor.name}.bin").open("wb") as file:
                file.truncate(size)
        given = [w for d in subject.ir.dims if not d.fixed for w in (f"--{d.name}", str(dims[d.name]))]
        done = subprocess.run(
            [str(built.binary), name, *given, "--data-folder", str(tmp_path)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if expanded(subject, dims).macros != checked_program(subject.ir, subject.kernel).macros:
            assert done.returncode == 2, (
                dims
            )  # macros over sizes are compiled in, and these sizes need others
            assert "compile it with -D" in done.stderr
            continue
        assert done.returncode == 0, f"{dims}: {done.stderr}"
        assert done.stdout.splitlines() == expected_log(expanded(subject, dims)), dims
        for tensor in subject.ir.outputs:
            size = int(np.prod(tensor.dims(dims), dtype=np.int64)) * ITEM_BYTES[tensor.dtype]
            assert (tmp_path / f"{tensor.name}.bin").stat().st_size == size


@pytest.mark.parametrize("arguments", [["--n", "-1"], ["--n", "x"], ["--n"], ["--what", "1"], ["--n", "7"]])
def test_a_wrong_call_is_refused(arguments: list[str], built: Built, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\0" * 12)
    (tmp_path / "y.bin").write_bytes(b"\0" * 12)
    done = subprocess.run(
        [str(built.binary), "axpy", "--data-folder", str(tmp_path), *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert re.match(r"error: \S", done.stderr)
    assert "launch" not in done.stdout


@dataclass(frozen=True)
class OnGpu:
    """What describes memory of a GPU that is not there: a call that reads on fails."""

    shape: tuple[int, ...]
    typestr: str = "<f4"
    strides: tuple[int, ...] | None = None
    address: int = 4096

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "version": 3, "strides": self.strides}  # fmt: skip


@pytest.mark.parametrize(
    ("n", "p", "says"),
    [
        (4, 2, "n >= 8|n of at least 8"),
        (8192, 2, "n <= 4096|at most 4096"),
        (10, 2, "n % 4 == 0|n a multiple of 4"),
        (12, 3, r"p & \(p - 1\)|p a power of two"),
        (8, 16, "p <= n"),
        (8, 0, "p >= 1|p of at least 1"),
    ],
)
def test_sizes_that_the_kernel_is_not_made_for_are_refused_by_every_form(
    n: int, p: int, says: str, built: Built, tmp_path: Path
) -> None:
    subject = guarded()
    (tmp_path / "x.bin").write_bytes(bytes(4 * n * p))
    (tmp_path / "w.bin").write_bytes(bytes(12))
    argv = [str(built.binary), GUARDED, "--n", str(n), "--p", str(p), "--data-folder", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(says, done.stderr), done.stderr
    with pytest.raises(KernelError, match=says):
        load(subject.ir, subject.kernel)(OnGpu((n, p)), OnGpu((3,), "<i4"))


@pytest.mark.parametrize(
    ("arrays", "named", "says"),
    [
        ((OnGpu((8, 2), "<f8"), OnGpu((3,), "<i4")), {}, "'x' has dtype float64, the kernel takes float32"),
        ((OnGpu((8, 2)), OnGpu((3,), "<f4")), {}, "'w' has dtype float32, the kernel takes int32"),
        ((OnGpu((8, 2), ">f4"), OnGpu((3,), "<i4")), {}, "'x' has dtype >f4"),
        ((OnGpu((8, 2), strides=(4, 32)), OnGpu((3,), "<i4")), {}, "not contiguous"),
        ((OnGpu((8, 2), address=4098), OnGpu((3,), "<i4")), {}, "multiple of 16"),
        ((OnGpu((8, 2)), OnGpu((4,), "<i4")), {}, "made for c = 3, not 4"),
        ((OnGpu((8, 2)), OnGpu((3,), "<i4")), {"s": 3}, "'s' is fixed at 2"),
        ((OnGpu((8, 2)), OnGpu((3,), "<i4")), {"z": 3}, "unknown scalar 'z'"),
    ],
)  # fmt: skip
def test_arrays_and_scalars_that_do_not_fit_are_refused(
    arrays: tuple[OnGpu, ...], named: dict[str, int], says: str
) -> None:
    subject = guarded()
    with pytest.raises(KernelError, match=says):
        load(subject.ir, subject.kernel)(*arrays, **named)


@pytest.mark.parametrize(
    ("arguments", "w_bytes"),
    [(["--c", "4"], 12), (["--s", "3"], 12), (["--k", "1e9"], 12), ([], 16), ([], 0)],
)
def test_a_program_refuses_fixed_values_and_files_of_another_size(
    arguments: list[str], w_bytes: int, built: Built, tmp_path: Path
) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(4 * 64 * 16))
    (tmp_path / "w.bin").write_bytes(bytes(w_bytes))
    argv = [str(built.binary), GUARDED, "--data-folder", str(tmp_path), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "launch" in done.stdout) == (2, False), done.stderr
    assert re.match(r"error: \S", done.stderr)


MAP_SOURCE = """
#include <cuda.h>
extern "C" __global__ void tiles(const __grid_constant__ CUtensorMap map, float* y) { y[threadIdx.x] = 0; }
"""


def with_tensor_map() -> Subject:
    ir = KernelIR.model_validate({
        "name": "tiles", "dims": [{"name": "n", "value": 64}],
        "tensors": [{"name": "x", "role": "in", "dtype": "bfloat16", "shape": ["n", "2*n"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    })  # fmt: skip
    tile = {
        "tensor_map": {"tensor": "x", "box": [16, "n // 2"], "swizzle": "64B", "l2": "128B", "oob": "nan"}
    }
    plan = LaunchPlan.model_validate(
        {"steps": [{"launch": "tiles", "grid": [1], "block": [64], "args": [tile, "y"]}]}
    )
    return Subject(ir, Kernel(source=MAP_SOURCE, plan=plan), None)


@pytest.mark.parametrize("subject", [sink(), with_tensor_map()], ids=lambda s: s.ir.name)
def test_the_host_part_is_valid_against_the_real_runtime(subject: Subject, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folders = [f for f in include_folders() if (Path(f) / "cuda_runtime.h").is_file()]
    if not folders:
        pytest.skip("needs the CUDA headers")
    program = standalone(subject)
    facts = inspect(subject.kernel.source)
    stubs = "namespace kernel_source {\n" + "".join(f"void {k.name}() {{}}\n" for k in facts.kernels)
    stubs += "".join(f"double {g.name}[4];\n" for g in facts.globals) + "}\nnamespace compiled {\n"
    stubs += "".join(
        f"constexpr long long {n}_ = {v};\n" for n, v in expanded(subject, subject.ir.target_dims).macros
    )
    stubs += "}\nnamespace fill_kernels { template <class T> void fill(T*, T, long long) {} }\n"
    includes = "".join(line + "\n" for line in program.includes.splitlines() if "fp16" not in line)
    (tmp_path / "p.cpp").write_text(includes + stubs + program.support + program.main)
    argv = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
            *(f"-isystem{f}" for f in folders), str(tmp_path / "p.cpp")]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize("subject", [sink(), with_tensor_map()], ids=lambda s: s.ir.name)
def test_nvcc_takes_what_the_library_does_not_use(subject: Subject, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    program = standalone(subject)
    (tmp_path / "p.cu").write_text(program.text)
    argv = [
        "nvcc",
        *program.build,
        "-Werror",
        "all-warnings",
        str(tmp_path / "p.cu"),
        "-o",
        str(tmp_path / "p"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
