"""Arithmetic of fewer bits, emulated on a reference: its text is rewritten here and runs contained, as it does itself.

The operands of products are rounded, accumulation keeps the reference's type: so tensor cores compute with TF32, half
and bfloat16 operands (inputs are rounded as they are loaded, and matrix products round what they are given).
"""

import ast
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.state.serde import parse_python
from cuda_harness.tools.synthesize.reply import Question

Array = NDArray[Any]
BITS = {"TF32 or half operands": 11, "bfloat16 operands": 8}
"""Significant bits, the hidden one included, of an emulation's operands."""
FLOAT32_FOR_64 = "float32 in place of float64"
_CONTRACTIONS = frozenset(
    {"matmul", "dot", "vdot", "inner", "outer", "einsum", "tensordot", "multi_dot", "convolve", "correlate", "convolve2d", "correlate2d"}
)  # fmt: skip
_KEY = "__significant_bits__"
"""The scalar by which a question asks a narrowing text for fewer bits; the reference does not see it."""
_SINGLE = """
def _single(value):
    import numpy
    wide = isinstance(value, (numpy.ndarray, numpy.floating)) and value.dtype == numpy.dtype("f8")
    return value.astype(numpy.float32) if wide else value
"""
_HELPER = f"""
_significant_bits = None
_plain_reference = reference


def _narrow_operand(value):
    import numpy
    if _significant_bits is None or not isinstance(value, (numpy.ndarray, numpy.floating)) or value.dtype.kind != "f":
        return value
    mantissa, exponent = numpy.frexp(value.astype(numpy.float64))
    kept = numpy.rint(mantissa * 2.0**_significant_bits) / 2.0**_significant_bits
    return numpy.ldexp(kept, exponent).astype(value.dtype)


def reference(inputs, dims, scalars):
    global _significant_bits
    _significant_bits = scalars.pop({_KEY!r}, None)
    return _plain_reference(inputs, dims, scalars)
"""


def in_float32(source: str) -> str:
    """Return the reference's text with float32 wherever it says float64: as an honest kernel computes."""
    return source.replace("float64", "float32").replace("longdouble", "float32")


def all_in_float32(source: str) -> str:
    """Return `in_float32`'s text with what operators and calls give in float32 too.

    NumPy's own scalars are float64 (`np.sqrt(2.0)`) and would lift what they touch. What is added to in place keeps its
    type, since others may see it. The text is never run here.
    """
    source = in_float32(source)
    try:
        tree = _Singles().visit(parse_python(source))
        head = next((k for k, part in enumerate(tree.body) if not _is_head(part)), len(tree.body))
        tree.body[head:head] = ast.parse(_SINGLE).body
        return ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source


def _is_head(part: ast.stmt) -> bool:
    """Return whether a statement must stay before all others: the docstring, an import from the future."""
    future = isinstance(part, ast.ImportFrom) and part.module == "__future__"
    return future or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))


def narrowing(source: str) -> str:
    """Return a text that says what the reference says, and with fewer bits where a question of `emulation` asks so.

    The text is parsed and printed, never run here; one that cannot be parsed narrows its inputs only.
    """
    try:
        tree = _Products().visit(parse_python(source))
        source = ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return source + "\n" + _HELPER


def emulation(ir: KernelIR, question: Question, name: str) -> Question:
    """Return a question, to a narrowing text, whose inputs and products have the bits that `name` stands for."""
    inputs = {t.name: _loaded(name, t.dtype, question.inputs[t.name]) for t in ir.inputs}
    asked = {_KEY: BITS[name]} if name in BITS else {}
    return replace(question, inputs=inputs, scalars={**question.scalars, **asked})


class _Singles(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(part) for part in node.body]  # not its annotations: `dict[str, int | float]`
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value is not None else None
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(func=ast.Name(id="_single", ctx=ast.Load()), args=[node], keywords=[])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(func=ast.Name(id="_single", ctx=ast.Load()), args=[node], keywords=[])


class _Products(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.MatMult):
            node.left, node.right = _narrowed(node.left), _narrowed(node.right)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _CONTRACTIONS:
            function.value = _narrowed(function.value)  # `a.dot(b)`; a module passes through
            node.args = [a if isinstance(a, ast.Starred) else _narrowed(a) for a in node.args]
        return node


def _narrowed(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Constant):
        return value
    return ast.Call(func=ast.Name(id="_narrow_operand", ctx=ast.Load()), args=[value], keywords=[])


def _loaded(name: str, dtype: str, value: Array) -> Array:
    """Return an input as an emulation loads it: floats with the bits of `BITS[name]`, everything else as it is.

    The range of exponents stays: what half cannot hold is a matter of the data, not of rounding.
    """
    bits = BITS.get(name)
    if name == FLOAT32_FOR_64 and dtype == "float64":
        return np.asarray(value).astype(np.float32)
    if dtype not in FLOATS or bits is None:
        return np.asarray(value)
    mantissa, exponent = np.frexp(np.asarray(value, dtype=np.float64))
    with np.errstate(all="ignore"):
        return np.asarray(np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent).astype(value.dtype))


def allowed(ir: KernelIR) -> tuple[str, ...]:
    """Return the emulations that the IR's precision policy makes honest.

    bfloat16 has eight times the rounding of half: `allow_half` covers it where the problem itself holds bfloat16.
    """
    floats = {t.dtype for t in ir.tensors if t.dtype in FLOATS}
    if not floats or ir.numerics.precision == "strict":
        return ()
    coarse = ir.numerics.precision == "allow_half" and "bfloat16" in floats
    return tuple(BITS) if coarse else ("TF32 or half operands",)


def forbidden(ir: KernelIR) -> tuple[str, ...]:
    """Return the emulations that `strict` forbids and that an output of 32 or 64 bits can show."""
    wide = any(t.dtype in {"float32", "float64"} for t in ir.outputs)
    return tuple(BITS) if ir.numerics.precision == "strict" and wide else ()
