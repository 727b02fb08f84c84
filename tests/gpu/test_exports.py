"""The three exports, run on a GPU against the references of the library."""

import functools
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.export.exported.arrays import DeviceArray, checked
from cuda_harness.tools.export.exported.kernel import allocate
from cuda_harness.tools.export.forms import write_export
from cuda_harness.tools.export.subject import Subject, load_subject
from cuda_harness.tools.synthesize.inputs import draw
from cuda_harness.tools.synthesize.reference import Question, ReferenceFault, ReferenceRunner
from cuda_harness.tools.synthesize.shapes import shapes
from cuda_harness.tools.verify.bundle import load_bundle

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "examples" / "kernels"
SAMPLE = (
    "axpy", "bfs_levels", "bf16_residual", "conv1d_constant", "cooperative_sum", "cub_block_reduce", "dot_double",
    "embedding_gather", "fft_rows", "fp8_quantize", "game_of_life", "heat_2d", "histogram_u8", "jacobi_while",
    "layer_norm", "matmul_tiled", "matmul_wmma_half", "persistent_grid", "prefix_sum", "radix_sort", "softmax_online",
    "total_sum_two_stage",
)  # fmt: skip
OVER_SIZES = ("row_sum_vec4", "softmax_held")
"""Kernels with macros over sizes: a module compiles its source again, a program is made for one set of them."""
TORCH = ("axpy", "softmax_online", "matmul_wmma_half", "layer_norm", "bf16_residual")


BOUNDS = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "float8_e4m3": 0.13,
    "float8_e5m2": 0.26,
}
"""Of an element and of the root mean square: this asks whether the export runs the kernel right, not whether the kernel is right."""


@functools.cache
def machine() -> str:
    """Return what a failure depends on, a line each."""
    names = (
        "cuda-core",
        "cuda-bindings",
        "cuda-pathfinder",
        "nvidia-cuda-nvrtc",
        "torch",
        "numpy",
        "ml-dtypes",
    )
    lines = [f"python {sys.version.split()[0]}", f"arch {arch()}"]
    for name in names:
        try:
            lines.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name} is not installed")
    nvcc = shutil.which("nvcc")
    told = (
        subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
        if nvcc
        else ""
    )
    return "\n".join([*lines, f"nvcc {nvcc}: {' '.join(told.split()[-4:])}"])


@pytest.fixture(autouse=True)
def _told() -> None:
    print(machine())  # pytest shows it where a test fails


@pytest.fixture(scope="module")
def references() -> Iterator[ReferenceRunner]:
    runner = ReferenceRunner()
    yield runner
    runner.close()


def arch() -> str:
    from cuda.core import Device

    major, minor = Device(0).compute_capability
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def drawn(name: str) -> list[tuple[dict[str, int], dict[str, np.ndarray[Any, Any]]]]:
    bundle = load_bundle(KERNELS / name)
    sizes = shapes(bundle.ir, [32, 128], count=3, budget=2_000_000, seed=11, largest=3_000)
    return [
        (dims, draw(bundle.ir, bundle.specs, Case(id=f"{name}{i}", stage="shapes", dims=dims, seed=5)))
        for i, dims in enumerate(sizes)
    ]


def assert_right(
    references: ReferenceRunner, name: str, dims: dict[str, int], inputs: dict[str, Any], got: dict[str, Any]
) -> None:
    bundle = load_bundle(KERNELS / name)
    scalars = {s.name: s.value for s in bundle.ir.scalars}
    truth = references.evaluate(bundle.reference, bundle.ir, [Question(inputs, dims, scalars)])
    assert not isinstance(truth, ReferenceFault), truth
    for tensor in bundle.ir.outputs:
        expected = truth[0].arrays[tensor.name].astype(np.float64)
        actual = got[tensor.name].astype(np.float64).reshape(expected.shape)
        defined = truth[0].defined.get(tensor.name, np.ones(expected.shape, dtype=bool))
        size = float(np.sqrt(np.mean(np.square(expected[defined])))) if defined.any() else 0.0
        bound = BOUNDS.get(tensor.dtype, 0.0) * (np.abs(expected) + size)
        wrong = ~(np.abs(actual - expected) <= bound) & (actual != expected) & defined
        if wrong.any():
            places = [tuple(map(int, at)) for at in np.argwhere(wrong)[:8]]
            lines = [f"  {at}: got {actual[at]!r}, expected {expected[at]!r}" for at in places]
            told = f"{dims}: {tensor.name} ({tensor.dtype}{list(expected.shape)}) differs at {int(wrong.sum())} places"
            pytest.fail("\n".join([told, *lines]))


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def subject_of(name: str) -> Subject:
    return load_subject(KERNELS / name, allow_unverified=True)


