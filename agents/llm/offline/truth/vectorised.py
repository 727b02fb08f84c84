"""The vectorised reference: every array is laid out over the statement's index variables and NumPy does the rest."""

from dataclasses import dataclass, field

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.tools.formula.binding import Bound, Problem
from cuda_harness.tools.formula.functions import FUNCTIONS
from cuda_harness.tools.formula.nodes import (
    Access,
    Binary,
    Call,
    Name,
    Negate,
    Node,
    Num,
    Reduce,
    accesses,
    bound_variables,
    free_variables,
    show_statement,
    substitute,
)
from cuda_harness.tools.formula.parse import FormulaError

_HEAD = '''import numpy as np
from scipy import special


def _laid(array, order, rank):
    """Return `array` with its axis n at place order[n] among `rank` axes."""
    back = np.argsort(order)
    shape = [1] * rank
    for place, axis in zip(sorted(order), back):
        shape[place] = array.shape[axis]
    return np.transpose(array, back).reshape(shape)


def _spread(value, sizes, rank):
    """Return `value` at its full size along the axes of `sizes`, among `rank` axes."""
    value = np.asarray(value)
    shape = list(value.shape) if value.ndim else [1] * rank
    for axis, size in sizes.items():
        shape[axis] = size
    return np.broadcast_to(value, shape)


def _place(find, value, axes):
    """Return the flat index over `axes` that `find` (argmax or argmin) gives, those axes kept with length 1."""
    kept = [a for a in range(value.ndim) if a not in axes]
    moved = np.transpose(value, kept + list(axes)).reshape([value.shape[a] for a in kept] + [-1])
    shape = [1 if a in axes else value.shape[a] for a in range(value.ndim)]
    return find(moved, axis=-1).reshape(shape)


def _product(left, right, left_axes, right_axes, sizes, counts, out):
    """Return sum over the inner axes of left*right as one batched matrix product; axes are (batch, free, inner)."""
    a = np.transpose(left, left_axes).reshape(sizes[0], sizes[1], sizes[3])
    b = np.transpose(right, right_axes).reshape(sizes[0], sizes[2], sizes[3])
    return np.transpose(np.matmul(a, b.transpose(0, 2, 1)).reshape(counts), out)


def _wrapped(value, dtype):
    """Return integers as `dtype`, wrapped around like C's unsigned arithmetic."""
    return np.asarray(value).astype(np.int64).astype(dtype)
'''


@dataclass
class _Writer:
    problem: Problem
    bound: Bound
    order: tuple[str, ...]
    """Index variables, one axis each."""
    real: bool
    lines: list[str] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return len(self.order)

    def size(self, expression: str) -> str:
        """Return the Python text of a size expression."""
        from cuda_harness.state.expr import Expr

        names = sorted(Expr(expression).names)
        text = expression
        if text in names:
            return f"dims[{text!r}]"
        import re

        return (
            "(" + re.sub(r"[A-Za-z_]\w*", lambda m: f"dims[{m[0]!r}]" if m[0] in names else m[0], text) + ")"
        )

    def axis(self, variable: str) -> int:
        return self.order.index(variable)

    def value(self, node: Node) -> str:
        match node:
            case Num(_, text):
                return text
            case Name(name):
                return self.name(name)
            case Access():
                return self.access(node)
            case Negate(operand):
                return f"(-{self.value(operand)})"
            case Call(name, args):
                return "(" + FUNCTIONS[name].numpy.format(*(self.value(a) for a in args)) + ")"
            case Binary(op, left, right):
                return f"({self.value(left)} {'**' if op == '^' else op} {self.value(right)})"
            case Reduce():
                return self.reduce(node)

    def name(self, name: str) -> str:
        if name in self.order:
            return self.index(name)
        if name in self.problem.scalars:
            return f"scalars[{name!r}]"
        if name in self.problem.dims:
            return f"dims[{name!r}]"
        return f"a[{name!r}].reshape([1] * {self.rank})"

    def index(self, variable: str) -> str:
        shape = ", ".join("-1" if v == variable else "1" for v in self.order)
        return f"np.arange({self.size(self.bound.extents[variable])}).reshape({shape})"

    def access(self, node: Access) -> str:
        names = [i.name if isinstance(i, Name) and i.name in self.order else "" for i in node.indices]
        if all(names) and len(set(names)) == len(names):
            return f"_laid(a[{node.name!r}], {[self.axis(v) for v in names]}, {self.rank})"
        places = ", ".join(self.position(i) for i in node.indices)
        return f"a[{node.name!r}][{places}]"

    def position(self, node: Node) -> str:
        """Return an index as an integer array over the variables."""
        if isinstance(node, Num):
            return f"np.full([1] * {self.rank}, {int(node.value)})"
        if isinstance(node, Access):
            return f"{self.access(node)}.astype(np.int64)"
        return self.value(node)

    def reduce(self, node: Reduce) -> str:
        if node.bound is not None:
            return self.scan(node)
        product = self.product(node)
        if product is not None:
            return product
        axes = tuple(self.axis(v) for v in node.variables)
        sizes = ", ".join(f"{self.axis(v)}: {self.size(self.bound.extents[v])}" for v in node.variables)
        body = f"_spread({self.value(node.body)}, {{{sizes}}}, {self.rank})"
        if node.kind in {"argmax", "argmin"}:
            return f"_place(np.{node.kind}, {body}, {axes})"
        return f"np.{node.kind}({body}, axis={axes}, keepdims=True)"

    def product(self, node: Reduce) -> str | None:
        """Return a matrix product for `sum_k a*b`, whose broadcast product would be too large to store."""
        body = node.body
        if node.kind != "sum" or not (isinstance(body, Binary) and body.op == "*"):
            return None
        left, right = body.left, body.right
        if not (isinstance(left, Access) and isinstance(right, Access)):
            return None
        names: list[list[str]] = []
        for side in (left, right):
            own = [i.name if isinstance(i, Name) and i.name in self.order else "" for i in side.indices]
            if not all(own) or len(set(own)) != len(own):
                return None
            names.append(own)
        inner = list(node.variables)
        if not set(inner) <= set(names[0]) & set(names[1]):
            return None
        batch = [v for v in names[0] if v in names[1] and v not in inner]
        rows = [v for v in names[0] if v not in names[1]]
        cols = [v for v in names[1] if v not in names[0]]

        def count(variables: list[str]) -> str:
            return " * ".join(self.size(self.bound.extents[v]) for v in variables) or "1"

        flat = [*batch, *rows, *cols]
        left_axes = [names[0].index(v) for v in (*batch, *rows, *inner)]
        right_axes = [names[1].index(v) for v in (*batch, *cols, *inner)]
        counts = ", ".join(self.size(self.bound.extents[v]) for v in flat)
        own_order = [v for v in self.order if v in flat]
        out = [flat.index(v) for v in own_order]
        made = (
            f"_product(a[{left.name!r}], a[{right.name!r}], {left_axes}, {right_axes}, "
            f"({count(batch)}, {count(rows)}, {count(cols)}, {count(inner)}), ({counts}{',' if flat else ''}), {out})"
        )
        return f"_laid({made}, {[self.axis(v) for v in own_order]}, {self.rank})"

    def scan(self, node: Reduce) -> str:
        assert node.bound is not None  # noqa: S101 - the caller asked
        sign, along = node.bound
        variable = node.variables[0]
        if free_variables(node.body, frozenset({along})) or node.kind in {"argmax", "argmin", "mean"}:
            msg = f"the scan {node.kind}_{{{variable}{sign}{along}}} is beyond the built-in references"
            raise FormulaError(msg)
        body = self.value(substitute(node.body, {variable: Name(along)}))
        axis = self.axis(along)
        body = f"_spread({body}, {{{axis}: {self.size(self.bound.extents[along])}}}, {self.rank})"
        step = {"sum": "np.add", "prod": "np.multiply", "max": "np.maximum", "min": "np.minimum"}[node.kind]
        done = f"{step}.accumulate({body}, axis={axis})"
        if sign == "<=":
            return done
        if node.kind not in {"sum", "prod"}:
            msg = "an exclusive maximum or minimum of nothing has no value"
            raise FormulaError(msg)
        first = "zeros" if node.kind == "sum" else "ones"
        shape = f"[1 if n == {axis} else s for n, s in enumerate(whole.shape)]"
        return (
            f"(lambda whole: np.concatenate([np.{first}({shape}), "
            f"np.take(whole, range(whole.shape[{axis}] - 1), axis={axis})], axis={axis}))({done})"
        )


