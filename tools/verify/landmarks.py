"""Numbers and sizes at which a kernel may behave otherwise, read off its plan and source; never off its behaviour."""

import ast
import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping

from cuda_harness.state.expr import Expr, ExprError
from cuda_harness.state.ir import Dim, KernelIR
from cuda_harness.state.kernel import Kernel, Launch, PlanStep, Repeat, While
from cuda_harness.tools.synthesize.shapes import Sizes, admitted, around, elements, work
from cuda_harness.tools.verify.policy import launches

MOST = 1 << 16
"""Largest landmark."""
_LARGEST_DIM = 1 << 21
_MOST_ELEMENTS = 3_000_000
_MOST_SIZES = 5
_CONSTANT = re.compile(
    r"\bconstexpr\s+[\w\s:]+?\b(\w+)\s*=\s*([^;{}]{1,120});|^[ \t]*#define[ \t]+(\w+)[ \t]+(.+)$",
    re.MULTILINE,
)
_PRODUCT = re.compile(r"(?<![\w.])(\w+)\s*(?:\*|<<)\s*(\w+)(?:\s*\*\s*(\w+))?")
_ARRAY = re.compile(r"\b\w+\s+\w+\s*((?:\[[^\]\n]{1,60}\]\s*)+);")


def landmarks(kernel: Kernel) -> list[int]:
    """Return the numbers at which the kernel may behave otherwise, the smallest first.

    Those of its plan (tunables, and what closed parts of its expressions are worth: `BLOCK * EPT`, 2048), and the
    constants and products of its source (`32 * UNROLL`).
    """
    known = constants(kernel)
    found = set(known.values())
    for expr in _expressions(kernel):
        found |= set(_closed(expr.text, known))
    for match in _PRODUCT.finditer(kernel.source):
        factors = [known.get(w, int(w) if w.isdecimal() else None) for w in match.groups() if w]
        value = 1
        for factor in factors:
            value = value * factor if factor is not None and value else 0
        found.add(value)
    return sorted(n for n in found if 1 < n <= MOST)


def constants(kernel: Kernel) -> dict[str, int]:
    """Return the default tunables and the integer constants of the source, by name."""
    known = kernel.plan.default_tunables()
    for match in _CONSTANT.finditer(kernel.source):
        name, text = (match[1], match[2]) if match[1] else (match[3], match[4])
        value = _value(_plain(text), known)
        if value is not None:
            known = {**known, name: value}
    return known


def _plain(text: str) -> str:
    """Return an integer expression of C in the language of plans: no casts, no suffixes, one kind of division."""
    return re.sub(r"\([\w\s]*\bint\w*\s*\)|(?<=\d)[uUlL]+\b", "", text).replace("/", "//")


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    """Yield the plan's expressions of grids, blocks, conditions, scratch and arguments."""
    yield from (size for scratch in kernel.plan.scratch for size in scratch.shape)
    yield from _of_steps(kernel.plan.steps)


def _of_steps(steps: Iterable[PlanStep]) -> Iterator[Expr]:
    for step in steps:
        when = getattr(step, "when", None)
        if when is not None:
            yield when
        if isinstance(step, (Repeat, While)):
            yield from _of_steps(step.steps)
        if isinstance(step, Launch):
            yield from (*step.grid, *step.block)
            for text in step.args:
                with contextlib.suppress(ExprError):
                    yield Expr(text.partition(":")[0] if isinstance(text, str) else 0)


def _closed(text: str, known: Mapping[str, int]) -> Iterator[int]:
    """Yield the values of the parts of an expression that name nothing but tunables."""
    for node in ast.walk(ast.parse(text.strip(), mode="eval")):
        if isinstance(node, (ast.Constant, ast.BinOp, ast.Name)):
            value = _value(ast.unparse(node), known)
            if value is not None:
                yield value


def _value(text: str, known: Mapping[str, int]) -> int | None:
    try:
        return Expr(text.strip()).evaluate(known)
    except ExprError:
        return None


def beyond(kernel: Kernel, ir: KernelIR, *, budget: int) -> list[Sizes]:
    """Return a few sizes at which quantities of the plan exceed what may be taken for their limit.

    Quantities: grids, arguments, scratch, tensors and their parts. Limits: threads of a block, closed caps
    (`min(cdiv(n, 128), 64)`), lengths of arrays in the source. One block then no longer does all, a capped grid must
    take turns, an array is too short.

    Args:
        kernel: Plan and source.
        ir: Dims and tensors.
        budget: Most work at one set of sizes; fifty times that where a grid is capped.
    """
    known = {**constants(kernel), "num_sms": 8}
    caps = set(_caps(kernel, known))
    limits = {1, *_limits(kernel, known)}  # a scratch of one element, say `max(1, n // 2**18)`, must grow too
    pairs = {(q, t, budget) for q in _quantities(kernel, ir) for t in limits}
    pairs |= {(q, t, 50 * budget) for q, t in caps}
    wanted = []
    for quantity, limit, most in pairs:
        options = [
            s
            for s in _exceeding(ir, quantity, limit, known)
            if work(ir, s) <= most and elements(ir, s) <= _MOST_ELEMENTS
        ]
        if options:
            best = min(options, key=lambda s: work(ir, s))
            wanted.append((work(ir, best), str(quantity), limit, best))
    chosen: list[Sizes] = []
    for _, quantity_text, limit, sizes in sorted(wanted, key=lambda w: w[:3], reverse=True):
        quantity = Expr(quantity_text)
        if not any((_at(quantity, s, known) or 0) > limit for s in chosen):
            chosen.append(sizes)
    return sorted(chosen[:_MOST_SIZES], key=lambda s: work(ir, s))


