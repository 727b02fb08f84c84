"""Conversions of floats to integers that saturate as on a GPU, by edits of the kernel's text; lines keep their number.

Explicit casts are found in the syntax tree. Implicit conversions need types: g++ names them (`-Wfloat-conversion`) with
their place. What neither finds is caught at run time by `-fsanitize=float-cast-overflow` and told as `unsupported`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cuda_harness.tools.execute.cpu.edits import Edit, Node, applied, nodes, text_of
from cuda_harness.tools.toolchain.source import parse_tree

_INTEGER_WORDS = frozenset({"const", "volatile", "signed", "unsigned", "char", "short", "int", "long"})
_INTEGER_NAMES = frozenset(
    {f"{sign}int{size}_t" for sign in ("", "u") for size in (8, 16, 32, 64)}
    | {f"{sign}int_{kind}{size}_t" for sign in ("", "u") for kind in ("fast", "least") for size in (8, 16, 32, 64)}
    | {"size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "intmax_t", "uintmax_t", "ssize_t", "uint", "ushort", "ulong", "uchar"}
)  # fmt: skip
_COMPOUND = {"+=": "add_to", "-=": "take_from", "*=": "multiply_into", "/=": "divide_into"}
_CONVERTED = re.compile(
    r"conversion from .* to ['\u2018]([^'\u2019]+)['\u2019](?: \{aka ['\u2018]([^'\u2019]+)['\u2019]\})?"
)


def saturate_casts(source: str) -> str:
    """Return `source` with each cast to a type that may be an integer as `sim_to<type>(value)`.

    Args:
        source: Text without comments and spliced lines, as `source.as_read` gives it.
    """
    data = source.encode("utf-8", "replace")
    root = parse_tree(data)
    types = _types_of(root, data)
    edits = list(_casts(root, data, types, 0))
    for macro in nodes(root, {"preproc_def", "preproc_function_def"}):
        body = macro.child_by_field_name("value")
        if body is not None:
            edits += _casts_in_macro(data[body.start_byte : body.end_byte], types, body.start_byte)
    return applied(data, edits)


def _types_of(root: Node, data: bytes) -> frozenset[str]:
    """Return the names of the text's own that may stand for an integer type."""
    names = set(_INTEGER_NAMES)
    for node in nodes(root, {"type_definition", "alias_declaration", "type_parameter_declaration", "optional_type_parameter_declaration", "preproc_def"}):  # fmt: skip
        if node.type == "preproc_def":
            value, name = node.child_by_field_name("value"), node.child_by_field_name("name")
            body = text_of(value, data) if value is not None else ""
            if name is not None and _is_integer(body, frozenset(names)):
                names.add(text_of(name, data))
            continue
        names |= {text_of(n, data) for n in nodes(node, {"type_identifier"})}
    return frozenset(names)


def _is_integer(type_text: str, types: frozenset[str]) -> bool:
    """Return whether a type as written may be an integer: dependent and deduced types may be."""
    text = " ".join(type_text.split())
    if not text or re.search(r"[*&\[]", text):
        return False
    if text.startswith(("decltype", "typename ")):
        return True
    words = [w.rsplit("::", 1)[-1] for w in text.split(" ") if w not in {"const", "volatile"}]
    if words and all(w in _INTEGER_WORDS for w in words):
        return True
    return len(words) == 1 and words[0] in types


def _casts(root: Node, data: bytes, types: frozenset[str], shift: int) -> Iterator[Edit]:
    for node in nodes(root, {"cast_expression", "call_expression"}):
        depth = node.end_byte - node.start_byte
        if node.type == "cast_expression":
            kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
            if kind is None or value is None or not _is_integer(text_of(kind, data), types):
                continue
            lines = data.count(b"\n", node.start_byte, value.start_byte)
            head = f"::sim_to<{' '.join(text_of(kind, data).split())}>(" + "\n" * lines
            yield Edit(node.start_byte + shift, -depth, value.start_byte + shift, head)
            yield Edit(node.end_byte + shift, depth, node.end_byte + shift, ")")
            continue
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None or len(arguments.named_children) != 1:
            continue
        if arguments.named_children[0].type in {"initializer_list", "ERROR", "parameter_pack_expansion"}:
            continue
        name = text_of(function, data)
        static = re.fullmatch(r"static_cast\s*<(.*)>", name, re.DOTALL)
        if static is None and node.parent is not None and node.parent.type == "expression_statement":
            continue  # `T(x);` may declare x
        target = static.group(1).strip() if static else name
        if _is_integer(target, types) and "\n" not in target:
            yield Edit(function.start_byte + shift, -depth, function.end_byte + shift, f"::sim_to<{target}>")


