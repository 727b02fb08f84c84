"""Formulas as CUDA C++: types, loads and stores, index arithmetic, and the helpers a kernel needs."""

import re
from dataclasses import dataclass, field

from cuda_harness.state.names import C_TYPES
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
)
from cuda_harness.tools.formula.parse import FormulaError

C_REAL = {"float32": "float", "float64": "double", "int64": "int64_t"}
_CPP = """alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue decltype
default delete do double else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not nullptr operator or private protected public register return short signed sizeof static struct switch
template this throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor threadIdx
blockIdx blockDim gridDim warpSize size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t dim3 half min max
abs exp log sqrt sin cos tan pow erf floor ceil trunc round index y0 y1 gamma lgamma tgamma j0 j1 jn yn div main time signal
isnan isinf remainder"""
_LOCALS = """acc acc_at all at at_b at_m at_n base batch best carry d earlier first first_across first_along first_k first_m
first_n flat kk lane left lost mm nn offset other part part_at parts place places rank right row side_m side_n start step stride
sum term term_at tile total tx ty value value_b values w warp warps begin c col e end f four_m four_n g held k l last left_next now packs
parts_at patch r right_next s split t tiles_across tiles_along tiles_m tiles_n v warp_m warp_n"""
_RESERVED = frozenset(f"{_CPP} {_LOCALS}".split())
"""Words that a parameter may not have for a name: C++, the prelude, the math library, locals of the skills."""

CHUNK = 64
"""Terms of one partial sum: a long sum is added up in pieces, so that its error grows with their number, not with n."""


def c_name(name: str, taken: frozenset[str] | set[str] = frozenset()) -> str:
    """Return `name`, or `name` with underscores where C++ or `taken` needs them."""
    while name in _RESERVED or name in taken or re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
        name += "_"
    return name


@dataclass
class KernelText:
    """One kernel being written: parameters are collected as expressions ask for them."""

    problem: Problem
    name: str
    parameters: dict[str, tuple[str, str]] = field(default_factory=dict)
    """C name -> (C type, argument of the plan)."""
    helpers: dict[str, str] = field(default_factory=dict)
    """Device functions by name, in order of need."""
    locals_: dict[str, str] = field(default_factory=dict)
    """Array name -> C variable, for values that stay in registers."""
    types: dict[str, str] = field(default_factory=dict)
    """Element type of arrays that this lowering keeps in scratch buffers."""
    macros: dict[str, str] = field(default_factory=dict)
    """Names as this kernel's text has them -> names in the source, where several kernels have a macro of one name."""
    _names: dict[str, str] = field(default_factory=dict)

    def pointer(self, array: str, *, written: bool) -> str:
        """Return the C name of a buffer's parameter."""
        dtype = self.types.get(array) or self.problem.arrays[array].dtype
        name = self._fresh(f"p:{array}", array)
        kind, argument = self.parameters.get(name, ("", array))
        const = "" if written or (kind and not kind.startswith("const")) else "const "
        self.parameters[name] = (f"{const}{C_TYPES[dtype]}* __restrict__", argument)
        return name

    def size(self, expression: str) -> str:
        """Return the C text of a size: a literal, or a 64-bit parameter that the plan computes."""
        if expression.isdecimal():
            return expression
        plain = expression if expression.isidentifier() else "size"
        name = self._fresh(f"s:{expression}", plain)
        self.parameters[name] = ("int64_t", expression)
        return name

    def scalar(self, name: str) -> str:
        """Return the C name of a scalar's parameter."""
        own = self._fresh(f"c:{name}", name)
        self.parameters[own] = (C_TYPES[self.problem.scalars[name].dtype], name)
        return own

    def _fresh(self, key: str, wanted: str) -> str:
        if key not in self._names:
            self._names[key] = c_name(wanted, set(self._names.values()))
        return self._names[key]

    def reserve(self, wanted: str) -> str:
        """Return an unused C name for a local variable or an index."""
        return self._fresh(f"l:{wanted}:{len(self._names)}", wanted)

    def signature(self, name: str = "", *, bounds: str = "") -> str:
        """Return the kernel's head, up to the opening brace; `bounds` are its launch bounds."""
        listed = ", ".join(f"{kind} {own}" for own, (kind, _) in self.parameters.items())
        limit = f" __launch_bounds__({bounds})" if bounds else ""
        return f'extern "C" __global__ void{limit} {name or self.name}({listed})'

    @property
    def args(self) -> list[str]:
        """Arguments of the plan, in the order of the parameters."""
        return [argument for _, argument in self.parameters.values()]


