"""What the built-in templates can do, and how they say no."""

CAN = (
    "element-wise formulas such as `y[i] = a*x[i] + y[i]`, arithmetic of arrays, and activations: relu, leaky relu, elu, selu, celu, gelu "
    "(exact and tanh), silu, mish, sigmoid, tanh, softplus, softsign, hardtanh, hardswish, hardsigmoid, exp, log, sqrt, abs, square, clamp",
    "reductions over rows, columns, an axis or everything: sum, mean, product, max, min, argmax, argmin, variance, standard deviation, "
    "L1, L2 and maximum norm, log-sum-exp",
    "losses: mean squared and absolute error, Huber, smooth L1, binary cross-entropy (with logits), cross-entropy with class indices, "
    "hinge, KL divergence; cosine similarity, Euclidean distance of corresponding rows",
    "softmax, log-softmax and softmin along an axis; layer norm, RMS norm, batch norm (inference), L2 normalisation of rows",
    "matrix products: plain, batched, transposed, matrix-vector, vector-matrix, outer and dot product, linear layer, bias and activation",
    "transpose, copy, fill, reverse, gather of rows; cumulative sum, product, maximum and minimum along an axis",
    "BLAS-1: axpy, axpby, scal, dot, nrm2, asum, iamax, swap, rot, copy",
    "any formula with explicit indices over +, -, *, /, ^, these functions, and sum_k, mean_k, max_k, min_k, prod_k, argmax_k",
)
HOW_TO_NAME_A_MODEL = "For anything else name a language model: `--model openai:NAME` (with OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server)."


class Refusal(Exception):  # noqa: N818 - carries the reason out of the reader
    """The request is beyond the built-in templates, or contradicts itself; the text says what about it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def refusal_text(reason: str) -> str:
    """Return the reason; beyond the templates also how to name a model, and what can be done without one."""
    head = f"the built-in templates (--model offline) cannot serve this request: {reason}."
    if reason.startswith("the sizes contradict"):
        return head
    return f"{head} {HOW_TO_NAME_A_MODEL} What they can do: {'; '.join(CAN)}."