def vectorised_reference(ir: KernelIR) -> str:
    """Return reference.py in vectorised NumPy; raises FormulaError."""
    problem = Problem(ir)
    body = ["a = {}"]
    for tensor in ir.inputs:
        kind = "np.float64" if tensor.dtype in FLOATS else "np.int64"
        body.append(f"a[{tensor.name!r}] = inputs[{tensor.name!r}].astype({kind})")
    body += ['with np.errstate(all="ignore"):']
    for bound in problem.bound:
        body += [f"    {line}" for line in _statement(problem, bound)]
    results = []
    for tensor in ir.outputs:
        if tensor.dtype in FLOATS:
            results.append(f"{tensor.name!r}: np.array(a[{tensor.name!r}], dtype=np.float64)")
        elif tensor.dtype == "bool":
            results.append(f"{tensor.name!r}: np.array(a[{tensor.name!r}]) != 0")
        else:
            results.append(f"{tensor.name!r}: _wrapped(a[{tensor.name!r}], np.{tensor.dtype})")
    lines = "\n".join(f"    {line}" for line in [*body, f"return {{{', '.join(results)}}}"])
    return f"{_HEAD}\n\ndef reference(inputs, dims, scalars):\n{lines}\n"


def _statement(problem: Problem, bound: Bound) -> list[str]:
    statement = bound.statement
    order = (*statement.indices, *sorted(bound_variables(statement.value)))
    scanned = {n.variables[0] for n in _scans(statement.value)}
    order = tuple(v for v in order if v not in scanned or v in statement.indices)
    real = any(problem.is_float(a.name) for a in accesses(statement.value)) or problem.is_float(
        statement.target
    )
    writer = _Writer(problem, bound, order, real)
    text = writer.value(statement.value)
    shape = "".join(f"{writer.size(s)}, " for s in bound.shape)
    own = len(statement.indices)
    kept = f"[{', '.join([':'] * own + ['0'] * (len(order) - own))}]" if order else ""
    sizes = ", ".join(f"{n}: {writer.size(s)}" for n, s in enumerate(bound.shape))
    value = (
        f"_spread({text}, {{{sizes}}}, {len(order)}){kept}" if order else f"np.asarray({text}).reshape(())"
    )
    return [f"# {show_statement(statement)}", f"a[{statement.target!r}] = {value}.reshape(({shape}))"]


def _scans(node: Node) -> list[Reduce]:
    from cuda_harness.tools.formula.nodes import walk

    return [n for n in walk(node) if isinstance(n, Reduce) and n.bound is not None]