def to_device(array: np.ndarray[Any, Any], dtype: str) -> Any:
    from cuda.bindings import driver

    made = DeviceArray(allocate(0, max(array.nbytes, 256), 0), array.shape, dtype, device_id=0)
    if array.nbytes:
        dense = np.ascontiguousarray(array)
        checked(
            driver.cuMemcpyHtoD(int(made.buffer.handle), dense.ctypes.data, dense.nbytes), "copying an input"
        )
    return made


def told(ir: KernelIR) -> set[str]:
    return {n for t in ir.inputs for e in t.shape for n in e.names}


@pytest.mark.parametrize("name", [*SAMPLE, *OVER_SIZES])
def test_cuda_core_module_is_right(name: str, references: ReferenceRunner, tmp_path: Path) -> None:
    subject = subject_of(name)
    path = tmp_path / f"{name}_module.py"
    write_export(subject, "cuda-core", path, arch=arch())
    module = module_of(path)
    for dims, inputs in drawn(name):
        given = [to_device(inputs[t.name], t.dtype) for t in subject.ir.inputs]
        hidden = {n: v for n, v in dims.items() if n not in told(subject.ir)}
        made = getattr(module, subject.ir.name)(*given, **hidden)
        results = made if isinstance(made, dict) else {subject.ir.outputs[0].name: made}
        got = {n: r.to_numpy() for n, r in results.items()}
        assert_right(references, name, dims, inputs, got)
        for tensor, array in zip(subject.ir.inputs, given, strict=True):  # inputs are never changed
            assert array.to_numpy().tobytes() == inputs[tensor.name].tobytes(), (
                f"{dims}: {tensor.name} was changed"
            )


def test_a_module_compiles_its_source_for_other_sizes(references: ReferenceRunner, tmp_path: Path) -> None:
    subject = subject_of("axpy")
    path = tmp_path / "fallback.py"
    write_export(subject, "cuda-core", path, arch=arch())
    module = module_of(path)
    module.KERNEL._cubins.clear()
    dims, inputs = drawn("axpy")[1]
    given = [to_device(inputs[t.name], t.dtype) for t in subject.ir.inputs]
    made = module.axpy(*given)
    assert_right(references, "axpy", dims, inputs, {subject.ir.outputs[0].name: made.to_numpy()})


