"""What the grammar understands: the formulas of the plan, and refusals that name what is wrong."""

from typing import Any

import pytest

from cuda_harness.agents.llm.offline.planning.planner import plan
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.ir.check import check_ir


def formulas(data: dict[str, Any]) -> list[str]:
    return [s["formula"] for s in data["steps"]]


def sizes(data: dict[str, Any]) -> dict[str, int]:
    return {d["name"]: d["value"] for d in data["dims"]}


_PRODUCT = "c[i,j] = sum_k a[i,k]*b[k,j]"
COMMON: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("Matrix product of a 512x256 by a 256x384 float32 matrix", _PRODUCT, {"m": 512, "n": 384, "k": 256}),
    ("Multiply a float16 matrix of 512 by 256 and a float16 matrix of 256 by 512", _PRODUCT, {"m": 512, "n": 512, "k": 256}),
    ("Batched matrix multiplication: 16 batches of 64x64 by 64x64", "c[b,i,j] = sum_k a[b,i,k]*w[b,k,j]", {"m": 64, "n": 64, "k": 64, "batch": 16}),
    ("C = AB for float32 matrices of size 512", _PRODUCT, {"m": 512, "n": 512, "k": 512}),
    ("C = A^T B with A 64x32 and B 64x16", "c[i,j] = sum_k a[k,i]*b[k,j]", {"m": 32, "n": 16, "k": 64}),
    ("A B^T with A 64x32 and B 16x32", "c[i,j] = sum_k a[i,k]*b[j,k]", {"m": 64, "n": 16, "k": 32}),
    ("GEMM: (M, N, K) = (256, 512, 128)", _PRODUCT, {"m": 256, "n": 512, "k": 128}),
    ("Multiply an MxK matrix by a KxN matrix, M=64, K=32, N=48", _PRODUCT, {"m": 64, "n": 48, "k": 32}),
    ("fp16 GEMM 256x256x256", _PRODUCT, {"m": 256, "n": 256, "k": 256}),
    ("out[batch, col] = sum_k x[batch, k]*w[k, col], batch = 32, col = 20, k = 50", "out[batch,col] = sum_k x[batch,k]*w[k,col]", {"m": 32, "n": 20, "k": 50}),
    ("O[q, d] = sum_k P[q, k] V[k, d], q = 16, d = 8, k = 50", "O[q,d] = sum_k P[q,k]*V[k,d]", {"m": 16, "n": 8, "k": 50}),
    ("y[row, k] = x[row, k] / sum_k x[row, k], row = 20 and k = 50", "y[row,k] = x[row,k]/(sum_{k_} x[row,k_])", {"rows": 20, "cols": 50}),
    ("Compute x^T A for a 300x200 matrix A", "y[j] = sum_i x[i]*a[i,j]", {"rows": 300, "cols": 200}),
    ("Find the maximum and its index in an array of 1000 floats", "argmax = argmax_i x[i]", {"n": 1000}),
    ("Compute the total of all entries of a 3-D array of shape (10, 20, 30)", "sum = sum_{b,i,j} x[b,i,j]", {"batch": 10, "rows": 20, "cols": 30}),
    ("Clamp each element of a float array of length 1000 between 0 and 6", "y[i] = clamp(x[i], 0, 6)", {"n": 1000}),
    ("relu in place on an array of 1000 floats", "x[i] = relu(x[i])", {"n": 1000}),
    ("Swap the last two axes of a tensor of shape (4, 32, 48)", "y[b,j,i] = x[b,i,j]", {"batch": 4, "rows": 32, "cols": 48}),
    ("Write B = A^T for A of 100 rows and 200 columns", "y[j,i] = x[i,j]", {"rows": 100, "cols": 200}),
    ("Permute an NCHW tensor of shape (2, 3, 32, 32) to NHWC", "y[n,h,w,c] = x[n,c,h,w]", {"n_n": 2, "n_h": 32, "n_w": 32, "n_c": 3}),
    ("inclusive scan with addition over an array of 4096 integers", "y[i] = sum_{k<=i} x[k]", {"n": 4096}),
    ("exclusive scan (sum) of 1000 floats", "y[i] = sum_{k<i} x[k]", {"n": 1000}),
    ("inclusive prefix product of 50 floats", "y[i] = prod_{k<=i} x[k]", {"n": 50}),
)  # fmt: skip
"""Wordings that people use, one family after the other."""
UNDERSTOOD: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("Add two vectors of 1M elements", "y[i] = a[i] + b[i]", {"n": 1 << 20}),
    ("vector addition, n = 1,000,000", "y[i] = a[i] + b[i]", {"n": 10**6}),
    ("sum of a vector with 2^20 floats", "sum = sum_i x[i]", {"n": 1 << 20}),
    ("sum of two matrices, 64 by 32", "y[i,j] = a[i,j] + b[i,j]", {"rows": 64, "cols": 32}),
    ("sum of each row of a 64x32 matrix", "sum[i] = sum_j x[i,j]", {"rows": 64, "cols": 32}),
    ("column sums of a 64 by 32 matrix", "sum[j] = sum_i x[i,j]", {"rows": 64, "cols": 32}),
    ("mean over axis 1 of a tensor of shape (4, 5, 6)", "mean[b,j] = mean_i x[b,i,j]", {"batch": 4, "rows": 5, "cols": 6}),
    ("relu of the sum of two vectors", "y[i] = relu(a[i] + b[i])", {"n": 1 << 20}),
    ("square each element then sum each row", "sum[i] = sum_j square(x[i,j])", {"rows": 1024, "cols": 1024}),
    ("sum each row, then square the result, 10 x 20", "sum[i] = square(sum_j x[i,j])", {"rows": 10, "cols": 20}),
    ("squared difference of two vectors of length 10", "y[i] = square(a[i] - b[i])", {"n": 10}),
    ("Subtract vector y from vector x, each with 100 elements", "out[i] = x[i] - y[i]", {"n": 100}),
    ("subtract the first vector from the second", "y[i] = b[i] - a[i]", {"n": 1 << 20}),
    ("divide vector a by vector b, elementwise, 4096 entries each", "y[i] = a[i]/b[i]", {"n": 4096}),
    ("clamp every element of a 512 x 256 matrix to [0, 6]", "y[i,j] = clamp(x[i,j], 0, 6)", {"rows": 512, "cols": 256}),
    ("multiply every element of a vector by 2.5", "y[i] = x[i]*2.5", {"n": 1 << 20}),
    ("scale a vector by a scalar alpha", "y[i] = x[i]*alpha", {"n": 1 << 20}),
    ("Leaky ReLU with negative slope 0.2", "y[i] = leaky_relu(x[i], 0.2)", {"n": 1 << 20}),
    ("Apply GELU (exact, with erf) to 10 floats", "y[i] = gelu(x[i])", {"n": 10}),
    ("erf of a float32 vector of 10 elements", "y[i] = erf(x[i])", {"n": 10}),
    ("GELU with the tanh approximation", "y[i] = gelu_tanh(x[i])", {"n": 1 << 20}),
    ("GEMM: M=64, N=128, K=32", "c[i,j] = sum_k a[i,k]*b[k,j]", {"m": 64, "n": 128, "k": 32}),
    ("C = A @ B^T for 100 x 60 and 80 x 60 matrices", "c[i,j] = sum_k a[i,k]*b[j,k]", {"m": 100, "n": 80, "k": 60}),
    ("matmul of A (512x256) and B (256x128) with bias and relu", "c[i,j] = relu(sum_k a[i,k]*b[k,j] + bias[j])", {"m": 512, "n": 128, "k": 256}),
    ("batched matmul, batch size 8, 16x32 times 32x24", "c[b,i,j] = sum_k a[b,i,k]*w[b,k,j]", {"batch": 8, "m": 16, "k": 32, "n": 24}),
    ("matrix times vector, 1000 x 500", "y[i] = sum_j a[i,j]*x[j]", {"rows": 1000, "cols": 500}),
    ("Transpose a 2048 x 1024 matrix.", "y[j,i] = x[i,j]", {"rows": 2048, "cols": 1024}),
    ("sum over the second axis of an array of shape (4, 5, 6)", "sum[b,j] = sum_i x[b,i,j]", {"batch": 4, "rows": 5, "cols": 6}),
    ("mean over the first axis of a tensor of shape (4, 5, 6)", "mean[i,j] = mean_b x[b,i,j]", {"batch": 4, "rows": 5, "cols": 6}),
    ("For each element: output x if x > 0, otherwise 0.2 * x. 1000 floats.", "y[i] = where(x[i] > 0, x[i], 0.2*x[i])", {"n": 1000}),
    ("ELU of 500 floats. For each value x: output = x if x > 0, or output = 1.0 * (exp(x) - 1) if x <= 0.", "y[i] = elu(x[i], 1)", {"n": 500}),
    ("For 300 floats: if x > 0.5, output x - 0.5; if x < -0.5, output x + 0.5; else output 0.",
     "y[i] = where(x[i] > 0.5, x[i] - 0.5, where(x[i] < -0.5, x[i] + 0.5, 0))", {"n": 300}),
    ("Hard sigmoid of a 4 x 8 matrix: if the value is at most -3, output 0; if the value is at least 3, output 1; otherwise, output the value divided by 6 plus 0.5.",
     "y[i,j] = hardsigmoid(x[i,j])", {"rows": 4, "cols": 8}),
    ("exclusive prefix sum of 1000 integers", "y[i] = sum_{k<i} x[k]", {"n": 1000}),
    ("saxpy with n = 1000000", "y[i] = a*x[i] + y[i]", {"n": 10**6}),
    ("z = x*y + 3 where x and y are vectors of 100000 floats", "z[i] = x[i]*y[i] + 3", {"n": 100_000}),
    ("C[i,j] = sum_k A[i,k]*B[k,j] with M=64, N=128, K=256", "C[i,j] = sum_k A[i,k]*B[k,j]", {"m": 64, "n": 128, "k": 256}),
    ("c[i][j] = sum_{k=0}^{K-1} a[i][k]*b[k][j], a is 8 x 4 and b is 4 x 2", "c[i,j] = sum_k a[i,k]*b[k,j]", {"m": 8, "n": 2, "k": 4}),
    ("out[i] = x[n-1-i]", "out[i] = x[n - 1 - i]", {"n": 1 << 20}),
    ("y = a*x + b for a scalar a and vectors x and b of length 1000", "y[i] = a*x[i] + b[i]", {"n": 1000}),
    ("sum of exponentials of each row of a 4 x 5 matrix", "sum[i] = sum_j exp(x[i,j])", {"rows": 4, "cols": 5}),
    ("tanh(x) * y for two vectors of 2000 elements", "out[i] = tanh(x[i])*y[i]", {"n": 2000}),
    ("Hadamard product of two 512x512 matrices", "y[i,j] = a[i,j]*b[i,j]", {"rows": 512, "cols": 512}),
    ("Given two matrices A (64x32) and B (32x16), compute their product.", "c[i,j] = sum_k a[i,k]*b[k,j]", {"m": 64, "n": 16, "k": 32}),
    ("Elementwise_Multiplication of 2 matrices (64, 32)", "y[i,j] = a[i,j]*b[i,j]", {"rows": 64, "cols": 32}),
    ("Compute the sum of the products of corresponding elements of two vectors of size 9", "out = sum_i x[i]*y[i]", {"n": 9}),
    ("max-reduce each row of a 4 x 5 matrix", "y[i] = max_j x[i,j]", {"rows": 4, "cols": 5}),
    ("add a vector to each row of a 4 x 5 matrix", "y[i,j] = x[i,j] + bias[j]", {"rows": 4, "cols": 5}),
    ("RMS of every row, 64 rows of 100", "norm[i] = sqrt(mean_j square(x[i,j]))", {"rows": 64, "cols": 100}),
    ("Replace each element x by x^2 + 1, vector of 777 floats", "y[i] = x[i]^2 + 1", {"n": 777}),
    ("z[i] = a*x[i] + y[i] with a = 3, n = 100", "z[i] = a*x[i] + y[i]", {"n": 100}),
    ("out = a*x + b, a = 2.5, b = -1, x has 5000 elements", "out[i] = a*x[i] + b", {"n": 5000}),
    ("y[i] = log(1 + exp(x[i])), 50 elements", "y[i] = log1p(exp(x[i]))", {"n": 50}),
    ("softmax of each row of a 4 x 5 matrix followed by the natural log", "y[i,j] = x[i,j] - m[i] - log(s[i])", {"rows": 4, "cols": 5}),
    ("Multiply matrix A (rows 1024, cols 512) with vector x", "y[i] = sum_j a[i,j]*x[j]", {"rows": 1024, "cols": 512}),
    ("Compute y = Wx + b where W is 512x256", "y[i] = sum_j a[i,j]*x[j] + bias[i]", {"rows": 512, "cols": 256}),
    ("A^T * A for a 1000 x 64 matrix", "y[i,j] = sum_k x[k,i]*x[k,j]", {"rows": 1000, "cols": 64}),
    ("Sum two 3-D tensors of size 16x64x8", "y[b,i,j] = a[b,i,j] + b_[b,i,j]", {"batch": 16, "rows": 64, "cols": 8}),
    ("Softmax along dim 1 for a batch of 128 samples with 1000 classes", "m[i] = max_j x[i,j]", {"rows": 128, "cols": 1000}),
    ("polynomial 3x^2 + 2x + 1 of 100 elements", "y[i] = 3*x[i]^2 + 2*x[i] + 1", {"n": 100}),
    ("y[i] = max(0, x[i]) for i in 0..n-1, n=100000", "y[i] = max(0, x[i])", {"n": 100_000}),
    ("compute exp(-x*x) for a vector of 1000 floats", "y[i] = exp((-x[i])*x[i])", {"n": 1000}),
)  # fmt: skip


