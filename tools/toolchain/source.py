"""Facts of a kernel's text: signatures, includes, conditionals, device state. Parsed, never matched by pattern alone.

The tree comes from tree-sitter's CUDA grammar.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from cuda_harness.tools.toolchain.directives import Include, Remark, as_read, blank_comments, directive_facts
from cuda_harness.tools.toolchain.macros import expand_hiding

MAX_SOURCE = 1 << 20
_WORD = re.compile(r"[A-Za-z_]\w*")
_C_DTYPES: dict[str, tuple[str, int]] = {
    "float": ("float32", 1), "double": ("float64", 1), "__half": ("float16", 1), "half": ("float16", 1),
    "__half2": ("float16", 2), "half2": ("float16", 2), "__nv_bfloat16": ("bfloat16", 1), "nv_bfloat16": ("bfloat16", 1),
    "__nv_bfloat162": ("bfloat16", 2), "nv_bfloat162": ("bfloat16", 2), "__nv_fp8_e4m3": ("float8_e4m3", 1),
    "__nv_fp8_e5m2": ("float8_e5m2", 1), "bool": ("bool", 1), "char": ("int8", 1), "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1), "uchar": ("uint8", 1), "int8_t": ("int8", 1), "uint8_t": ("uint8", 1),
    "short": ("int16", 1), "unsigned short": ("uint16", 1), "ushort": ("uint16", 1), "int16_t": ("int16", 1),
    "uint16_t": ("uint16", 1), "int": ("int32", 1), "unsigned": ("uint32", 1), "unsigned int": ("uint32", 1),
    "uint": ("uint32", 1), "int32_t": ("int32", 1), "uint32_t": ("uint32", 1), "long": ("int64", 1),
    "unsigned long": ("uint64", 1), "ulong": ("uint64", 1), "long long": ("int64", 1),
    "unsigned long long": ("uint64", 1), "long long int": ("int64", 1), "unsigned long long int": ("uint64", 1),
    "int64_t": ("int64", 1), "uint64_t": ("uint64", 1), "size_t": ("uint64", 1), "ptrdiff_t": ("int64", 1),
    "long int": ("int64", 1), "unsigned long int": ("uint64", 1), "short int": ("int16", 1),
    "unsigned short int": ("uint16", 1), "signed": ("int32", 1), "signed int": ("int32", 1), "uintptr_t": ("uint64", 1),
    "intptr_t": ("int64", 1), "__nv_fp8_storage_t": ("uint8", 1),
}  # fmt: skip
for _base, _dtype in (
    ("char", "int8"), ("uchar", "uint8"), ("short", "int16"), ("ushort", "uint16"), ("int", "int32"),
    ("uint", "uint32"), ("long", "int64"), ("ulong", "uint64"), ("longlong", "int64"), ("ulonglong", "uint64"),
    ("float", "float32"), ("double", "float64"),
):  # fmt: skip
    for _lanes in (1, 2, 3, 4):
        _C_DTYPES[f"{_base}{_lanes}"] = (_dtype, _lanes)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    c_type: str
    """Type of the value, or of what the pointer points to, without qualifiers."""
    is_pointer: bool
    is_const: bool
    """The pointee cannot be written."""
    dtype: str | None
    """IR element type, `None` when the C type has none (`void`, a struct)."""
    lanes: int = 1
    """Elements in one value of a vector type."""
    is_tensor_map: bool = False


@dataclass(frozen=True)
class KernelSignature:
    """One `__global__` function."""

    name: str
    is_extern_c: bool
    is_template: bool
    parameters: tuple[Parameter, ...]
    launch_bounds: int | None
    line: int


@dataclass(frozen=True)
class Symbol:
    """A device global."""

    name: str
    space: str
    """`device`, `constant` or `static` (a local that survives)."""
    is_extern_c: bool
    line: int


@dataclass(frozen=True)
class SourceFacts:
    """What the text of a kernel says."""

    kernels: tuple[KernelSignature, ...] = ()
    includes: tuple[Include, ...] = ()
    violations: tuple[Remark, ...] = ()
    """What the policy refuses, in line order."""
    asm: tuple[Remark, ...] = ()
    globals: tuple[Symbol, ...] = ()
    syntax_errors: tuple[Remark, ...] = ()
    identifiers: frozenset[str] = field(default_factory=frozenset)

    def kernel(self, name: str) -> KernelSignature | None:
        """Return the kernel called `name`."""
        return next((k for k in self.kernels if k.name == name), None)


@cache
def _parser() -> Any:  # noqa: ANN401 - tree_sitter has no public protocol
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def parse_tree(data: bytes) -> Any:  # noqa: ANN401 - tree_sitter.Node
    """Return the root of the syntax tree of a CUDA C++ text."""
    return _parser().parse(data).root_node


@lru_cache(maxsize=64)
def inspect(source: str) -> SourceFacts:
    """Return the facts of `source`; a broken or enormous text gives syntax errors, never an exception."""
    if len(source) > MAX_SOURCE or "\0" in source:
        what = "binary data" if "\0" in source else f"longer than {MAX_SOURCE} characters"
        return SourceFacts(syntax_errors=(Remark(1, f"the source is {what}"),))
    text = as_read(source)
    includes, refused = directive_facts(text)
    hidden = expand_hiding(text)
    data = (source if hidden == text else hidden).encode("utf-8", "replace")
    found = _Walker(data)
    found.walk(parse_tree(data))
    return SourceFacts(
        kernels=tuple(found.kernels),
        includes=tuple(includes),
        violations=tuple(sorted(refused, key=lambda r: r.line)),
        asm=tuple(found.asm),
        globals=tuple(found.globals),
        syntax_errors=tuple(found.errors[:20]),
        identifiers=frozenset(_WORD.findall(text)),
    )


class _Walker:
    """Collects facts from the syntax tree."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.kernels: list[KernelSignature] = []
        self.asm: list[Remark] = []
        self.globals: list[Symbol] = []
        self.errors: list[Remark] = []

    def text(self, node: Any) -> str:  # noqa: ANN401 - tree_sitter.Node
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def walk(self, root: Any) -> None:  # noqa: ANN401 - tree_sitter.Node
        stack = [(root, False, False, False)]
        while stack:
            node, extern_c, template, inside = stack.pop()
            kind = node.type
            line = node.start_point[0] + 1
            if kind == "ERROR" or node.is_missing:
                self.errors.append(Remark(line, "syntax error near " + repr(self.text(node)[:40])))
            if kind == "linkage_specification":
                extern_c = True
            elif kind == "template_declaration":
                template = True
            elif kind == "gnu_asm_expression":
                self.asm.append(Remark(line, self.text(node)[:400]))
            elif kind == "function_definition":
                self._function(node, extern_c=extern_c, template=template)
                inside = True
            elif kind == "declaration":
                self._declaration(node, extern_c=extern_c, inside=inside)
            stack.extend((child, extern_c, template, inside) for child in reversed(node.children))

    def _head(self, node: Any) -> str:  # noqa: ANN401 - tree_sitter.Node
        body = node.child_by_field_name("body")
        end = body.start_byte if body is not None else node.end_byte
        return blank_comments(self.data[node.start_byte : end].decode("utf-8", "replace"))

    def _function(self, node: Any, *, extern_c: bool, template: bool) -> None:  # noqa: ANN401
        head = self._head(node)
        if not re.search(r"\b__global__\b", head):
            return
        declarator = _find(node, "function_declarator")
        if declarator is None:
            return
        name_node = declarator.child_by_field_name("declarator")
        parameters = declarator.child_by_field_name("parameters")
        bounds = re.search(r"__launch_bounds__\s*\(\s*(\d+)\s*[,)]", head)
        listed = tuple(
            self._parameter(c)
            for c in (parameters.named_children if parameters else ())
            if c.type.endswith("parameter_declaration")
        )
        listed = tuple(p for p in listed if p.c_type != "void" or p.is_pointer)
        self.kernels.append(
            KernelSignature(
                name=self.text(name_node) if name_node is not None else "?",
                is_extern_c=extern_c,
                is_template=template,
                parameters=listed,
                launch_bounds=int(bounds.group(1)) if bounds else None,
                line=(name_node or node).start_point[0] + 1,
            )
        )

    def _parameter(self, node: Any) -> Parameter:  # noqa: ANN401 - tree_sitter.Node
        return parse_parameter(blank_comments(self.text(node)))

    def _declaration(self, node: Any, *, extern_c: bool, inside: bool) -> None:  # noqa: ANN401
        head = blank_comments(self.text(node)).split("=")[0]
        words = set(_WORD.findall(head))
        if "__shared__" in words:
            return
        space = (
            "device"
            if words & {"__device__", "__managed__"}
            else "constant"
            if "__constant__" in words
            else None
        )
        if space is None and inside and "static" in words and not words & {"constexpr", "const"}:
            space = "static"
        if space is None or _find(node, "function_declarator") is not None:
            return
        identifier = next((n for n in _all(node, {"identifier"})), None)
        if identifier is not None:
            self.globals.append(Symbol(self.text(identifier), space, extern_c, node.start_point[0] + 1))


