"""`result(x)` on arrays that lie on a GPU: the kernel runs there and the answer comes back as the same kind."""

from typing import Any

import numpy as np
import pytest

from cuda_harness import Settings, generate
from cuda_harness.state.errors import ConfigError

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = generate(
        "Softmax over each row of a float32 matrix with 64 rows and 300 columns.",
        model="offline", executor="cuda:0", out=tmp_path_factory.mktemp("runs"), settings=Settings(libraries=False), seed=3,
    )  # fmt: skip
    assert made.status == "verified", made.stop
    return made


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


X = np.random.default_rng(0).normal(size=(5, 77)).astype(np.float32)


def test_a_torch_cuda_tensor_gives_one_back(result: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    x = torch.from_numpy(X).cuda()

    y = result(x)

    assert y.device == x.device
    assert np.allclose(y.cpu().numpy(), softmax(X), rtol=1e-5)
    assert np.array_equal(x.cpu().numpy(), X)
    wide = torch.from_numpy(np.repeat(X, 2, axis=1)).cuda()
    assert np.allclose(result(wide[:, ::2]).cpu().numpy(), softmax(X), rtol=1e-5)  # a dense copy is made
    odd = torch.zeros(X.size + 1, device="cuda")[1:].view(X.shape).copy_(x)
    assert np.allclose(result(odd).cpu().numpy(), softmax(X), rtol=1e-5)  # an aligned copy is made
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        again = result(x)
    stream.synchronize()
    assert torch.equal(again, y)
    with pytest.raises(ConfigError, match="requires a gradient"):
        result(x.requires_grad_())
    with pytest.raises(ConfigError, match="has dtype float64"):
        result(torch.from_numpy(X).double().cuda())


def test_a_cupy_array_gives_one_back(result: Any) -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy")

    y = result(cupy.asarray(X))

    assert isinstance(y, cupy.ndarray)
    assert np.allclose(y.get(), softmax(X), rtol=1e-5)


def test_plain_device_memory_is_read_through_its_interface(result: Any) -> None:
    from cuda.bindings import driver
    from cuda.core import Device

    Device(0).set_current()
    error, address = driver.cuMemAlloc(X.nbytes)
    assert error == driver.CUresult.CUDA_SUCCESS
    driver.cuMemcpyHtoD(address, X.ctypes.data, X.nbytes)

    class Described:
        def __init__(self, **changed: Any) -> None:
            self.__cuda_array_interface__ = {
                "shape": X.shape, "typestr": "<f4", "data": (int(address), True), "strides": None, "version": 3, **changed,
            }  # fmt: skip

    y = result(Described())

    assert y.__cuda_array_interface__["shape"] == X.shape  # it stays on the GPU
    assert np.allclose(y, softmax(X), rtol=1e-5)
    assert np.allclose(result(y), softmax(softmax(X)), rtol=1e-5)  # and is taken as an input
    with pytest.raises(ConfigError, match="shape"):
        result(Described(shape=(X.size,)))
    driver.cuMemFree(address)
