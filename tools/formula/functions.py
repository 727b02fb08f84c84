"""The functions of the formula language: what each means, in formulas, NumPy, plain Python and CUDA C.

The three programs of one function are written apart on purpose: a kernel uses the accurate form, the vectorised
reference SciPy's, the loop reference the definition, so that a slip in one of them shows.
"""

from dataclasses import dataclass
from typing import Literal

Domain = Literal["any", "positive", "non_negative", "unit", "growing"]
"""What the first argument must be for a finite result; `growing`: bounded above, since it grows like exp."""


@dataclass(frozen=True)
class Function:
    """One function of real arguments.

    In `c` and `c_body`, `@` becomes the suffix of math functions (`f` for float) and `~` that of constants, `T` the
    type; `{0}` ... are the arguments. `c_body` is the body of a device function over the parameters' names.
    """

    parameters: tuple[str, ...]
    numpy: str
    meaning: str = ""
    """Definition in the formula language over `parameters`; empty for a primitive."""
    python: str = ""
    """Scalar expression with `math`; empty when `meaning` is expanded instead."""
    c: str = ""
    c_body: str = ""
    c_int: str = ""
    """Body for 64-bit integers over the parameters' names; empty: not for integers."""
    defaults: tuple[str, ...] = ()
    domain: Domain = "any"
    flops: int = 1
    words: str = ""
    """What to say in an edge rule when the formula is not enough."""


def _math(
    name: str, *, numpy: str = "", python: str = "", domain: Domain = "any", flops: int = 8
) -> Function:
    return Function(
        ("x",), f"np.{numpy or name}({{0}})", python=python or f"math.{name}({{0}})", c=f"{name}@({{0}})",
        domain=domain, flops=flops,
    )  # fmt: skip


_PRIMITIVES: dict[str, Function] = {
    "exp": _math("exp", domain="growing", python="_exp({0})"),
    "exp2": _math("exp2", domain="growing", python="_pow(2.0, {0})"),
    "expm1": _math("expm1", domain="growing", python="_expm1({0})"),
    "log": _math("log", domain="positive", python="_log({0})"),
    "log2": _math("log2", domain="positive", python="_log({0}, 2.0)"),
    "log10": _math("log10", domain="positive", python="_log({0}, 10.0)"),
    "log1p": _math("log1p", domain="non_negative", python="math.log1p({0})"),
    "sqrt": _math("sqrt", domain="non_negative", flops=4),
    "rsqrt": Function(("x",), "1.0 / np.sqrt({0})", python="1.0 / math.sqrt({0})", c="(1~ / sqrt@({0}))",
                      domain="positive", flops=4, words="rsqrt(x) = 1 / sqrt(x)"),
    "sin": _math("sin"), "cos": _math("cos"), "tan": _math("tan"), "tanh": _math("tanh"),
    "sinh": _math("sinh", domain="growing", python="_sinh({0})"),
    "cosh": _math("cosh", domain="growing", python="_cosh({0})"),
    "asin": _math("asin", numpy="arcsin", domain="unit"), "acos": _math("acos", numpy="arccos", domain="unit"),
    "atan": _math("atan", numpy="arctan"), "erf": Function(("x",), "special.erf({0})", python="math.erf({0})",
                                                          c="erf@({0})", flops=12),
    "erfc": Function(("x",), "special.erfc({0})", python="math.erfc({0})", c="erfc@({0})", flops=12,
                     words="erfc(x) = 1 - erf(x)"),
    "floor": _math("floor", flops=1), "ceil": _math("ceil", flops=1), "trunc": _math("trunc", flops=1),
    "round": Function(("x",), "np.rint({0})", python="float(round({0}))", c="rint@({0})",
                      words="round is to the nearest integer, halves to even"),
    "abs": Function(("x",), "np.abs({0})", python="abs({0})", c="fabs@({0})", c_int="return x < 0 ? -x : x;"),
    "sign": Function(("x",), "np.sign({0})", python="({0} > 0) - ({0} < 0)", c_body="return T((x > T(0)) - (x < T(0)));",
                     c_int="return (x > 0) - (x < 0);", words="sign(x) is -1, 0 or 1"),
    "min": Function(("x", "y"), "np.minimum({0}, {1})", python="min({0}, {1})", c="fmin@({0}, {1})",
                    c_int="return y < x ? y : x;"),
    "max": Function(("x", "y"), "np.maximum({0}, {1})", python="max({0}, {1})", c="fmax@({0}, {1})",
                    c_int="return y > x ? y : x;"),
    "pow": Function(("x", "y"), "np.power({0}, {1})", python="_pow({0}, {1})", c="pow@({0}, {1})",
                    domain="positive", flops=16),
    "where": Function(("c", "x", "y"), "np.where({0}, {1}, {2})", python="({1} if {0} else {2})",
                      c="({0} ? {1} : {2})", c_int="return c ? x : y;", words="where(c, x, y) is x if c holds, else y"),
}  # fmt: skip

