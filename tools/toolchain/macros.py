"""Macros that hide what the scan of a kernel must see (`__global__`, `__shared__`, inline PTX), expanded in place.

Only such macros are expanded, line for line; all others are left to the compiler. A name that is defined twice or
undefined again is left alone: which body holds is then the preprocessor's knowledge.
"""

import re
from dataclasses import dataclass

_HIDING = re.compile(r"\b(?:__global__|__shared__|asm|__asm__)\b")
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\(([^()]*)\))?[ \t]*(.*)")
_UNDEF = re.compile(r"[ \t]*#[ \t]*undef[ \t]+([A-Za-z_]\w*)")
_TOKEN = re.compile(r"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|[A-Za-z_]\w*|\d[\w.']*|\s+|.", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|[^\s\w]")
_MAX_NESTING = 200
_DEPTH = 8
_MAX_GROWTH = 1 << 18
"""Characters that expansion may add."""


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: str


def expand_hiding(text: str) -> str:
    """Return `text` with the macros that hide a kernel, a shared variable or PTX expanded; every line keeps its number.

    Args:
        text: Source as `source.as_read` gives it: no comments, no spliced lines.
    """
    if "#" not in text or not _HIDING.search(text):
        return text
    lines = text.split("\n")
    macros = _hiding_macros(lines)
    if not macros:
        return text
    kept = ["" if (m := _DEFINE.match(line)) and m.group(1) in macros else line for line in lines]
    expansion = _Expansion(macros)
    pieces: list[str] = []
    chunk: list[str] = []
    for line in kept:
        if line.lstrip().startswith("#"):
            pieces += [expansion.of("\n".join(chunk)), line] if chunk else [line]
            chunk = []
        else:
            chunk.append(line)
    if chunk:
        pieces.append(expansion.of("\n".join(chunk)))
    return "\n".join(pieces) if expansion.room > 0 else text


def expanded_words(text: str) -> int:
    """Return how many words macros make of `text`, at least: arguments count once, unclear bodies at their shortest.

    Args:
        text: Source as `source.as_read` gives it.
    """
    bodies: dict[str, list[list[str]]] = {}
    code: list[str] = []
    for line in text.split("\n"):
        if (made := _DEFINE.match(line)) is not None:
            bodies.setdefault(made.group(1), []).append(_WORD.findall(made.group(4)))
        elif not line.lstrip().startswith("#"):
            code += _WORD.findall(line)
    sizes: dict[str, int] = {}

    def size(name: str, open_names: frozenset[str]) -> int:
        if name not in bodies or name in open_names:
            return 1
        if name not in sizes:
            inside = open_names | {name}
            if len(inside) > _MAX_NESTING:
                return 1
            sizes[name] = min(sum(size(word, inside) for word in body) for body in bodies[name])
        return sizes[name]

    return sum(size(word, frozenset()) for word in code)


def _hiding_macros(lines: list[str]) -> dict[str, _Macro]:
    found: dict[str, _Macro] = {}
    unclear: set[str] = set()
    for line in lines:
        if (undone := _UNDEF.match(line)) is not None:
            unclear.add(undone.group(1))
        if (made := _DEFINE.match(line)) is None:
            continue
        name, in_brackets, listed, body = made.groups()
        if name in found:
            unclear.add(name)
        parameters = tuple(p.strip() for p in listed.split(",") if p.strip()) if in_brackets else None
        found[name] = _Macro(parameters, body)
    hiding = {n for n, m in found.items() if _HIDING.search(m.body)}
    while True:
        more = {n for n, m in found.items() if hiding & set(re.findall(r"[A-Za-z_]\w*", m.body))} - hiding
        if not more:
            break
        hiding |= more
    return {n: found[n] for n in hiding - unclear}


class _Expansion:
    """Replaces calls of macros; `room` is what it may still add, none once it has run out."""

    def __init__(self, macros: dict[str, _Macro]) -> None:
        self.macros = macros
        self.room = _MAX_GROWTH

    def of(self, text: str, depth: int = 0) -> str:
        tokens = _TOKEN.findall(text)
        out: list[str] = []
        at = 0
        while at < len(tokens):
            macro = self.macros.get(tokens[at])
            arguments: list[str] | None = []
            after = at + 1
            if macro is not None and macro.parameters is not None:
                arguments, after = _arguments(tokens, at + 1)
            if macro is None or arguments is None or depth >= _DEPTH or self.room <= 0:
                out.append(tokens[at])
                at += 1
                continue
            body = macro.body if macro.parameters is None else _substituted(macro, arguments)
            self.room -= len(body) + 1
            out.append(self.of(body, depth + 1) + "\n" * "".join(tokens[at:after]).count("\n"))
            at = after
        return "".join(out)


def _arguments(tokens: list[str], at: int) -> tuple[list[str] | None, int]:
    """Return the arguments of a call whose bracket follows at `at`, and the index behind it."""
    while at < len(tokens) and tokens[at].isspace():
        at += 1
    if at >= len(tokens) or tokens[at] != "(":
        return None, at
    depth, arguments = 0, [""]
    for index in range(at, len(tokens)):
        word = tokens[index]
        if word in {"(", "[", "{"}:
            depth += 1
        elif word in {")", "]", "}"}:
            depth -= 1
            if depth == 0:
                return [" ".join(a.split()) for a in arguments], index + 1
        if depth == 1 and word == ",":
            arguments.append("")
        elif index > at:
            arguments[-1] += word
    return None, at


def _substituted(macro: _Macro, arguments: list[str]) -> str:
    assert macro.parameters is not None  # noqa: S101 - only called for macros with parameters
    names = [p.removesuffix("...").strip() or "__VA_ARGS__" for p in macro.parameters]
    if macro.parameters and macro.parameters[-1].endswith("..."):
        first = len(names) - 1
        arguments = [*arguments[:first], ", ".join(arguments[first:])]
    values = dict(zip(names, arguments, strict=False))
    body = re.sub(
        r"(?<!#)#\s*([A-Za-z_]\w*)(?!\s*##)",
        lambda m: _quoted(m, values),
        re.sub(r"\s*##\s*", "##", macro.body),
    )
    out = [values.get(token, token) for token in _TOKEN.findall(body)]
    return "".join(out).replace("##", "")


def _quoted(match: re.Match[str], values: dict[str, str]) -> str:
    value = values.get(match.group(1))
    if value is None:
        return match.group()
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