def _quantities(kernel: Kernel, ir: KernelIR) -> set[Expr]:
    """Return the parts of the plan's expressions that depend on dims, and the elements of each tensor."""
    dims = {d.name for d in ir.dims if not d.fixed}
    found = {Expr("*".join(f"({s.text})" for s in t.shape)) for t in ir.tensors if t.shape}
    for expr in _expressions(kernel):
        for node in ast.walk(ast.parse(expr.text.strip(), mode="eval")):
            if isinstance(node, (ast.BinOp, ast.Call, ast.Name)):
                with contextlib.suppress(ExprError):
                    found.add(Expr(ast.unparse(node)))
    return {e for e in found if e.names & dims and e.names <= dims | set(kernel.plan.tunables) | {"num_sms"}}


def _limits(kernel: Kernel, known: Mapping[str, int]) -> set[int]:
    found = set()
    for launch in launches(kernel.plan.steps):
        sizes = [_value(axis.text, known) for axis in launch.block]
        if all(sizes):
            found.add(math.prod(s for s in sizes if s))
    for match in _ARRAY.finditer(kernel.source):
        lengths = [_value(_plain(text), known) for text in re.findall(r"\[([^\]]*)\]", match[1])]
        found |= {n for n in lengths if n}
        if all(lengths):
            found.add(math.prod(n for n in lengths if n))
    return {n for n in found if 32 <= n <= MOST}


def _caps(kernel: Kernel, known: Mapping[str, int]) -> Iterator[tuple[Expr, int]]:
    """Yield what a `min` of a grid holds down, and to what."""
    for launch in launches(kernel.plan.steps):
        for axis in launch.grid:
            for node in ast.walk(ast.parse(axis.text.strip(), mode="eval")):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "min":
                    values = [_value(ast.unparse(a), known) for a in node.args]
                    cap = min((v for v in values if v is not None), default=None)
                    if cap is not None and cap <= MOST:
                        yield from (
                            (Expr(ast.unparse(a)), cap)
                            for a, v in zip(node.args, values, strict=True)
                            if v is None
                        )


def _exceeding(ir: KernelIR, quantity: Expr, limit: int, known: Mapping[str, int]) -> Iterator[Sizes]:
    """Yield sizes at which a quantity just exceeds a limit: one dim grown, or all that it depends on."""
    free = [d for d in ir.dims if d.name in quantity.names and not d.fixed]
    few = {d.name: min(around(d, (5,), most=64), key=lambda n: abs(n - 5)) for d in ir.dims}
    least = {d.name: d.value if d.fixed else around(d, (1,), most=64)[0] for d in ir.dims}
    for grown in ([d] for d in free) if len(free) == 1 else (*([d] for d in free), free):
        for others in (least, few):
            sizes = _grown(ir, quantity, limit, known, [d.name for d in grown], others)
            if sizes is not None:
                yield sizes
                break


def _grown(
    ir: KernelIR, quantity: Expr, limit: int, known: Mapping[str, int], names: list[str], others: Sizes
) -> Sizes | None:
    def at(size: int) -> int:
        return _at(quantity, {**others, **dict.fromkeys(names, size)}, known) or 0

    high = 1
    while at(high) <= limit:
        high *= 2
        if high > _LARGEST_DIM:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle) > limit else (middle, high)
    sizes = {**others, **{d.name: _next(d, high) for d in ir.dims if d.name in names}}
    bound = {n for c in ir.constraints if c.names & set(names) for n in c.names} - set(names)
    roomy = {
        d.name: _next(d, high + 3) if d.name in bound and not d.fixed else sizes[d.name] for d in ir.dims
    }
    return next((s for s in (sizes, roomy) if admitted(ir, s)), None)


def _next(dim: Dim, size: int) -> int:
    """Return the least size from `size` on that the dim's rules of multiples and powers admit."""
    if dim.power_of_two:
        return 1 << (size - 1).bit_length()
    return -(-size // dim.multiple_of) * dim.multiple_of


def _at(quantity: Expr, sizes: Sizes, known: Mapping[str, int]) -> int | None:
    try:
        return quantity.evaluate({**known, **sizes}, lambda _: 2)
    except ExprError:
        return None