_NAMED: dict[str, Function] = {
    "square": Function(("x",), "np.square({0})", "x*x", c_body="return x * x;", c_int="return x * x;"),
    "cube": Function(("x",), "({0}) ** 3", "x*x*x", c_body="return x * x * x;", c_int="return x * x * x;", flops=2),
    "reciprocal": Function(("x",), "1.0 / ({0})", "1/x", c_body="return T(1) / x;"),
    "clamp": Function(("x", "low", "high"), "np.clip({0}, {1}, {2})", "min(max(x, low), high)",
                      c_body="return fmin@(fmax@(x, low), high);",
                      c_int="return x < low ? low : (x > high ? high : x);", flops=2),
    "relu": Function(("x",), "np.maximum({0}, 0.0)", "max(x, 0)", c_body="return fmax@(x, T(0));",
                     c_int="return x > 0 ? x : 0;"),
    "relu6": Function(("x",), "np.clip({0}, 0.0, 6.0)", "min(max(x, 0), 6)", c_body="return fmin@(fmax@(x, T(0)), T(6));",
                      flops=2),
    "leaky_relu": Function(("x", "slope"), "np.where({0} > 0, {0}, {1} * {0})", "where(x > 0, x, slope*x)",
                           c_body="return x > T(0) ? x : slope * x;", defaults=("0.01",), flops=2),
    "elu": Function(("x", "alpha"), "np.where({0} > 0, {0}, {1} * np.expm1(np.minimum({0}, 0.0)))",
                    "where(x > 0, x, alpha*expm1(min(x, 0)))",
                    c_body="return x > T(0) ? x : alpha * expm1@(x);", defaults=("1",), flops=10),
    "celu": Function(("x", "alpha"), "np.maximum({0}, 0.0) + np.minimum({1} * np.expm1(np.minimum({0}, 0.0) / {1}), 0.0)",
                     "max(x, 0) + min(0, alpha*expm1(min(x, 0)/alpha))",
                     c_body="return x > T(0) ? x : alpha * expm1@(x / alpha);", defaults=("1",), flops=12),
    "selu": Function(("x",), "1.0507009873554805 * np.where({0} > 0, {0}, 1.6732632423543772 * np.expm1(np.minimum({0}, 0.0)))",
                     "1.0507009873554805*where(x > 0, x, 1.6732632423543772*expm1(min(x, 0)))",
                     c_body="return 1.0507009873554805~ * (x > T(0) ? x : 1.6732632423543772~ * expm1@(x));", flops=11),
    "sigmoid": Function(("x",), "special.expit({0})", "1/(1 + exp(-x))",
                        c_body="const T e = exp@(-fabs@(x));\n  return (x >= T(0) ? T(1) : e) / (T(1) + e);", flops=10),
    "log_sigmoid": Function(("x",), "-np.logaddexp(0.0, -({0}))", "min(x, 0) - log1p(exp(-|x|))",
                            c_body="return fmin@(x, T(0)) - log1p@(exp@(-fabs@(x)));", flops=18),
    "softplus": Function(("x",), "np.logaddexp(0.0, {0})", "max(x, 0) + log1p(exp(-|x|))",
                         c_body="return fmax@(x, T(0)) + log1p@(exp@(-fabs@(x)));", flops=18),
    "silu": Function(("x",), "({0}) * special.expit({0})", "x/(1 + exp(-x))",
                     c_body="const T e = exp@(-fabs@(x));\n  return x * ((x >= T(0) ? T(1) : e) / (T(1) + e));", flops=11),
    "mish": Function(("x",), "({0}) * np.tanh(np.logaddexp(0.0, {0}))", "x*tanh(max(x, 0) + log1p(exp(-|x|)))",
                     c_body="return x * tanh@(fmax@(x, T(0)) + log1p@(exp@(-fabs@(x))));", flops=28),
    "gelu": Function(("x",), "0.5 * ({0}) * special.erfc(-({0}) * 0.7071067811865476)",
                     "0.5*x*erfc(-x*0.7071067811865476)", c_body="return 0.5~ * x * erfc@(x * -0.7071067811865476~);",
                     flops=14),
    "gelu_tanh": Function(("x",), "({0}) * special.expit(1.5957691216057308 * (({0}) + 0.044715 * ({0}) ** 3))",
                          "x/(1 + exp(-1.5957691216057308*(x + 0.044715*x*x*x)))",
                          c_body="const T u = 1.5957691216057308~ * (x + 0.044715~ * x * x * x), e = exp@(-fabs@(u));\n"
                                 "  return x * ((u >= T(0) ? T(1) : e) / (T(1) + e));", flops=16),
    "softsign": Function(("x",), "({0}) / (1.0 + np.abs({0}))", "x/(1 + |x|)", c_body="return x / (T(1) + fabs@(x));",
                         flops=3),
    "hardtanh": Function(("x", "low", "high"), "np.clip({0}, {1}, {2})", "min(max(x, low), high)",
                         c_body="return fmin@(fmax@(x, low), high);", defaults=("-1", "1"), flops=2),
    "hardsigmoid": Function(("x",), "np.clip(({0}) / 6.0 + 0.5, 0.0, 1.0)", "min(max(x/6 + 0.5, 0), 1)",
                            c_body="return fmin@(fmax@(x / T(6) + 0.5~, T(0)), T(1));", flops=4),
    "hardswish": Function(("x",), "({0}) * np.clip(({0}) + 3.0, 0.0, 6.0) / 6.0", "x*min(max(x + 3, 0), 6)/6",
                          c_body="return x * fmin@(fmax@(x + T(3), T(0)), T(6)) / T(6);", flops=5),
    "hardshrink": Function(("x", "lambda_"), "np.where(np.abs({0}) > {1}, {0}, 0.0)", "where(|x| > lambda_, x, 0)",
                           c_body="return fabs@(x) > lambda_ ? x : T(0);", defaults=("0.5",), flops=2),
    "softshrink": Function(("x", "lambda_"), "np.sign({0}) * np.maximum(np.abs({0}) - {1}, 0.0)",
                           "where(x > lambda_, x - lambda_, where(x < -lambda_, x + lambda_, 0))",
                           c_body="return x > lambda_ ? x - lambda_ : (x < -lambda_ ? x + lambda_ : T(0));",
                           defaults=("0.5",), flops=3),
    "tanhshrink": Function(("x",), "({0}) - np.tanh({0})", "x - tanh(x)",
                           c_body="const T s = x * x;\n  return fabs@(x) > 0.3~ ? x - tanh@(x)\n"
                                  "    : x * s * (T(1) / T(3) - s * (T(2) / T(15) - s * (T(17) / T(315) - s * (T(62) / T(2835)))));",
                           flops=12),
}  # fmt: skip

FUNCTIONS: dict[str, Function] = {**_PRIMITIVES, **_NAMED}


def meaning_of(name: str) -> str | None:
    """Return the sentence that defines a function for readers of an IR; `None` for what needs no telling."""
    function = FUNCTIONS[name]
    if function.meaning:
        return f"{name}({', '.join(function.parameters)}) = {function.meaning}"
    return function.words or None
