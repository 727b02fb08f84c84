"""Calling a kernel on arrays: what is checked before anything runs."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuda_harness.graph.arrays import Given
from cuda_harness.graph.calling import check_inputs, check_scalars, infer_dims, read_inputs, run_on_gpu
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.export.exported.arrays import CudaError
from cuda_harness.tools.export.exported.expressions import KernelError

IR = KernelIR.model_validate({
    "schema": KernelIR.KIND, "name": "mix",
    "dims": [{"name": "m", "value": 8}, {"name": "n", "value": 16, "multiple_of": 4}, {"name": "k", "value": 3}],
    "constraints": ["m <= n"],
    "tensors": [
        {"name": "x", "role": "in", "dtype": "float32", "shape": ["m", "n"]},
        {"name": "w", "role": "in", "dtype": "int32", "shape": ["n + 1"]},
        {"name": "y", "role": "out", "dtype": "float32", "shape": ["m"]},
    ],
    "scalars": [
        {"name": "a", "dtype": "float32", "value": 2.0}, {"name": "eps", "dtype": "float32", "value": 0.5, "fixed": True},
    ],
})  # fmt: skip


def arrays(m: int = 5, n: int = 8, w: int | None = None) -> tuple[Any, Any]:
    return np.ones((m, n), np.float32), np.ones(n + 1 if w is None else w, np.int32)


def read(given: tuple[Any, ...]) -> dict[str, tuple[int, ...]]:
    found: dict[str, Given] = read_inputs(IR, given)
    check_inputs(IR, found)
    return {name: g.shape for name, g in found.items()}


def test_inputs_are_named_and_dims_follow_from_shapes() -> None:
    x, w = arrays()
    found = read((np.asfortranarray(x), w))

    assert list(found) == ["x", "w"]
    assert infer_dims(IR, found) == {"m": 5, "n": 8, "k": 3}


class Tracked:
    requires_grad = True


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), r"2 arrays are needed \(x: float32\[m, n\], w: int32\[n \+ 1\]\), 0 were given"),
        ((*arrays(), 1), "3 were given"),
        ((arrays()[0].astype(np.float64), arrays()[1]), "'x' has dtype float64, the kernel takes float32"),
        ((arrays()[0], [1, 2, 3]), "'w' has dtype int64, the kernel takes int32"),
        ((arrays()[0].ravel(), arrays()[1]), r"'x' has shape \(40,\), the kernel takes \[m, n\]"),
        ((Tracked(), arrays()[1]), "requires a gradient"),
    ],
)
def test_a_wrong_input_is_named_with_a_remedy(given: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(given)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (arrays(w=10), r"'w' has shape \(10,\), the kernel takes \[n \+ 1=9\]"),
        (arrays(5, 10), "not made for these sizes: n=10"),
        (arrays(12, 8), "not made for these sizes: m <= n"),
        (arrays(0, 8), "not made for these sizes: m=0"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(given: tuple[Any, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        infer_dims(IR, read(given))


def test_inputs_that_disagree_about_a_dim_are_refused() -> None:
    square = IR.model_copy(
        update={"tensors": (IR.tensors[0], IR.tensors[0].model_copy(update={"name": "z"}), IR.tensors[2])}
    )

    with pytest.raises(ConfigError, match="'z' gives m = 6, an earlier input gave 5"):
        infer_dims(square, {"x": (5, 8), "z": (6, 8)})


def test_a_size_that_only_an_expression_tells_is_solved() -> None:
    hidden = IR.model_copy(update={"tensors": IR.tensors[1:]})

    assert infer_dims(hidden, {"w": (13,)}) == {"m": 8, "n": 12, "k": 3}


def test_scalars_take_the_irs_values_and_unknown_or_fixed_ones_are_refused() -> None:
    assert check_scalars(IR, {"a": -1.0, "eps": 0.5}) == {"a": -1.0, "eps": 0.5}
    assert check_scalars(IR, {}) == {"a": 2.0, "eps": 0.5}
    with pytest.raises(ConfigError, match="unknown scalar 'b'"):
        check_scalars(IR, {"b": 1})
    with pytest.raises(ConfigError, match=r"'eps' is fixed at 0\.5"):
        check_scalars(IR, {"eps": 0.25})


class Kernel:
    """Stands for a loaded kernel: it answers or raises what it is told to."""

    plan = SimpleNamespace(outputs=[{"name": "y"}])

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, *arrays: Any, **scalars: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer, arrays, scalars


def test_cuda_arrays_go_to_the_exports_kernel_as_they_are() -> None:
    x = object()
    assert run_on_gpu(Kernel(5), "cuda:0", {"x": x}, {"a": 2.0}) == {"y": (5, (x,), {"a": 2.0})}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KernelError("'x' starts at an address that is no multiple of 16"), "no multiple of 16"),
        (CudaError("CUDA_ERROR_ILLEGAL_ADDRESS"), "did not run on cuda:1 with these inputs: CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)  # fmt: skip
def test_what_the_kernel_refuses_is_the_users_to_mend(error: Exception, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        run_on_gpu(Kernel(error), "cuda:1", {}, {})  # type: ignore[arg-type]
    assert caught.value.remedy
