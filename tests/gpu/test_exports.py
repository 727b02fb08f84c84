"""The three exports, run on a GPU against the references of the library."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
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
        assert not wrong.any(), f"{dims}: {tensor.name} differs at {np.argwhere(wrong)[:3].tolist()}"


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

    made = DeviceArray(allocate(0, max(array.nbytes, 256), 0), array.shape, dtype)
    if array.nbytes:
        dense = np.ascontiguousarray(array)
        checked(
            driver.cuMemcpyHtoD(int(made.buffer.handle), dense.ctypes.data, dense.nbytes), "copying an input"
        )
    return made


def told(ir: KernelIR) -> set[str]:
    return {n for t in ir.inputs for e in t.shape for n in e.names}


@pytest.mark.parametrize("name", SAMPLE)
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
            assert np.array_equal(array.to_numpy().view(np.uint8), inputs[tensor.name].view(np.uint8))


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


@pytest.mark.parametrize("name", SAMPLE)
def test_standalone_program_is_right(name: str, references: ReferenceRunner, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    subject = subject_of(name)
    source = tmp_path / f"{name}.cu"
    write_export(subject, "standalone", source, arch=arch())
    binary = tmp_path / name
    argv = ["nvcc", "-std=c++17", "-O3", f"-arch={arch()}", str(source), "-o", str(binary)]
    built = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    for dims, inputs in drawn(name):
        for tensor in subject.ir.inputs:
            (tmp_path / f"{tensor.name}.bin").write_bytes(inputs[tensor.name].tobytes())
        sizes = [w for d in subject.ir.dims if not d.fixed for w in (f"--{d.name}", str(dims[d.name]))]
        done = subprocess.run(
            [str(binary), *sizes, "--data-folder", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
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
    torch.library.opcheck(operator, tuple(given))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        again = operator(*given)
    stream.synchronize()
    first = again if not isinstance(again, tuple) else again[0]
    assert first.shape == results[0].shape
    with pytest.raises(package.KernelError, match="CUDA device"):
        package.__dict__["_check"](
            {t.name: g.cpu() for t, g in zip(subject.ir.inputs, given, strict=True)}, {}
        )
    sys.modules.pop(package.__name__, None)


def from_numpy(torch: Any, array: np.ndarray[Any, Any], dtype: str) -> Any:
    raw = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).reshape(-1).copy()).cuda()
    kind = {"float8_e4m3": "float8_e4m3fn"}.get(dtype, dtype)
    return raw.view(getattr(torch, kind)).reshape(array.shape)