@pytest.mark.parametrize(("request_text", "formula", "dims"), [*UNDERSTOOD, *COMMON])
def test_requests_are_read(request_text: str, formula: str, dims: dict[str, int]) -> None:
    data = plan(request_text)
    assert formula in formulas(data)
    assert sizes(data) == dims
    assert check_ir(KernelIR.model_validate(data)) == []


REFUSED: tuple[tuple[str, str], ...] = (
    ("sort the array", "'sort'"),
    ("a 2-D convolution with a 3x3 filter", "'convolution'"),
    ("sum without the first element", "'without', 'first'"),
    ("relu of a vector, but only of the even elements", "'only'"),
    ("softmax of each row, except masked entries", "'except'"),
    ("sum of the diagonal of a matrix", "'diagonal'"),
    ("top 5 values of each row", "'top'"),
    ("do not compute the relu", "'not'"),
    ("add a vector of 1000 elements to a vector of 2000 elements", "contradict each other.*1000.*2000"),
    ("Multiply a 64x32 matrix by a 33x16 matrix", "inner size.* 32 and 33"),
    ("matrix multiplication with M=64, N=32, K=16 of 64x20 and 20x32 matrices", "contradict each other.* 16 and 20"),
    ("sum of 1000 elements of a 10 x 20 matrix", "1000 elements, but 10 x 20 are 200"),
    ("n = 5 and n = 6, relu", "n is both 5 and 6"),
    ("relu of a 4096 x 1024 matrix with 512 columns", "512 cols, but the shape is 4096 x 1024"),
    ("sum along rows", "read both ways"),
    ("sum over each row and over each column", "several axes"),
    ("relu with eps = 3", "no place for the parameter 'eps'"),
    ("sigmoid of each row of a vector with 100 elements and 16 indices", "contradict|no place|one axis"),
    ("cube of a 96x96 matrix", "each element or of the matrix"),
    ("relu: y[i] = x[i] * 2", "do not mean the same"),
    ("y[i] = x[i+1] - x[i]", r"neighbours such as x\[i\+1\]"),
    ("c[i,j] = a[i,k]*b[k,j]", "write sum_k"),
    ("y_i = a x_i + y_i", "cannot be read to its end"),
    ("y[i] = y[n-1-i]", "give the result another name"),
    ("sigmoid of int32 data", "no integer result"),
    ("relu of float8 data", "'float8'"),
    ("add float32 and float64 vectors", "several element types"),
    ("argmax of the squares of each row", "no rounding can change"),
    ("matrix multiplication followed by add", "not clear which arrays"),
    ("sum of a matrix and a vector", "of a matrix and a vector"),
    ("add a vector to a matrix", "of a matrix and a vector"),
    ("y = B^T * x", "the transpose in"),
    ("tanh of two vectors", "names 2 arrays, but .* takes 1"),
    ("compute relu(x + bias) where bias is per column, 64 x 256", "explicit indices"),
    ("hello world", "no operation"),
    ("ReLU of 100 floats: output x if x > 0, otherwise 0.2 * x.", "do not mean the same"),
    ("output x if x is even, otherwise 0, 100 ints", "'if', 'even'"),
    ("Perform C = alpha*A*B with 256x256 matrices", "say which"),
    ("relu of 0.0005 KiB of doubles", "no whole number"),
    ("a x 0 matrix copy of shape (0, 5)", "size of zero"),
    ("Sum the rows of a 128x256 float32 matrix", "'sum the rows' can be read both ways"),
    ("maximum of each row together with the index, 10 x 20", "'the index' is spoken of beside a value"),
    ("transpose a 64x64 matrix in place", "only element-wise work on one array in place"),
    ("add b to a in place, 1000 floats", "only element-wise work on one array in place"),
    ("gemm 256x128x64", "no place for '256x128x64'"),
)  # fmt: skip


