"""The torch package under a real torch without a GPU: its schema, its fake implementation and its checks.

The kernel itself is not run here: a stand-in leaves zeros, and tests/gpu runs the real one.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.tools.export.subject import Subject
from cuda_harness.tools.export.torch_package import package_name, torch_package, write_package
from cuda_harness.tools.toolchain.nvrtc import Compiler

torch = pytest.importorskip("torch", reason="needs torch")

SOURCE = """extern "C" __global__ void g(const float* x, const int* w, float* y, float* z, int n, float k) {
  y[0] = x[0] + w[0] + k; z[0] = n; }"""


def guarded() -> Subject:
    """Return a kernel with two outputs, a size that no shape tells and every kind of rule for sizes."""
    ir = KernelIR.model_validate({
        "name": "torch_guarded", "constraints": ["p <= n"],
        "dims": [{"name": "n", "value": 64, "min": 8, "max": 4096, "multiple_of": 4},
                 {"name": "p", "value": 16, "min": 1, "power_of_two": True}, {"name": "c", "value": 3, "fixed": True},
                 {"name": "steps", "value": 2}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n", "p"]},
                    {"name": "w", "role": "in", "dtype": "int32", "shape": ["c"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
                    {"name": "z", "role": "out", "dtype": "float32", "shape": ["steps", "2*p"]}],
        "scalars": [{"name": "k", "dtype": "float32", "value": 0.5}],
    })  # fmt: skip
    plan = {"steps": [{"launch": "g", "grid": [1], "block": [32], "args": ["x", "w", "y", "z", "n", "k"]}]}
    return Subject(ir, Kernel(source=SOURCE, plan=LaunchPlan.model_validate(plan)), None)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("package")
    compiler = Compiler()
    try:
        write_package(torch_package(guarded(), arch="sm_90a", compiler=compiler), folder / "p")
    finally:
        compiler.close()
    sys.path.insert(0, str(folder / "p"))
    yield importlib.import_module(package_name(guarded().ir))
    sys.path.remove(str(folder / "p"))


def given(n: int = 64, p: int = 16, c: int = 3, *, device: str = "cuda") -> tuple[Any, Any]:
    return torch.zeros((n, p), device=device), torch.zeros(c, dtype=torch.int32, device=device)


def test_the_fake_implementation_knows_shapes_types_and_device(package: ModuleType) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        y, z = torch.ops.torch_guarded_kernel.torch_guarded(*given(), steps=5)
        assert (tuple(y.shape), tuple(z.shape)) == ((64,), (5, 32))
        assert (y.dtype, y.device.type) == (torch.float32, "cuda")


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"n": 4, "p": 2}, "n of at least 8"),
        ({"n": 8192}, "at most 4096"),
        ({"n": 66}, "n a multiple of 4"),
        ({"p": 3}, "p a power of two"),
        ({"n": 8, "p": 16}, "p <= n"),
        ({"c": 4}, "made for c = 3, not 4"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(package: ModuleType, sizes: Mapping[str, int], says: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), pytest.raises(package.KernelError, match=says):
        package.torch_guarded(*given(**sizes))


def test_tensors_that_do_not_fit_are_refused(package: ModuleType) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with pytest.raises(package.KernelError, match="'x' is on cpu; all inputs must be on one CUDA device"):
        package.torch_guarded(*given(device="cpu"))
    with FakeTensorMode():
        x, w = given()
        for bad, says in (
            ((x.double(), w), "'x' has dtype torch.float64, the kernel takes torch.float32"),
            ((x.t(), w), "not contiguous"),
            ((x[None], w), "3 axes"),
            ((x, w.to("cuda:1")), "'w' is on cuda:1"),
        ):
            with pytest.raises(package.KernelError, match=says):
                package.torch_guarded(*bad)


def test_the_operator_passes_opcheck(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Zeros:
        plan = package.KERNEL.plan

        def __call__(self, *arrays: Any, out: Mapping[str, Any], **named: Any) -> None:
            assert set(named) == {"steps", "k"}
            for array in out.values():
                array.zero_()

    def sizes(tensors: Mapping[str, Any], named: Mapping[str, float]) -> Any:
        hidden = {n: int(v) for n, v in named.items() if n == "steps"}
        return Zeros.plan.infer_dims({n: tuple(t.shape) for n, t in tensors.items()}, hidden)

    monkeypatch.setattr(package, "KERNEL", Zeros())
    monkeypatch.setattr(package, "_check", sizes)
    monkeypatch.setattr(torch.cuda, "device", lambda _device: nullcontext())
    torch.library.opcheck(package.torch_guarded, given(device="cpu"), {"k": 0.25, "steps": 3})