@dataclass
class Emitter:
    """Writes the expressions of one statement inside one kernel."""

    text: KernelText
    bound: Bound
    index: dict[str, str]
    """Index variable -> C expression."""
    dtype: str
    """`float32`, `float64` or `int64`: how the statement computes."""
    flat: str = ""
    """C expression of the left side's linear index, where it is known."""
    replaced: dict[Node, str] = field(default_factory=dict)
    """Parts that are already in a variable."""
    loaded: dict[str, str] = field(default_factory=dict)
    """Array -> C expression of its element, where it was loaded before."""

    @property
    def real(self) -> str:
        """The C type of the computation."""
        return C_REAL[self.dtype]

    def value(self, node: Node) -> str:
        """Return the C expression of a node; raises FormulaError for what this skill cannot write."""
        known = self.replaced.get(node)
        if known is not None:
            return known
        match node:
            case Num(value, text):
                return self._number(value, text)
            case Name(name):
                return self._name(name)
            case Access():
                return self._load(node)
            case Negate(operand):
                return f"(-{self.value(operand)})"
            case Call():
                return self._call(node)
            case Binary(op, left, right):
                return self._binary(op, left, right)
            case Reduce():
                msg = "a reduction stands where this lowering does not expect one"
                raise FormulaError(msg)

    def _number(self, value: float, text: str) -> str:
        if self.dtype == "int64":
            if value != int(value):
                msg = f"{text} is no integer, and the arrays hold integers"
                raise FormulaError(msg)
            return f"int64_t({int(value)})"
        digits = repr(value)
        return f"{digits}f" if self.dtype == "float32" else digits

    def _name(self, name: str) -> str:
        if name in self.index:
            return f"{self.real}({self.index[name]})"
        problem = self.text.problem
        if name in self.text.locals_:
            return self.text.locals_[name]
        if name in problem.scalars:
            return _converted(self.text.scalar(name), problem.scalars[name].dtype, self.dtype)
        if name in problem.dims:
            return f"{self.real}({self.text.size(name)})"
        return self._load(Access(name, ()))

    def _load(self, access: Access) -> str:
        local = self.text.locals_.get(access.name)
        if local is not None:
            return local
        dtype = self.text.types.get(access.name) or self.text.problem.arrays[access.name].dtype
        element = self.loaded.get(access.name)
        if element is None:
            element = f"{self.text.pointer(access.name, written=False)}[{self.address(access)}]"
        return _converted(element, dtype, self.dtype)

    def address(self, access: Access) -> str:
        """Return the linear index of an access, in 64 bits."""
        indices = access.indices
        own = self.bound.statement.indices
        if self.flat and len(indices) == len(own) and all(
            isinstance(i, Name) and i.name == v for i, v in zip(indices, own, strict=True)
        ):  # fmt: skip
            shape = self.text.problem.arrays[access.name].shape
            if shape == self.bound.shape:
                return self.flat
        shape = self.text.problem.arrays[access.name].shape
        place = ""
        for index, extent in zip(indices, shape, strict=True):
            own_text = self.position(index)
            place = own_text if not place else f"({place}) * {self.text.size(extent)} + {own_text}"
        return place or "0"

    def position(self, node: Node) -> str:
        """Return an index expression in 64-bit integers."""
        match node:
            case Num(value, _) if value == int(value):
                return str(int(value))
            case Name(name) if name in self.index:
                return self.index[name]
            case Name(name) if name in self.text.problem.dims:
                return self.text.size(name)
            case Access():
                pointer = self.text.pointer(node.name, written=False)
                return f"int64_t({pointer}[{self.address(node)}])"
            case Binary(op, left, right) if op in "+-*":
                return f"({self.position(left)} {op} {self.position(right)})"
            case Negate(operand):
                return f"(-{self.position(operand)})"
            case _:
                msg = "an index is made of index variables, dims, integers, + - * and integer tensors"
                raise FormulaError(msg)

    def _call(self, node: Call) -> str:
        function = FUNCTIONS[node.name]
        args = [self.value(a) for a in node.args]
        if node.name == "where" and self.dtype != "int64":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        body = function.c_int if self.dtype == "int64" else function.c_body
        if self.dtype == "int64" and not body:
            msg = f"{node.name!r} is not defined for integer arrays here"
            raise FormulaError(msg)
        if body:
            name = f"{node.name}_of"
            self.text.helpers[f"{name}:{self.dtype}"] = _device_function(
                name, function.parameters, body, self.dtype
            )
            return f"{name}({', '.join(args)})"
        return _typed(function.c, self.dtype).format(*args)

    def _binary(self, op: str, left: Node, right: Node) -> str:
        if op == "^":
            return self._power(left, right)
        if op == "/" and self.dtype == "int64":
            msg = "a quotient of integer arrays needs a floating-point output"
            raise FormulaError(msg)
        text = f"({self.value(left)} {op} {self.value(right)})"
        return text if op in "+-*/" else f"{self.real}({text})"

    def _power(self, base: Node, exponent: Node) -> str:
        if isinstance(exponent, Num) and exponent.value in {1, 2, 3, 4}:
            name = f"pow{int(exponent.value)}_of"
            product = " * ".join(["x"] * int(exponent.value))
            self.text.helpers[f"{name}:{self.dtype}"] = _device_function(
                name, ("x",), f"return {product};", self.dtype
            )
            return f"{name}({self.value(base)})"
        if self.dtype == "int64":
            msg = "integer powers beyond 4 are not lowered"
            raise FormulaError(msg)
        if isinstance(exponent, Num) and exponent.value == 0.5:
            return _typed("sqrt@({0})", self.dtype).format(self.value(base))
        return _typed("pow@({0}, {1})", self.dtype).format(self.value(base), self.value(exponent))

    def store(self, value: str) -> str:
        """Return the statement that writes the left side's element."""
        return self.store_to(self.bound.statement.target, value)

    def result(self, value: str) -> str:
        """Return `value` as an element of the left side's dtype."""
        target = self.bound.statement.target
        dtype = self.text.types.get(target) or self.text.problem.arrays[target].dtype
        return rounded(value, dtype, self.dtype)

    def store_to(self, target: str, value: str, place: str = "") -> str:
        """Return the statement that writes `value` to an element of `target`."""
        pointer = self.text.pointer(target, written=True)
        dtype = self.text.types.get(target) or self.text.problem.arrays[target].dtype
        statement = self.bound.statement
        place = place or self.flat or self.address(Access(target, tuple(Name(v) for v in statement.indices)))
        return f"{pointer}[{place}] = {rounded(value, dtype, self.dtype)};"