@pytest.mark.parametrize(("request_text", "said"), REFUSED)
def test_what_cannot_be_done_is_refused_and_named(request_text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        plan(request_text)


@pytest.mark.parametrize(
    ("words", "dtype"),
    [
        ("float32", "float32"), ("single precision", "float32"), ("fp16", "float16"), ("half precision", "float16"),
        ("bf16", "bfloat16"), ("double precision", "float64"), ("fp64", "float64"),
    ],
)  # fmt: skip
def test_element_types_are_read_from_the_words(words: str, dtype: str) -> None:
    data = plan(f"tanh of a {words} vector of length 100")
    assert {t["dtype"] for t in data["tensors"]} == {dtype}
    assert not any(a["what"] == "dtype" for a in data["assumptions"])


@pytest.mark.parametrize(
    ("words", "n"),
    [
        ("1000 elements", 1000), ("1,048,576 elements", 1 << 20), ("2^20 elements", 1 << 20), ("2**10 values", 1024),
        ("1 million elements", 10**6), ("1e6 elements", 10**6), ("64k elements", 1 << 16), ("length 12345", 12345),
        ("n = 77", 77), ("shape (65536,)", 65536), ("size 4096", 4096), ("one million elements", 10**6), ("n=1<<12", 4096),
        ("100k elements", 100_000), ("64 MiB of floats", 1 << 24), ("half a million entries", 500_000), ("10 000 values", 10_000),
    ],
)  # fmt: skip
def test_sizes_are_read_in_many_forms(words: str, n: int) -> None:
    assert sizes(plan(f"relu of a vector, {words}")) == {"n": n}


def test_every_unstated_choice_is_an_assumption_with_its_reason() -> None:
    data = plan("softmax")
    known = {a["what"]: a for a in data["assumptions"]}
    assert {"dtype", "size rows", "size cols", "axis"} <= set(known)
    assert all(a["why"] for a in data["assumptions"])


def test_an_index_is_compared_by_what_it_names() -> None:
    index = next(t for t in plan("argmin of each column")["tensors"] if t["role"] == "out")
    assert index["compare"] == {"mode": "index", "of": "x", "ties": "lowest", "axis": 0}
    assert index["dtype"] == "int32"


def test_sums_say_how_many_terms_they_have() -> None:
    out = next(t for t in plan("sum of each row")["tensors"] if t["role"] == "out")
    assert out["compare"] == {"mode": "close", "reduction_length": "cols"}


def test_sizes_stay_free_unless_the_request_fixes_them() -> None:
    assert all(not d.get("fixed") for d in plan("relu of a 4 x 5 matrix")["dims"])
    assert all(d["fixed"] for d in plan("relu of a 4 x 5 matrix, only for this size")["dims"])


def test_values_in_the_text_go_to_the_scalars_of_a_formula() -> None:
    scalars = {
        s["name"]: s["value"] for s in plan("out = a*x + b, a = 2.5, b = -1, x has 50 elements")["scalars"]
    }
    assert scalars == {"a": 2.5, "b": -1.0}


def test_costs_count_what_stays_the_same_once() -> None:
    assert plan("y[i,j] = exp(x[i,j]) / sum_k exp(x[i,k])")["cost"]["flops"].count("*") <= 5
    assert plan("cumulative sum of a vector")["cost"]["flops"] == "1*n"


def test_the_same_request_gives_the_same_plan() -> None:
    assert plan("layer norm of a 4 x 8 matrix") == plan("layer norm of a 4 x 8 matrix")