Programs = dict[str, "Future[subprocess.CompletedProcess[str]]"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Programs]:
    """The programs being compiled: all side by side, unless the tests themselves are spread over processes."""
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    folder = tmp_path_factory.mktemp("programs")
    spread = hasattr(request.config, "workerinput")
    with ThreadPoolExecutor(1 if spread else max(2, (os.cpu_count() or 2) // 2)) as pool:
        items = [
            i
            for i in request.session.items
            if isinstance(i, pytest.Function) and "programs" in i.fixturenames
        ]
        names = [str(i.callspec.params["name"]) for i in items]
        yield {} if spread else {name: pool.submit(compiled, name, folder) for name in names}
        pool.shutdown(cancel_futures=True)


def compiled(name: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    source = folder / f"{name}.cu"
    write_export(subject_of(name), "standalone", source, arch=arch())
    argv = ["nvcc", "-std=c++17", "-O3", f"-arch={arch()}", str(source), "-o", str(folder / name)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def program(name: str, programs: Programs, folder: Path) -> Path:
    """Return the compiled program; fails the test with all that the compiler said."""
    done = programs[name].result() if name in programs else compiled(name, folder)
    if done.returncode or done.stderr:
        pytest.fail(
            f"{' '.join(done.args)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-6000:]}"
        )
    return Path(done.args[-1])


@pytest.mark.parametrize("name", SAMPLE)
def test_standalone_program_is_right(
    name: str, references: ReferenceRunner, programs: "Programs", tmp_path: Path
) -> None:
    subject, binary = subject_of(name), program(name, programs, tmp_path)
    for dims, inputs in drawn(name):
        for tensor in subject.ir.inputs:
            (tmp_path / f"{tensor.name}.bin").write_bytes(inputs[tensor.name].tobytes())
        sizes = [w for d in subject.ir.dims if not d.fixed for w in (f"--{d.name}", str(dims[d.name]))]
        done = subprocess.run(
            [str(binary), *sizes, "--data-folder", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip
        assert done.returncode == 0, f"{dims}: exit {done.returncode}: {done.stderr[-2000:]}"
        got = {
            t.name: np.frombuffer((tmp_path / f"{t.name}.bin").read_bytes(), dtype=np_dtype(t.dtype))
            for t in subject.ir.outputs
        }
        assert_right(references, name, dims, inputs, got)


@pytest.mark.parametrize("name", TORCH)
def test_torch_operator_is_right_and_passes_opcheck(
    name: str, references: ReferenceRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    if not torch.cuda.is_available():
        pytest.skip("needs torch with CUDA")
    subject = subject_of(name)
    write_export(subject, "torch", tmp_path / "package", arch=arch())
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    package = importlib.import_module(f"{subject.ir.name.lower()}_kernel")
    operator = getattr(package, subject.ir.name)
    for dims, inputs in drawn(name):
        given = [from_numpy(torch, inputs[t.name], t.dtype) for t in subject.ir.inputs]
        made = operator(*given)
        results = made if isinstance(made, tuple) else (made,)
        got = {
            t.name: r.cpu().view(torch.uint8).numpy().view(np_dtype(t.dtype)) if r.numel() else np.zeros(0, np_dtype(t.dtype))
            for t, r in zip(subject.ir.outputs, results, strict=True)
        }  # fmt: skip
        assert_right(references, name, dims, inputs, got)
    largest = max(drawn(name), key=lambda case: sum(a.size for a in case[1].values()))[1]
    given = [from_numpy(torch, largest[t.name], t.dtype) for t in subject.ir.inputs]
    before = operator(*given)
    torch.library.opcheck(operator, tuple(given))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        again = operator(*given)
    stream.synchronize()
    first, second = (r[0] if isinstance(r, tuple) else r for r in (before, again))
    assert torch.equal(first.view(torch.uint8), second.view(torch.uint8))
    with pytest.raises(package.KernelError, match="CUDA device"):
        operator(*(g.cpu() for g in given))
    if given[0].dim() > 1:
        with pytest.raises(package.KernelError, match="contiguous"):
            operator(torch.cat([given[0], given[0]], -1)[..., ::2], *given[1:])
    with pytest.raises(package.KernelError, match="axes"):
        operator(given[0][None], *given[1:])
    with pytest.raises(package.KernelError, match="dtype"):
        operator(given[0].to(torch.int32), *given[1:])
    sys.modules.pop(package.__name__, None)


def from_numpy(torch: Any, array: np.ndarray[Any, Any], dtype: str) -> Any:
    kind = {"float8_e4m3": "float8_e4m3fn"}.get(dtype, dtype)
    if not array.size:  # no bytes can be seen as numbers of another size
        return torch.empty(array.shape, dtype=getattr(torch, kind), device="cuda")
    raw = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).reshape(-1).copy()).cuda()
    return raw.view(getattr(torch, kind)).reshape(array.shape)