def rounded(value: str, dtype: str, computed: str) -> str:
    """Return `value`, computed as `computed`, as an element of `dtype`."""
    if dtype == "float16":
        return f"__float2half_rn({value})" if computed != "float64" else f"__double2half({value})"
    if dtype == "bfloat16":
        return f"__float2bfloat16_rn(float({value}))"
    if dtype == "bool":
        return f"(({value}) != 0)"
    return value if C_TYPES[dtype] == C_REAL[computed] else f"{C_TYPES[dtype]}({value})"


def _converted(text: str, dtype: str, computed: str) -> str:
    if dtype in {"float16", "bfloat16"}:
        text = f"{'__half2float' if dtype == 'float16' else '__bfloat162float'}({text})"
        return text if computed == "float32" else f"{C_REAL[computed]}({text})"
    return text if C_TYPES[dtype] == C_REAL[computed] else f"{C_REAL[computed]}({text})"


def _typed(template: str, dtype: str) -> str:
    """Return a C template with math functions (`@`) and constants (`~`) of the type computed in."""
    single = dtype == "float32"

    def constant(match: re.Match[str]) -> str:
        digits = match[1] if "." in match[1] else f"{match[1]}.0"
        return f"{digits}f" if single else digits

    return re.sub(r"(\d+(?:\.\d+)?)~", constant, template).replace("@", "f" if single else "")


def _device_function(name: str, parameters: tuple[str, ...], body: str, dtype: str) -> str:
    real = C_REAL[dtype]
    body = re.sub(r"\bT\b", real, _typed(body, dtype))
    listed = ", ".join(f"{real} {p}" for p in parameters)
    return f"__device__ __forceinline__ {real} {name}({listed}) {{\n  {body}\n}}"


def headers(problem: Problem, source: str) -> str:
    """Return the includes that a source needs."""
    used = {a.dtype for a in problem.arrays.values()}
    lines = []
    if "float16" in used and "half" in source:
        lines.append("#include <cuda_fp16.h>")
    if "bfloat16" in used and "bfloat16" in source:
        lines.append("#include <cuda_bf16.h>")
    if "nvcuda::wmma" in source:
        lines.append("#include <mma.h>")
    return "\n".join(lines) + ("\n\n" if lines else "")


def product(sizes: list[str] | tuple[str, ...]) -> str:
    """Return the product of size expressions as an expression of the plan."""
    factors = [s for s in sizes if s != "1"]
    if not factors:
        return "1"
    return (
        factors[0]
        if len(factors) == 1
        else "*".join(f if f.replace("_", "a").isalnum() else f"({f})" for f in factors)
    )


def unflatten(
    text: KernelText, variables: tuple[str, ...], extents: dict[str, str], flat: str, names: dict[str, str]
) -> list[str]:
    """Return C lines that declare each index variable from a linear index, the last running fastest."""
    lines: list[str] = []
    rest = flat
    for place, variable in enumerate(reversed(variables)):
        size = text.size(extents[variable])
        own = names[variable]
        if place == len(variables) - 1:
            lines.append(f"const int64_t {own} = {rest};")
        else:
            lines.append(f"const int64_t {own} = {rest} % {size};")
            rest = f"{rest} / {size}" if place == 0 else f"({rest}) / {size}"
    return lines