def _casts_in_macro(body: bytes, types: frozenset[str], start: int) -> list[Edit]:
    """Return the edits of a macro's body, none when it is no expression or statement by itself."""
    for head, tail in ((b"void f() { return ", b"; }"), (b"void f() { ", b" }"), (b"void f() { ", b"; }")):
        data = head + body + tail
        root = parse_tree(data)
        if not root.has_error:
            return list(_casts(root, data, types, start - len(head)))
    return []


def saturate_implicit(text: str, log: bytes) -> str | None:
    """Return the text with the implicit conversions that the compiler's log names made explicit; `None`: it names none.

    Args:
        text: What g++ was given as kernel.cu.
        log: Its diagnostics as JSON.
    """
    data = text.encode("utf-8", "replace")
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    edits: set[Edit] = set()
    generic = _generic_ranges(parse_tree(data))
    for place in _conversions(log):
        try:
            start, caret, end = (starts[line - 1] + column - 1 for line, column in place.ends)
        except IndexError:
            continue
        edits |= set(_made_explicit(data, start, caret, end + 1, place.target, generic))
    return applied(data, edits) if edits else None


@dataclass(frozen=True)
class _Conversion:
    """Where g++ saw a float become an integer: start, caret and last character, as lines and columns from 1."""

    ends: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    target: str


def _conversions(log: bytes) -> Iterator[_Conversion]:
    for entry in _entries(log):
        if entry.get("option") != "-Wfloat-conversion":
            continue
        said = _CONVERTED.search(str(entry.get("message", "")))
        places = entry.get("locations") or [{}]
        caret = places[0].get("caret") or {}
        if said is None or not str(caret.get("file", "")).endswith("kernel.cu"):
            continue
        ends = [places[0].get(key, caret) for key in ("start", "caret", "finish")]
        target = said.group(2) or said.group(1)
        if _is_integer(target, frozenset()):
            first, middle, last = ((int(e["line"]), int(e.get("byte-column", e["column"]))) for e in ends)
            yield _Conversion((first, middle, last), target)


_LIST = re.compile(r"^\[", re.MULTILINE)


def has_errors(log: bytes) -> bool:
    """Return whether a JSON log of the compiler holds an error of the text's, not of the machine's."""
    return any(entry.get("kind") in {"error", "fatal error", "sorry"} for entry in _entries(log))


def _entries(log: bytes) -> Iterator[dict[str, Any]]:
    """Yield the diagnostics of a log with JSON lists, on one line or, from g++ 14 on, over many; the rest is the linker's."""
    text, at = log.decode("utf-8", "replace"), 0
    decoder = json.JSONDecoder()
    while (found := _LIST.search(text, at)) is not None:
        try:
            listed, at = decoder.raw_decode(text, found.start())
        except ValueError:
            at = found.end()
            continue
        yield from (entry for entry in listed if isinstance(entry, dict))


def _generic_ranges(root: Node) -> list[tuple[int, int]]:
    """Return where one text stands for several types: templates and lambdas with `auto` parameters."""
    found = [(n.start_byte, n.end_byte) for n in nodes(root, {"template_declaration"})]
    for node in nodes(root, {"lambda_expression"}):
        if any(True for _ in nodes(node, {"auto", "placeholder_type_specifier"})):
            found.append((node.start_byte, node.end_byte))
    return found


def _made_explicit(
    data: bytes, start: int, caret: int, end: int, target: str, generic: list[tuple[int, int]]
) -> Iterator[Edit]:
    end = _past_macro(data, end)
    inner = data[start:end]
    if not inner.strip() or any(inner.count(a) != inner.count(b) for a, b in (b"()", b"[]", b"{}")):
        return
    depth = end - start
    operator = data[caret : caret + 2].decode("ascii", "replace")
    if start < caret and operator in _COMPOUND:
        yield Edit(start, -depth, start, f"::sim_{_COMPOUND[operator]}(")
        yield Edit(caret, 0, caret + 2, ",")
    elif any(low <= start < high for low, high in generic):
        yield Edit(start, -depth, start, "::sim_implicitly(")
    else:
        yield Edit(start, -depth, start, f"::sim_to<{target}>(")
    yield Edit(end, depth, end, ")")


def _past_macro(data: bytes, end: int) -> int:
    """Return where an expression ends whose last character, as g++ names it, begins the call of a macro."""
    name = re.compile(rb"\w*").match(data, end)
    at = name.end() if name is not None else end
    if at == end or (call := re.compile(rb"\s*\(").match(data, at)) is None:
        return at
    depth, at = 1, call.end()
    while depth and at < len(data):
        depth += {b"(": 1, b")": -1}.get(data[at : at + 1], 0)
        at += 1
    return at
