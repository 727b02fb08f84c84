"""Arrays of other libraries: read through the protocols they speak, refused with a remedy where they cannot be."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cuda_harness.graph.arrays import Given, on_host, one_device, read_array
from cuda_harness.state.errors import ConfigError


class Foreign:
    """A tensor of some library: DLPack through NumPy, on whatever device it says."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0), **fields: Any) -> None:
        self.array = array
        self.device_ = device
        vars(self).update(fields)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_


class OnGpu:
    """An array that describes memory of a GPU."""

    def __init__(self, **described: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (4,), "typestr": "<f4", "data": (4096, True), "version": 3, **described,
        }  # fmt: skip


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_numpy_array_is_taken_as_it_is() -> None:
    given = read_array("x", X)
    assert given.array is X
    assert given.device == "cpu"
    assert given.back(X) is X


def test_a_list_is_read_as_numpy_does() -> None:
    assert read_array("x", [1, 2]).array.dtype == np.int64


def test_a_dlpack_array_is_read_without_a_copy() -> None:
    given = read_array("x", Foreign(X))
    assert np.shares_memory(given.array, X)
    assert given.device == "cpu"


def test_the_result_goes_back_to_the_library_the_input_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = ModuleType("foreign_arrays")
    library.from_dlpack = lambda array: Foreign(np.from_dlpack(array))
    monkeypatch.setitem(sys.modules, "foreign_arrays", library)
    monkeypatch.setattr(Foreign, "__module__", "foreign_arrays.tensors")

    back = read_array("x", Foreign(X)).back(X)

    assert isinstance(back, Foreign)
    assert np.array_equal(back.array, X)


@pytest.mark.parametrize(
    ("value", "says", "remedy"),
    [
        (Foreign(X, requires_grad=True), "requires a gradient", "detach"),
        (Foreign(X, layout="torch.sparse_coo"), "layout torch.sparse_coo", "to_dense"),
        (Foreign(X, (2, 1)), "says that it is on a GPU, and cannot be read there", "on the host"),
        (OnGpu(), "says that it is on a GPU, and cannot be read there", "on the host"),
        (Foreign(X, (8, 0)), "DLPack type 8", "host"),
        (Foreign(np.array(["a"])), "does not give its memory", "NumPy knows"),
        ([[1], [2, 3]], "is no array", "DLPack"),
        (OnGpu(mask=object()), "masked", "fill"),
        (OnGpu(strides=(8,)), "is not dense in row-major order", "contiguous"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_a_remedy(value: Any, says: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read_array("x", value)
    assert remedy in caught.value.remedy
    assert "'x'" in caught.value.message


def test_an_empty_gpu_array_needs_no_driver() -> None:
    empty = OnGpu(shape=(0, 3), data=(0, True))
    given = read_array("x", empty)
    assert given.array is empty
    assert (given.shape, given.dtype, given.device) == ((0, 3), "float32", "cuda:0")


def test_inputs_on_two_devices_are_refused() -> None:
    host = on_host(X, lambda a: a)
    assert one_device({"x": host, "w": host}) == "cpu"
    assert one_device({}) == "cpu"
    with pytest.raises(ConfigError, match="'x' is on cpu, 'w' is on cuda:0"):
        one_device({"x": host, "w": Given(X, "cuda:0", "float32", X.shape, lambda a: a)})


class Tensor:
    """The part of a torch tensor that is asked for, over NumPy; `kind` is the device it says it is on."""

    layout = "torch.strided"

    def __init__(
        self, array: np.ndarray[Any, Any], dtype: str, kind: str = "cpu", *, on_host: bool = True
    ) -> None:
        self.array, self.dtype, self.requires_grad = array, f"torch.{dtype}", False
        self.device = SimpleNamespace(type=kind, index=1 if kind == "cuda" else None)
        self.on_host = on_host and kind == "cpu"
        self.offset = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def is_cuda(self) -> bool:
        return bool(self.device.type == "cuda")

    def is_contiguous(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return 4096 + self.offset

    def clone(self) -> "Tensor":
        return Tensor(self.array, self.dtype.removeprefix("torch."), self.device.type)

    def contiguous(self) -> "Tensor":
        return self

    resolve_conj = resolve_neg = contiguous

    def view(self, dtype: str) -> "Tensor":
        return Tensor(self.array, dtype)

    def numpy(self) -> np.ndarray[Any, Any]:
        assert self.on_host, "torch refuses this"
        return self.array

    def __dlpack__(self, **options: Any) -> Any:
        assert self.on_host, "torch gives a CUDA capsule here"
        if self.dtype == "torch.bfloat16":
            raise BufferError
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("torch")
    module.int16, module.uint8, module.bfloat16, module.float8_e5m2 = (
        "int16",
        "uint8",
        "bfloat16",
        "float8_e5m2",
    )
    module.from_numpy = lambda array: Tensor(array, str(array.dtype))
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(Tensor, "__module__", "torch")
    return module


def test_a_torch_tensor_is_read_and_its_result_is_one(torch: Any) -> None:
    given = read_array("x", Tensor(X, "float32"))
    assert np.array_equal(given.array, X)
    assert (given.device, given.dtype, given.shape) == ("cpu", "float32", (2, 3))
    back = given.back(X * 2)
    assert (back.dtype, back.device.type) == ("torch.float32", "cpu")
    assert np.array_equal(back.array, X * 2)


def test_a_tensor_on_a_gpu_stays_there(torch: Any) -> None:
    tensor = Tensor(X, "bfloat16", "cuda")
    given = read_array("x", tensor)
    assert given.array is tensor
    assert (given.device, given.dtype, given.shape) == ("cuda:1", "bfloat16", (2, 3))
    assert given.back(tensor) is tensor

    tensor.offset = 4
    copied = read_array("x", tensor).array  # the kernel was verified on aligned memory
    assert copied is not tensor
    assert copied.data_ptr() % 16 == 0


@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", np.int16), ("float8_e5m2", np.uint8)])
def test_types_that_numpy_lacks_travel_as_their_bits(torch: Any, dtype: str, bits: Any) -> None:
    values = np.array([1.0, -2.0, 0.5]).astype(getattr(ml_dtypes, dtype))
    given = read_array("x", Tensor(values.view(bits), dtype))
    assert given.array.dtype == getattr(ml_dtypes, dtype)
    assert given.array.astype(np.float32).tolist() == [1.0, -2.0, 0.5]
    back = given.back(given.array)
    assert back.dtype == f"torch.{dtype}"
    assert np.array_equal(back.array, values.view(bits))


def test_a_torch_tensor_elsewhere_or_of_another_type_is_refused(torch: Any) -> None:
    with pytest.raises(ConfigError, match="device 'mps'"):
        read_array("x", Tensor(X, "float32", "mps"))
    broken = Tensor(X, "bfloat16")
    broken.dtype = "torch.complex32"
    broken.contiguous = lambda: Tensor(X, "bfloat16")  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match=r"dtype torch\.complex32"):
        read_array("x", broken)
