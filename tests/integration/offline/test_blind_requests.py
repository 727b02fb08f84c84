"""Requests by somebody who had not seen the grammar: all are planned as meant, a sample is verified to the end."""

from typing import Any

import pytest

from cuda_harness.agents.llm.offline.planning.planner import plan

Row = tuple[str, str, dict[str, int], str]
BLIND: tuple[Row, ...] = (
    ("Add two float32 vectors of one million elements each.", "y[i] = a[i] + b[i]", {"n": 1000000}, "float32"),
    ("I need the mean of every row of a 2048x768 fp32 matrix.", "mean[i] = mean_j x[i,j]", {"rows": 2048, "cols": 768}, "float32"),
    ("Multiply A (300x200) by B (200x150), both single precision, and store C.", "c[i,j] = sum_k a[i,k]*b[k,j]", {"m": 300, "n": 150, "k": 200}, "float32"),
    ("ReLU applied in place of a 1-D array with 4096 half precision values.", "x[i] = relu(x[i])", {"n": 4096}, "float16"),
    ("Compute the sum of all 10 million floats in an array.", "sum = sum_i x[i]", {"n": 10000000}, "float32"),
    ("Transpose a 1000 by 700 matrix of floats.", "y[j,i] = x[i,j]", {"rows": 1000, "cols": 700}, "float32"),
    ("For each row find the index of the largest value; input is 512 x 333 float32.", "index[i] = argmax_j x[i,j]", {"rows": 512, "cols": 333}, "float32"),
    ("out[i] = sqrt(x[i]*x[i] + y[i]*y[i]) for n = 50000", "out[i] = sqrt(x[i]*x[i] + y[i]*y[i])", {"n": 50000}, "float32"),
    ("GELU activation (tanh approximation), tensor of shape 64x1024, float32", "y[i,j] = gelu_tanh(x[i,j])", {"rows": 64, "cols": 1024}, "float32"),
    ("Dot product of two vectors with 2^18 elements", "out = sum_i x[i]*y[i]", {"n": 262144}, "float32"),
    ("Column sums of a 600x400 float matrix", "sum[j] = sum_i x[i,j]", {"rows": 600, "cols": 400}, "float32"),
    ("log softmax over the last dimension, batch 32, classes 1000", "y[i,j] = x[i,j] - m[i] - log(s[i])", {"rows": 32, "cols": 1000}, "float32"),
    ("Mean squared error between prediction and target, 65536 values", "loss = mean_i square(pred[i] - target[i])", {"n": 65536}, "float32"),
    ("Layer normalization over the last axis of a [128, 512] tensor with learnable gamma and beta, eps 1e-5", "y[i,j] = (x[i,j] - mu[i])/sqrt(v[i] + 1e-05)*gamma[j] + beta[j]", {"rows": 128, "cols": 512}, "float32"),
    ("Matrix-vector product y = A x with A being 1024 x 512 in double precision", "y[i] = sum_j a[i,j]*x[j]", {"rows": 1024, "cols": 512}, "float64"),
    ("Scale a vector by 2.5, length 12345", "y[i] = x[i]*2.5", {"n": 12345}, "float32"),
    ("batched matrix multiply, 8 batches of 64x32 times 32x48", "c[b,i,j] = sum_k a[b,i,k]*w[b,k,j]", {"m": 64, "n": 48, "k": 32, "batch": 8}, "float32"),
    ("clamp every element of x to the range [-1, 1]; 100k elements", "y[i] = clamp(x[i], -1, 1)", {"n": 100000}, "float32"),
    ("L2 norm of each row, 256 rows by 300 columns", "norm[i] = sqrt(sum_j square(x[i,j]))", {"rows": 256, "cols": 300}, "float32"),
    ("SAXPY with n=1<<20", "y[i] = a*x[i] + y[i]", {"n": 1048576}, "float32"),
    ("Apply sigmoid to a 3D tensor of size 16 x 32 x 64", "y[b,i,j] = sigmoid(x[b,i,j])", {"batch": 16, "rows": 32, "cols": 64}, "float32"),
    ("variance of each column in a 500 x 60 matrix of doubles", "variance[j] = mean_i square(x[i,j] - mu[j])", {"rows": 500, "cols": 60}, "float64"),
    ("Elementwise maximum of two int32 arrays, 8192 entries", "y[i] = max(a[i], b[i])", {"n": 8192}, "int32"),
    ("RMS norm with a weight vector, hidden size 2048, 64 tokens, bf16", "y[i,j] = x[i,j]/sqrt(v[i] + 1e-06)*gamma[j]", {"rows": 64, "cols": 2048}, "bfloat16"),
    ("Copy an array of 1e6 int64 numbers", "y[i] = x[i]", {"n": 1000000}, "int64"),
)  # fmt: skip
"""Request, formula of the output, sizes, element type of the first tensor."""
FURTHER: tuple[Row, ...] = (
    ("Element-wise product of two half-precision arrays holding a quarter million numbers", "y[i] = a[i]*b[i]", {"n": 250000}, "float16"),
    ("I want y = max(x, 0) on a batch of 16 feature maps, 64 channels, 28x28", "y[b,c,i,j] = max(x[b,c,i,j], 0)", {"batch": 16, "channels": 64, "rows": 28, "cols": 28}, "float32"),
    ("Given a 1920x1080 matrix of floats, compute the maximum of each column.", "y[j] = max_i x[i,j]", {"rows": 1920, "cols": 1080}, "float32"),
    ("row-wise softmax of a [batch=64, classes=10] float tensor", "y[i,j] = exp(x[i,j] - m[i])/s[i]", {"rows": 64, "cols": 10}, "float32"),
    ("Please sum up 2 million doubles.", "sum = sum_i x[i]", {"n": 2000000}, "float64"),
    ("Compute A times B where A has 128 rows and 64 columns and B has 64 rows and 32 columns", "c[i,j] = sum_k a[i,k]*b[k,j]", {"m": 128, "n": 32, "k": 64}, "float32"),
    ("Multiply two square matrices with 512 rows each.", "c[i,j] = sum_k a[i,k]*b[k,j]", {"m": 512, "n": 512, "k": 512}, "float32"),
    ("GEMM in fp16 with M = 256, N = 512 and K = 1024", "c[i,j] = sum_k a[i,k]*b[k,j]", {"m": 256, "n": 512, "k": 1024}, "float16"),
    ("Normalize every row of a 100 x 257 matrix to unit L2 length", "y[i,j] = x[i,j]/max(s[i], 1e-12)", {"rows": 100, "cols": 257}, "float32"),
    ("What is the average of 5,000,000 float values?", "mean = mean_i x[i]", {"n": 5000000}, "float32"),
    ("swish over 3e5 floats", "y[i] = silu(x[i])", {"n": 300000}, "float32"),
    ("Find the largest element in an array of length 999983", "y = max_i x[i]", {"n": 999983}, "float32"),
    ("standard deviation across each row; 40 rows, 1,000 columns", "std[i] = sqrt(mean_j square(x[i,j] - mu[i]))", {"rows": 40, "cols": 1000}, "float32"),
    ("Subtract 3 from each of the 500 entries in an integer array", "y[i] = x[i] - 3", {"n": 500}, "int32"),
    ("add bias vector of size 256 to every row of a 1000x256 matrix", "y[i,j] = x[i,j] + bias[j]", {"rows": 1000, "cols": 256}, "float32"),
    ("KL divergence between two distributions of 4096 bins", "loss = sum_i p[i]*log(p[i]/q[i])", {"n": 4096}, "float32"),
    ("Swap the rows and columns of a 33-by-77 matrix", "y[j,i] = x[i,j]", {"rows": 33, "cols": 77}, "float32"),
    ("Batch normalization at inference on a 32x64x14x14 tensor", "y[b,c,i,j] = (x[b,c,i,j] - mean[c])/sqrt(var[c] + 1e-05)*gamma[c] + beta[c]", {"batch": 32, "channels": 64, "rows": 14, "cols": 14}, "float32"),
    ("Weighted sum alpha*x + beta*y of two vectors with sixteen thousand elements", "out[i] = alpha*x[i] + beta*y[i]", {"n": 16000}, "float32"),
    ("Exponential of a vector having 10 000 entries", "y[i] = exp(x[i])", {"n": 10000}, "float32"),
    ("argmin over the last dim of a 2D array with shape 77x101", "index[i] = argmin_j x[i,j]", {"rows": 77, "cols": 101}, "float32"),
    ("Take a vector of 64 MiB of floats and double each value", "y[i] = x[i]*2", {"n": 16777216}, "float32"),
    ("Negative log likelihood of softmax for 1024 samples with 50 classes", "loss = mean_i e[i]", {"rows": 1024, "cols": 50}, "float32"),
    ("tanh on a 2**16-element array", "y[i] = tanh(x[i])", {"n": 65536}, "float32"),
    ("inner product of two 100,000-dimensional double vectors", "out = sum_i x[i]*y[i]", {"n": 100000}, "float64"),
    ("elementwise square root of 65 thousand doubles", "y[i] = sqrt(x[i])", {"n": 65000}, "float64"),
    ("Compute a matrix product between a 123x45 and a 45x67 float matrix", "c[i,j] = sum_k a[i,k]*b[k,j]", {"m": 123, "n": 67, "k": 45}, "float32"),
    ("subtract the mean from each row of a matrix with 30 rows and 70 columns", "y[i,j] = x[i,j] - s[i]", {"rows": 30, "cols": 70}, "float32"),
    ("min over every column, matrix of 1000 rows and 12 columns, float64", "y[j] = min_i x[i,j]", {"rows": 1000, "cols": 12}, "float64"),
    ("log-sum-exp of each row, shape 50 by 60", "y[i] = m[i] + log(sum_j exp(x[i,j] - m[i]))", {"rows": 50, "cols": 60}, "float32"),
    ("How large is the Euclidean norm of a vector with 1 million entries?", "norm = sqrt(sum_i square(x[i]))", {"n": 1000000}, "float32"),
    ("ReLU then multiply by 2, 5000 values", "y[i] = relu(x[i])*2", {"n": 5000}, "float32"),
    ("Count = 4096: y[i] = 1/(1+exp(-x[i]))", "y[i] = 1/(1 + exp(-x[i]))", {"n": 4096}, "float32"),
    ("hardswish for a 7x11x13 tensor", "y[b,i,j] = hardswish(x[b,i,j])", {"batch": 7, "rows": 11, "cols": 13}, "float32"),
    ("sgemv with m=300 and n=200", "y[i] = sum_j a[i,j]*x[j]", {"rows": 300, "cols": 200}, "float32"),
    ("Dot product of vectors u and v in fp64, length 2^15", "out = sum_i x[i]*y[i]", {"n": 32768}, "float64"),
    ("batched transpose: 10 matrices each 33x65", "y[b,j,i] = x[b,i,j]", {"batch": 10, "rows": 33, "cols": 65}, "float32"),
    ("average each column of a [256, 100] table of floats", "mean[j] = mean_i x[i,j]", {"rows": 256, "cols": 100}, "float32"),
    ("cumulative sum along every row of a 20 x 3000 matrix", "y[i,j] = sum_{k<=j} x[i,k]", {"rows": 20, "cols": 3000}, "float32"),
    ("Binary cross entropy with logits over 10k examples", "loss = mean_i (max(pred[i], 0) - pred[i]*target[i] + log1p(exp(-abs(pred[i]))))", {"n": 10000}, "float32"),
    ("absolute value of a vector of bfloat16, 300k entries", "y[i] = abs(x[i])", {"n": 300000}, "bfloat16"),
    ("L1 norm of an array holding 123,456 floats", "norm = sum_i abs(x[i])", {"n": 123456}, "float32"),
    ("product of all entries of a 64-element vector", "prod = prod_i x[i]", {"n": 64}, "float32"),
    ("copy 256 MiB of float32", "y[i] = x[i]", {"n": 67108864}, "float32"),
    ("multiply-accumulate a*b+c for three arrays of length 8k", "y[i] = a[i]*b[i] + c[i]", {"n": 8192}, "float32"),
    ("softplus activation for 2 billion elements", "y[i] = softplus(x[i])", {"n": 2000000000}, "float32"),
    ("Cosine similarity between matching rows of two 100x300 matrices", "y[i] = (sum_j a[i,j]*b[i,j])/max(sqrt(sum_j a[i,j]*a[i,j])*sqrt(sum_j b[i,j]*b[i,j]), 1e-08)", {"rows": 100, "cols": 300}, "float32"),
    ("add two 3D tensors of 4 by 5 by 6 half floats", "y[b,i,j] = a[b,i,j] + b_[b,i,j]", {"batch": 4, "rows": 5, "cols": 6}, "float16"),
    ("cross entropy loss, batch size 256, vocabulary of 5000 classes", "loss = mean_i e[i]", {"rows": 256, "cols": 5000}, "float32"),
    ("Hinge loss between predictions and targets of size 4096", "loss = mean_i max(0, 1 - pred[i]*target[i])", {"n": 4096}, "float32"),
    ("Given float arrays a and b of 1e6 entries each, produce c with c = a - b", "c[i] = a[i] - b[i]", {"n": 1000000}, "float32"),
    ("kernel to compute the row maximum of a half precision 4096-by-512 matrix", "y[i] = max_j x[i,j]", {"rows": 4096, "cols": 512}, "float16"),
    ("Please normalise each of the 128 rows (length 1000) with softmax.", "y[i,j] = exp(x[i,j] - m[i])/s[i]", {"rows": 128, "cols": 1000}, "float32"),
    ("I have 3 vectors of 4096 floats and want their elementwise sum", "y[i] = a[i] + b[i] + c[i]", {"n": 4096}, "float32"),
    ("What's the smallest value in a list of 77777 ints?", "y = min_i x[i]", {"n": 77777}, "int32"),
    ("Multiply a 1024x1024 double matrix by a vector", "y[i] = sum_j a[i,j]*x[j]", {"rows": 1024, "cols": 1024}, "float64"),
    ("take the square root of everything in a 100x200x30 tensor", "y[b,i,j] = sqrt(x[b,i,j])", {"batch": 100, "rows": 200, "cols": 30}, "float32"),
    ("RMSNorm, 2048 tokens, model dim 1024, half precision", "y[i,j] = x[i,j]/sqrt(v[i] + 1e-06)*gamma[j]", {"rows": 2048, "cols": 1024}, "float16"),
    ("out = alpha * x + y, alpha = 0.5, one hundred thousand elements", "out[i] = alpha*x[i] + y[i]", {"n": 100000}, "float32"),
    ("mean absolute error for two 2D arrays of shape 300x400", "loss = mean_{i,j} abs(pred[i,j] - target[i,j])", {"rows": 300, "cols": 400}, "float32"),
    ("Apply the tanh GELU to 10 million bf16 values", "y[i] = gelu_tanh(x[i])", {"n": 10000000}, "bfloat16"),
    ("sum over the second axis of an array shaped (64, 128, 32)", "sum[b,j] = sum_i x[b,i,j]", {"batch": 64, "rows": 128, "cols": 32}, "float32"),
    ("dot each row of A with the corresponding row of B, both 500 x 64", "out[i] = sum_j x[i,j]*y[i,j]", {"rows": 500, "cols": 64}, "float32"),
    ("Subtract the row mean from a 256 by 256 matrix", "y[i,j] = x[i,j] - s[i]", {"rows": 256, "cols": 256}, "float32"),
    ("X is 2000 x 300. Compute X^T X.", "y[i,j] = sum_k x[k,i]*x[k,j]", {"rows": 2000, "cols": 300}, "float32"),
    ("fill an array of 4096 doubles with 3.5", "y[i] = 3.5", {"n": 4096}, "float64"),
    ("Add 1 to every element of an int64 vector of length 2**18", "y[i] = x[i] + 1", {"n": 262144}, "int64"),
    ("index of the minimum along axis 0 for a (50, 70) float64 array", "index[j] = argmin_i x[i,j]", {"rows": 50, "cols": 70}, "float64"),
    ("prefix max of 10k integers", "y[i] = max_{k<=i} x[k]", {"n": 10000}, "int32"),
    ("Rotate vectors x and y by the Givens rotation, n = 5000", "y_out[i] = c*y[i] - s*x[i]", {"n": 5000}, "float32"),
    ("flip the order of a 12345-element vector", "y[i] = x[n - 1 - i]", {"n": 12345}, "float32"),
    ("hinge loss, 1024 samples", "loss = mean_i max(0, 1 - pred[i]*target[i])", {"n": 1024}, "float32"),
    ("y = W x + b with W of size 300 x 500", "y[i] = sum_j a[i,j]*x[j] + bias[i]", {"rows": 300, "cols": 500}, "float32"),
    ("layernorm without affine over the last dim of 32x128x256", "y[b,i,j] = (x[b,i,j] - mu[b,i])/sqrt(v[b,i] + 1e-05)", {"batch": 32, "rows": 128, "cols": 256}, "float32"),
)  # fmt: skip


@pytest.mark.parametrize(("request_text", "formula", "dims", "dtype"), [*BLIND, *FURTHER])
def test_a_blind_request_is_planned_as_it_was_meant(
    request_text: str, formula: str, dims: dict[str, int], dtype: str
) -> None:
    data: dict[str, Any] = plan(request_text)
    assert data["steps"][-1]["formula"] == formula
    assert {d["name"]: d["value"] for d in data["dims"]} == dims
    assert data["tensors"][0]["dtype"] == dtype