def parse_parameter(text: str) -> Parameter:
    """Return the parameter that `text` declares, for example `const float* __restrict__ x`."""
    text = text.split("=", maxsplit=1)[0]
    tensor_map = "CUtensorMap" in text
    array = "[" in text
    cleaned = re.sub(r"\[[^\]]*\]", " ", text)
    cleaned = re.sub(r"__attribute__\s*\(\(.*?\)\)|__align__\s*\([^)]*\)|alignas\s*\([^)]*\)", " ", cleaned)
    stars = cleaned.count("*") + int(array)
    before = cleaned.split("*")[0] if "*" in cleaned else cleaned
    words = _WORD.findall(cleaned)
    qualifiers = {
        "const",
        "volatile",
        "__restrict__",
        "__restrict",
        "restrict",
        "struct",
        "register",
        "__grid_constant__",
    }
    kept = [w for w in words if w not in qualifiers]
    is_const = bool(re.search(r"\bconst\b", before))
    name = kept[-1] if len(kept) > 1 and (" ".join(kept) not in _C_DTYPES) else ""
    base = " ".join(kept[:-1] if name else kept)
    base = re.sub(r"^(?:std|cuda std)\s+", "", base)
    dtype, lanes = _C_DTYPES.get(base, (None, 1))
    if stars > 1:
        dtype, lanes = None, 1
    return Parameter(
        name=name, c_type=base or "?", is_pointer=stars > 0, is_const=is_const, dtype=dtype, lanes=lanes,
        is_tensor_map=tensor_map,
    )  # fmt: skip


def _find(node: Any, kind: str) -> Any:  # noqa: ANN401 - tree_sitter.Node or None
    return next(iter(_all(node, {kind})), None)


def _all(node: Any, kinds: set[str]) -> Iterator[Any]:  # noqa: ANN401 - tree_sitter.Node
    stack = [node]
    while stack:
        current = stack.pop(0)
        if current.type in kinds:
            yield current
        if current.type != "compound_statement":
            stack[:0] = current.children
